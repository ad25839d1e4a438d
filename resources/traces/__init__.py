"""Traces of a data folder for the trace page, and the marks of its reviewers."""
