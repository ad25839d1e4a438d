"""Evaluation in the world: whoever answers a method's calls, and what a run leaves on disk."""
