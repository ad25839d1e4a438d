"""The DuckDB catalogue of the data folder, and look-ups in the folder."""
