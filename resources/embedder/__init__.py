"""The embedder port: the Dagster resource and its engines."""
