"""One file per corpus, but for those in ``row_by_row.py``."""
