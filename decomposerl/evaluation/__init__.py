"""What verdicts are worth: metrics, intervals, paired tests, confidence, the leaderboard.

Knows predictions and labels, never rewards or training: the exam does not know the coach.
"""
