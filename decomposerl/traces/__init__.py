"""Traces: what a policy wrote while it verified a claim (paper, section 3.1)."""
