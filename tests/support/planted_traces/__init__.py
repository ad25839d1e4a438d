"""Planted traces: claims verified well and in known wrong ways."""
