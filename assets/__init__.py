"""The graph: thin Dagster assets that meet through argument names."""
