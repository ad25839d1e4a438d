"""The entity recogniser port: the Dagster resource and its engines."""
