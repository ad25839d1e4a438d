"""Prompts, one Markdown file each, and the parsers of their replies.

A prompt's digest is part of every request, stored reply and engine name made from it.
"""
