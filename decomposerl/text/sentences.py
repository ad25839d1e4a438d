"""Sentences of a text, by the splitter that the funnel counts with."""

from decomposerl.kernels.text_scan import sentences as split_sentences

__all__ = ["split_sentences"]
