"""One file per test set that its own code reads."""
