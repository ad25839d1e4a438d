"""Passages of texts, such as a folder's files, that bear on a claim, by BM25 (library bm25s).

A passage is a paragraph, or consecutive sentences of a long one. Words are compared by the stems
that the rules use, without stop words. An embedder may rank the relevant ones again by meaning.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from decomposerl.errors import EngineMissing, SourceFileError
from decomposerl.extras import require
from decomposerl.ports import Embedder
from decomposerl.text.sentences import split_sentences
from decomposerl.text.words import Sentence, parse
from resources.corpora.documents import DOCUMENTS, document_text
from resources.store.paths import regular_file

SUFFIXES = frozenset({".md", ".txt"}) | DOCUMENTS
MOST_PASSAGES = 5
_WORDS = 120
"""Words of a passage from which on the next sentence begins another."""
_CANDIDATES, _LEAST_SHARE = 50, 0.25
_MOST_BYTES, _MOST_IN_ALL = 20_000_000, 200_000_000  # of one file, and of a folder


@dataclass(frozen=True, slots=True)
class Passage:
    """A passage, and the path of its file in the folder, or the URL of its page."""

    text: str
    file: str


class TextSearch:
    """Passages, or the files of a folder, read and indexed at the first search."""

    def __init__(self, where: Path | list[Passage], embedder: Embedder | None = None) -> None:
        """Files of ``SUFFIXES`` are read, also in folders below it.

        With an ``embedder``, relevant passages are ranked by the cosine to the claim.
        """
        self._where, self._embedder, self._left = where, embedder, _MOST_IN_ALL
        self.problems: list[str] = []
        """Why files of the folder were not read, known after the first search."""

    @property
    def ranking(self) -> str:
        """What ranks the passages: for the note of a result."""
        return f"BM25, then {self._embedder.engine}" if self._embedder else "BM25"

    def search(self, claim: str, most: int = MOST_PASSAGES) -> list[Passage]:
        """At most ``most`` relevant passages, best first; empty where none is relevant.

        A relevant passage holds a quarter of the claim's content words, and one of its names where
        it has any: BM25 alone ranks, and would always find something.

        Raises:
            EngineMissing: bm25s, or what the embedder needs, is not installed.
            EngineError: the embedder failed.
            SourceFileError: there is no such folder, or no text in it that can be read.
        """
        wanted = parse(claim)
        known = [stem for stem in dict.fromkeys(wanted.stems) if stem in self._vocabulary]
        if not known:
            return []
        size = min(_CANDIDATES, len(self._passages))
        ranked, scores = self._index.retrieve([known], k=size, show_progress=False)
        places = [int(at) for at, score in zip(ranked[0], scores[0], strict=True) if score > 0]
        relevant = [self._passages[at] for at in places if _relevant(wanted, self._parsed[at])]
        if self._embedder is not None and len(relevant) > 1:
            relevant = _nearest_first(claim, relevant, self._embedder)
        return relevant[:most]

    @cached_property
    def _passages(self) -> list[Passage]:
        if isinstance(folder := self._where, list):
            return folder
        if not folder.is_dir():
            raise SourceFileError(f"{folder} is no folder")
        named = (path for path in folder.rglob("*") if path.suffix.lower() in SUFFIXES)
        files = sorted(path for path in named if not path.is_dir())
        found = [
            Passage(part, str(path.relative_to(folder)))
            for path in files
            for part in passages_of(self._text_of(path, folder))
        ]
        if not found:
            why = f" ({self.problems[0]})" if self.problems else ""
            kinds = " or ".join(sorted(SUFFIXES))
            raise SourceFileError(f"{folder} holds no text in files that end in {kinds}{why}")
        return found

    def _text_of(self, path: Path, folder: Path) -> str:
        """The text of a file; of one that cannot be read none, with the reason in ``problems``."""
        try:
            if not path.resolve().is_relative_to(folder.resolve()):
                why = "is a link out of the folder"
            elif (size := regular_file(path).stat().st_size) > min(_MOST_BYTES, self._left):
                why = f"has more than {_MOST_BYTES:,} bytes, or all have more than {_MOST_IN_ALL:,}"
            elif (suffix := path.suffix.lower()) in DOCUMENTS:
                self._left -= size
                return document_text(path.read_bytes(), suffix)
            elif "\0" in (text := path.read_text("utf-8")):
                why = "is no text but a binary file"
            else:
                self._left -= size
                return text
        except UnicodeDecodeError:
            why = "is not UTF-8 text"
        except OSError as error:
            why = f"cannot be read: {error.strerror}"
        except (SourceFileError, EngineMissing) as error:  # the library's extra may be missing
            why = str(error)
        self.problems.append(f"{path} {why}; it was left out")
        return ""

    @cached_property
    def _parsed(self) -> list[Sentence]:
        return [parse(passage.text) for passage in self._passages]

    @cached_property
    def _vocabulary(self) -> frozenset[str]:
        return frozenset[str]().union(*(one.content for one in self._parsed))

    @cached_property
    def _index(self) -> Any:  # noqa: ANN401 - of a library without types
        require("bm25s")
        import bm25s

        index = bm25s.BM25()
        index.index([list(one.stems) for one in self._parsed], show_progress=False)
        return index


def _relevant(claim: Sentence, passage: Sentence) -> bool:
    shared = claim.content & passage.content
    named = not claim.names or not claim.names.isdisjoint(shared)
    return named and len(shared) >= _LEAST_SHARE * len(claim.content)


def _nearest_first(claim: str, passages: Sequence[Passage], embedder: Embedder) -> list[Passage]:
    """By the cosine to the claim; passages of equal cosines stay in their order."""
    about, *vectors = embedder.embed([claim, *(one.text for one in passages)])
    order = np.argsort([-float(one @ about) for one in vectors], kind="stable")
    return [passages[at] for at in order]


def passages_of(text: str) -> Iterator[str]:
    """Paragraphs, which blank lines separate; long ones in parts of whole sentences."""
    for paragraph in "\n".join(line.strip() for line in text.splitlines()).split("\n\n"):
        part: list[str] = []
        for sentence in split_sentences(" ".join(paragraph.split())):
            part.append(sentence)
            if sum(len(one.split()) for one in part) >= _WORDS:
                yield " ".join(part)
                part = []
        if part:
            yield " ".join(part)
