"""The mapper port, where the batches of a step run: the Dagster resource and its engines."""
