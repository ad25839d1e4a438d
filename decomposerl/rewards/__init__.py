"""Rewards: arithmetic on traces and rulings (paper, sections 3.2 and 3.3)."""
