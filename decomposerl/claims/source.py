"""The types of a corpus: where its files are, how they are read, on what terms.

A *source* feeds the training pool; a *benchmark* is a test set. Its ``read`` function makes drafts
of native files; ids, label rules, limits, hold-out and counting are applied to all corpora by
``load.py``. Many corpora are published in several forms, such as native JSON and the hub's Parquet:
``NativeFile.also`` gives where the other forms of a file may be, ``Corpus.forms`` the columns that
tell them apart.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, fields, replace
from pathlib import PurePosixPath
from typing import Any, Literal, Protocol, TypeVar

from decomposerl.claims.claim import Draft, LabelMap, Record, Reject, RejectReason
from decomposerl.errors import ConfigError, SourceFileError

FileFormat = Literal["jsonl", "json_array", "json_object", "csv", "tsv", "parquet"]
"""``json_object``: one object whose values are the rows; each record gains ``_key``."""
FORMAT_OF_ENDING: Mapping[str, FileFormat] = {
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".json": "json_array",
    ".csv": "csv",
    ".tsv": "tsv",
    ".parquet": "parquet",
}


@dataclass(frozen=True, slots=True)
class NativeFile:
    """One native file: path below the corpora folder, format, split, and part of the corpus.

    A ``.gz`` beside the plain name is read the same way, so the path never ends in it. ``also``
    are paths of the same rows in other forms (format by ending): one of them is read where
    ``path`` is absent (``in_form``). ``selection`` marks a file of rows that were taken from
    the corpus's other files, with their ids: its ``subset`` tells no row from one of theirs.
    """

    path: str
    format: FileFormat
    split: str
    subset: str | None = None
    also: tuple[str, ...] = ()
    selection: bool = False


class FieldError(Exception):
    """A field of one row cannot be used; it never leaves the reading loop of ``fields.py``."""

    def __init__(self, field: str, reason: RejectReason, detail: str) -> None:
        super().__init__(f"{field}: {reason}: {detail}")
        self.field, self.reason, self.detail = field, reason, detail

    def reject(self, record: Record) -> Reject:
        """The same fault as a row of the rejects table."""
        return Reject(record.file, record.row, self.field, self.reason, self.detail)


class DamagedPage(FieldError):  # noqa: N818 - it describes one row's evidence
    """A page exists but cannot be read: the fault of the row whose evidence it is."""

    def __init__(self, detail: str) -> None:
        super().__init__("evidence", "damaged_page", detail)


class Pages(Protocol):
    """A Wikipedia database as published; ``DamagedPage`` where a page cannot be read."""

    def sentences(self, title: str) -> tuple[str, ...] | None:
        """The sentences of one page, index = native sentence id; None if absent.

        An empty native line gives an empty string, so that indices stay valid.
        """

    def element(self, title: str, element_id: str) -> str | None:
        """The text of one FEVEROUS element (``sentence_0``, ``cell_0_6_1`` …) of a page."""


class CorpusFiles(Protocol):
    """The files of the corpora folder, as adapters read them."""

    def exists(self, path: str) -> bool:
        """Whether the file (or its ``.gz``) exists."""

    def records(self, file: NativeFile) -> Iterator[Record | Reject]:
        """Rows in file order, one that cannot be parsed as a ``Reject``; none of an absent file."""

    def pages(self, path: str) -> Pages | None:
        """The SQLite page database at ``path``; None if it does not exist."""


def with_hub(file: NativeFile, config: str = "default", split: str = "") -> NativeFile:
    """The file, and where downloads of the Hugging Face hub put the same split.

    In order: a repository that was converted to Parquet, the hub's branch
    ``refs/convert/parquet``, and a file named by its split alone. The hub's name of ``dev`` is
    ``validation``.
    """
    folder = file.path.partition("/")[0]
    name = split or {"dev": "validation"}.get(file.split, file.split)
    plain = folder if config == "default" else f"{folder}/{config}"
    shards = f"{folder}/data" if config == "default" else plain
    paths = (
        f"{shards}/{name}-00000-of-00001.parquet",
        f"{folder}/{config}/{name}/0000.parquet",
        f"{plain}/{name}.parquet",
        f"{plain}/{name}.jsonl",
    )
    also = (*file.also, *(path for path in paths if path not in {file.path, *file.also}))
    return replace(file, also=also)


def in_form(exists: Callable[[str], bool], file: NativeFile) -> NativeFile:
    """The form of a file that is read: ``path`` if it is on disk, else the first of ``also``.

    Its ``also`` are the other forms on disk, which are not read. A file that is absent in
    every form is given as it is.

    Raises:
        SourceFileError: the hub's form is there in several shards, of which only one is known.
    """
    paths = list(filter(exists, (file.path, *file.also)))
    shards = (shard for path in file.also for shard in filter(exists, _second_shards(path)))
    if paths[:1] != [file.path] and (shard := next(shards, None)):
        raise SourceFileError(f"{shard} is one of several shards; join them as {file.also[-2]}")
    if not paths:
        return file
    first, *rest = paths
    kind = file.format if first == file.path else FORMAT_OF_ENDING[PurePosixPath(first).suffix]
    return replace(file, path=first, format=kind, also=tuple(rest))


def _second_shards(path: str) -> Iterator[str]:
    """Where the second shard of a form of the hub would be."""
    if path.endswith("/0000.parquet"):
        yield path.replace("/0000.parquet", "/0001.parquet")
    if path.endswith("-00000-of-00001.parquet"):
        stem = path.removesuffix("-00000-of-00001.parquet")
        yield from (f"{stem}-00001-of-{shards:05}.parquet" for shards in range(2, 33))


@dataclass(frozen=True, slots=True)
class Form:
    """One set of columns that a row needs to have; ``name`` lists the layouts that have it."""

    name: str
    columns: frozenset[str]


Reader = Callable[[CorpusFiles, NativeFile], Iterator[Draft | Reject]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """Another way to read a corpus, which ``LoadSettings.readings`` chooses by ``name``.

    ``read`` replaces the corpus's reader (None: it stays); the files ``without`` are not read.
    """

    name: str
    description: str
    read: Reader | None = None
    without: tuple[NativeFile, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Corpus:
    """What sources and benchmarks share.

    ``forms`` are the known layouts: a file of which no row has the columns of one is refused;
    none are known of a user's own corpus. ``replaces`` says that a user's copy takes the
    place of the catalogue's corpus of the same name, or that it is the test set of such a copy.
    ``beside`` are files that hold no claims but their evidence, such as a page database.
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
    beside: tuple[str, ...] = ()
    forms: tuple[Form, ...] = ()
    replaces: bool = False
    readings: tuple[Reading, ...] = ()

    @property
    def native_files(self) -> tuple[NativeFile, ...]:
        """Every file that may be read for claims."""
        roles = ("files", "extra", "shared", "claim_lists")
        return tuple(file for role in roles for file in getattr(self, role, ()))


AnyCorpus = TypeVar("AnyCorpus", bound=Corpus)


def read_as(corpus: AnyCorpus, readings: Mapping[str, str]) -> AnyCorpus:
    """The corpus as the reading under its name reads it; as it is where none is chosen.

    A user's copy, which is the user's own reading, stays as it is too.

    Raises:
        ConfigError: the corpus has no reading of that name.
    """
    chosen, known = readings.get(corpus.name), {one.name: one for one in corpus.readings}
    if chosen is None or corpus.replaces:
        return corpus
    if (reading := known.get(chosen)) is None:
        names = ", ".join(known) or "none"
        raise ConfigError(f"{corpus.name} has no reading '{chosen}'; it has: {names}")
    files = tuple(file for file in corpus.files if file not in reading.without)
    return replace(corpus, read=reading.read or corpus.read, files=files)


@dataclass(frozen=True, slots=True, kw_only=True)
class Source(Corpus):
    """One training corpus.

    ``extra`` files are read beside ``files`` and always follow the training side of a hold-out
    split. ``paper_raw`` is its row count in the paper's table. ``training_off`` is the reason why
    it is not used for training unless the user opts in.
    """

    extra: tuple[NativeFile, ...] = ()
    paper_raw: int | None = None
    training_off: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Benchmark(Corpus):
    """One test set (paper, appendix "Evaluation Benchmarks").

    ``files`` are native evaluation files, each used whole where it is on disk. ``shared`` are
    files that also train ``source``: used only where no file of ``files`` with labels and evidence
    is on disk, and then split by document (``holdout_share``) unless the source has other training
    files. ``same_rows`` are training files of ``source`` that repeat rows of ``files``, or may:
    never trained on where one of ``files`` is on disk. ``claim_lists`` are files that give claims
    for decontamination without usable evidence.
    """

    in_domain: bool
    shared: tuple[NativeFile, ...] = ()
    same_rows: tuple[NativeFile, ...] = ()
    claim_lists: tuple[NativeFile, ...] = ()
    source: str | None = None
    notes: tuple[str, ...] = ()

    @classmethod
    def from_source(cls, source: Source, *files: NativeFile, **own: Any) -> "Benchmark":  # noqa: ANN401 - fields of this class
        """The test set of a training corpus: ``files`` read by the source's own reader."""
        common = {shared.name: getattr(source, shared.name) for shared in fields(Corpus)}
        return cls(**{**common, "source": source.name, "in_domain": True, **own, "files": files})
