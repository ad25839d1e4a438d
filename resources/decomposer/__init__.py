"""The decomposer port: the Dagster resource and its engines."""
