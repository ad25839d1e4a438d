"""Programs that make a committed figure, table or file."""
