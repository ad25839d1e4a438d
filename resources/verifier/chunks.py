"""Cut a document into chunks that a verifier model was trained to read, at sentence ends.

Takes a document, a budget and a way to measure sentences; gives chunks, each as full as
the budget allows. The public MiniCheck code does the same with another sentence splitter
(NLTK's), so single chunk borders differ from it.

Left out deliberately: scores, and which budget belongs to which model.
"""

from collections.abc import Callable, Sequence

from decomposerl.kernels.text_scan import sentences

Measure = Callable[[Sequence[str]], Sequence[int]]
"""Sizes of texts, one each, in the unit of a budget."""


def words(texts: Sequence[str]) -> list[int]:
    """Number of white-space separated words of each text."""
    return [len(text.split()) for text in texts]


def utf8_bytes(texts: Sequence[str]) -> list[int]:
    """Bytes of each text and one for what joins it to the next.

    No tokenizer that falls back to bytes makes more tokens than this, so a budget of
    tokens measured in bytes is never exceeded.
    """
    return [len(text.encode("utf-8", "surrogatepass")) + 1 for text in texts]


def chunks(document: str, budget: int, measure: Measure) -> list[str]:
    """Chunks of whole sentences in order; none where the document is blank.

    A chunk is closed when the next sentence would take the sum of its sentences' sizes
    above ``budget``; a sentence above it stands alone. Sentences of one line are joined
    by a space, lines by a line break.

    Raises:
        ValueError: ``budget`` is below 1.
    """
    if budget < 1:
        raise ValueError(f"the chunk budget is {budget}; it must be at least 1")
    found = [
        (sentence, "\n" if first else " ")
        for line in document.splitlines()
        for first, sentence in _marked(sentences(line))
    ]
    packed: list[str] = []
    room = 0
    for (sentence, joint), size in zip(found, measure([s for s, _ in found]), strict=True):
        if packed and size <= room:
            packed[-1] += joint + sentence
            room -= size
        else:
            packed.append(sentence)
            room = budget - size
    return packed


def _marked(line: Sequence[str]) -> list[tuple[bool, str]]:
    return [(index == 0, sentence) for index, sentence in enumerate(line)]
