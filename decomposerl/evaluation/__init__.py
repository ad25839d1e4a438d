"""Scores of systems, from predictions and labels alone: it imports neither rewards nor training."""
