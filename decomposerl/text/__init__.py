"""What every reader of language shares: words, clauses, names."""
