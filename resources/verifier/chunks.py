"""Chunks of a document that fit a verifier model, cut at sentence ends.

The public MiniCheck code does the same with another sentence splitter (NLTK's), so some chunk
borders differ from it.
"""

from collections.abc import Callable, Sequence

from decomposerl.kernels.text_scan import sentences

Measure = Callable[[Sequence[str]], Sequence[int]]
"""Sizes of texts, one each, in the unit of a budget."""


def words(texts: Sequence[str]) -> list[int]:
    """Number of white-space separated words of each text."""
    return [len(text.split()) for text in texts]


def utf8_bytes(texts: Sequence[str]) -> list[int]:
    """Bytes of each text, and one for the joint to the next.

    A byte-fallback tokenizer never makes more tokens than this, so a token budget measured in
    bytes is never exceeded.
    """
    return [len(text.encode("utf-8", "surrogatepass")) + 1 for text in texts]


def chunks(document: str, budget: int, measure: Measure) -> list[str]:
    """Chunks of whole sentences in order; none for a blank document.

    A chunk ends where the next sentence would exceed ``budget``; a sentence above it has its own
    chunk. Sentences of one line are joined by a space, lines by a line break.

    Raises:
        ValueError: ``budget`` is below 1.
    """
    if budget < 1:
        raise ValueError(f"the chunk budget is {budget}; it must be at least 1")
    joined = [
        (sentence, "\n" if first else " ")
        for line in document.splitlines()
        for first, sentence in _marked(sentences(line))
    ]
    packed: list[str] = []
    room = 0
    for (sentence, joint), size in zip(joined, measure([s for s, _ in joined]), strict=True):
        if packed and size <= room:
            packed[-1] += joint + sentence
            room -= size
        else:
            packed.append(sentence)
            room = budget - size
    return packed


def _marked(line: Sequence[str]) -> list[tuple[bool, str]]:
    return [(index == 0, sentence) for index, sentence in enumerate(line)]
