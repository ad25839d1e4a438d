"""The judge: the calls that a trace needs, and what its rulings say."""
