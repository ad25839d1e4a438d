"""The types of a corpus: where its files lie, how they are read, on what terms.

A *source* feeds the training pool; a *benchmark* is a test set. Both read native files
through ``CorpusFiles``. An adapter is one ``Source`` (or ``Benchmark``) constant and one
``read`` function from records to drafts.

Left out deliberately: ids, label rules, limits, hold-out and counting; ``load.py`` does
them once for all.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Literal, Protocol

from decomposerl.claims.claim import Draft, Record, Reject
from decomposerl.claims.labels import LabelMap

FileFormat = Literal["jsonl", "json_array", "json_object", "csv", "tsv", "parquet"]
"""``json_object``: one object whose values are the rows; each record gains ``_key``."""


@dataclass(frozen=True, slots=True)
class NativeFile:
    """One native file: path below the corpora folder, format, split.

    A ``.gz`` beside the plain name is read the same way, so the path never ends in it.
    ``subset`` names the part of the corpus that the file holds, where it has parts.
    """

    path: str
    format: FileFormat
    split: str
    subset: str | None = None


class DamagedPage(Exception):  # noqa: N818 - it describes one row's evidence
    """A page is there and cannot be read; it never leaves the reading loop of ``fields.py``."""


class Pages(Protocol):
    """A Wikipedia database as published with a corpus.

    Both methods raise ``DamagedPage`` where the page is there and cannot be read.
    """

    def sentences(self, title: str) -> tuple[str, ...] | None:
        """The sentences of one page in order (index = native sentence id); None if absent.

        An empty string keeps the place of an empty native line.
        """
        ...

    def element(self, title: str, element_id: str) -> str | None:
        """The text of one FEVEROUS element (``sentence_0``, ``cell_0_6_1`` …) of a page."""
        ...


class CorpusFiles(Protocol):
    """What an adapter may ask of the disk."""

    def exists(self, path: str) -> bool:
        """Whether the file (or its ``.gz``) is there."""
        ...

    def records(self, file: NativeFile) -> Iterator[Record | Reject]:
        """Rows in file order; a row that cannot be parsed comes as a ``Reject``.

        A file that is not there yields nothing.
        """
        ...

    def pages(self, path: str) -> Pages | None:
        """The SQLite page database at ``path``; None if it is not there."""
        ...


Reader = Callable[[CorpusFiles, NativeFile], Iterator[Draft | Reject]]


@dataclass(frozen=True, slots=True)
class HubLocation:
    """Where a corpus lives on the Hugging Face hub.

    ``files`` maps a file of the repository, or a pattern that one file of it matches, to
    its path below the corpora folder. The revision is pinned by the lock file that the
    first fetch writes, never by a branch.
    """

    repo_id: str
    files: tuple[tuple[str, str], ...]
    gated: bool = False


@dataclass(frozen=True, slots=True)
class Source:
    """One training corpus.

    ``files`` are the training files in preference of reading; ``extra`` files are read
    beside them and always follow the training side of a hold-out split. ``paper_raw`` is
    the corpus's row count in the paper's Table "Per-source training counts".
    ``training_off`` gives the reason why a corpus is not used for training unless the user
    opts in.
    """

    name: str
    title: str
    domain: str
    homepage: str
    license: str
    terms: str
    labels: LabelMap
    files: tuple[NativeFile, ...]
    read: Reader
    extra: tuple[NativeFile, ...] = ()
    paper_raw: int | None = None
    hub: HubLocation | None = None
    training_off: str | None = None


@dataclass(frozen=True, slots=True)
class Benchmark:
    """One test set (paper, appendix "Evaluation Benchmarks").

    ``files`` are native evaluation files, each used whole where it is on disk.
    ``shared`` are files that also stand among ``source``'s training files: used only where
    no file of ``files`` with labels is on disk, and then split by document
    (``holdout_share``) unless the source has other training files of its own.
    ``claim_lists`` are files that give claims for decontamination without usable evidence.
    """

    name: str
    title: str
    domain: str
    in_domain: bool
    homepage: str
    license: str
    terms: str
    labels: LabelMap
    files: tuple[NativeFile, ...]
    read: Reader
    shared: tuple[NativeFile, ...] = ()
    claim_lists: tuple[NativeFile, ...] = ()
    source: str | None = None
    hub: HubLocation | None = None
    notes: Sequence[str] = field(default=())
