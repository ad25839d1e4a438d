"""Corpora and benchmarks: native rows in, claims out."""
