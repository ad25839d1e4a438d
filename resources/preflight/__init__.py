"""What a run needs and will cost, checked before it starts."""
