"""Eleven published ways to verify a claim over given evidence (paper, section 4, baselines).

One file a method, ``catalogue`` is the ordered list. A method is a generator over calls to a
model: it asks, is told, and ends with a verdict; who answers is for ``resources`` to say.
"""
