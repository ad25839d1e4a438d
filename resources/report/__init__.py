"""The report of a run: its inputs from the data folder, and its files."""
