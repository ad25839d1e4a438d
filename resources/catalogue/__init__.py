"""The DuckDB catalogue over the data folder, and look-ups in it."""
