"""Scores of systems: metrics, intervals, paired tests, calibration, the leaderboard.

It works on predictions and labels and never imports rewards or training.
"""
