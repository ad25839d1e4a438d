"""What a run needs and will cost, found out before it starts."""
