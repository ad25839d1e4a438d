"""The judge port: the Dagster resource, its engines, and the scoring of rollouts."""
