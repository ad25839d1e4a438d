"""The verifier port: the Dagster resource and its engines."""
