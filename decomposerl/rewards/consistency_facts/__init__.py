"""What the answers of a trace commit themselves to, for the consistency reward."""
