"""One file per test set."""
