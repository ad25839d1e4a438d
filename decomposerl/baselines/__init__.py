"""Eleven published ways to verify a claim over given evidence (paper, section 4, baselines).

One file a method, ``catalogue`` is the ordered list. A method is a generator: it yields calls to a
model, is sent their replies, and returns a verdict; ``resources.evaluation`` runs the calls.
"""
