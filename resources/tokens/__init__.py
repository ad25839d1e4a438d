"""The token counter port: the Dagster resource and its engines."""
