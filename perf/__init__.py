"""Measurements: fits and speed benchmarks."""
