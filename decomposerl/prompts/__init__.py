"""Prompts, one Markdown file each, and the parsers of their replies.

A prompt's text decides what a model answers, so its digest stands in every request, every
stored reply and every engine name made from it.
"""
