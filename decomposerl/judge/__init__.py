"""The judge: which questions about a trace are put to a model, and what it ruled."""
