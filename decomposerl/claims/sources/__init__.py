"""One file per training corpus."""
