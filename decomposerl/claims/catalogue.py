"""The training corpora and the test sets, as ``corpora.toml`` lists them; a user's own join them.

``SOURCES`` is in the order of the paper's table of per-source counts (appendix "Per-source
training-row counts"), ``BENCHMARKS`` in the order of its appendix "Evaluation Benchmarks". The
module of a corpus's name in ``sources/`` reads its rows: ``READERS`` has its
reader as ``default`` and one for each of its other readings. Where every row is one draft, a
function in ``sources/row_by_row.py`` reads them. So a new corpus is a table and a function or
module; a test set that its training corpus's reader can read is a table alone.

A table also has the paper's counts of the corpus and, where this project's differ, the reason: what
was counted in the files is said as a fact; what only fits is "likely", what is neither "unknown".
Pages, asset metadata and ``decomposerl attrition --against paper`` show these texts.
"""

import tomllib
from collections.abc import Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace
from importlib import import_module
from importlib.resources import files
from pathlib import PurePosixPath
from typing import Any

from decomposerl.claims.claim import LabelMap
from decomposerl.claims.source import (
    FORMAT_OF_ENDING,
    AnyCorpus,
    Benchmark,
    Form,
    NativeFile,
    Reader,
    Reading,
    Source,
    with_hub,
)
from decomposerl.claims.sources import row_by_row
from decomposerl.claims.sources.scifact import CORPUS
from decomposerl.errors import ConfigError

_STATED, _NOT_STATED = ("license", "terms", "homepage"), {"", "not stated"}
Table = Mapping[str, Any]

TABLES: dict[str, Mapping[str, Table]] = tomllib.loads(
    files(__package__).joinpath("corpora.toml").read_text("utf-8")
)
"""By ``sources`` and ``benchmarks``, then by name: what is known of a corpus beside its reader."""
_PAPER = TABLES.pop("paper")


def _file(table: Table) -> NativeFile:
    """A file of the format that ``format`` or its ending says, with the hub's forms of it."""
    own = {key: value for key, value in table.items() if not key.startswith("hub")}
    kind = FORMAT_OF_ENDING[PurePosixPath(table["path"]).suffix]
    file = NativeFile(**{"format": kind, **own, "also": tuple(own.get("also", ()))})
    return with_hub(file, table["hub"], table.get("hub_split", "")) if "hub" in table else file


def _files(table: Table, role: str, listed: Sequence[NativeFile] = ()) -> tuple[NativeFile, ...]:
    """The files of one role; a path alone is that of one of the ``listed``."""
    known = {file.path: file for file in listed}
    return tuple(
        known[entry] if isinstance(entry, str) else _file(entry) for entry in table.get(role, ())
    )


def _readers(name: str) -> Mapping[str, Reader]:
    if name in row_by_row.READERS:
        return row_by_row.READERS[name]
    readers: Mapping[str, Reader] = import_module(f"{__package__}.sources.{name}").READERS
    return readers


def _words(listed: str) -> frozenset[str]:
    """The words of a list with commas."""
    return frozenset(word.strip() for word in listed.split(","))


def _corpus(name: str, table: Table, readers: Mapping[str, Reader]) -> dict[str, Any]:
    """What sources and benchmarks share, as the arguments of both."""
    native, sides = _files(table, "files"), table["labels"].items()
    return {
        **{key: table[key] for key in ("title", "domain", "homepage", "license", "terms")},
        "name": name,
        "labels": LabelMap(**{side: _words(text.casefold()) for side, text in sides}),
        "files": native,
        "read": readers["default"],
        "beside": tuple(table.get("beside", ())),
        "forms": tuple(
            Form(form["name"], _words(form["columns"])) for form in table.get("forms", ())
        ),
        "readings": tuple(
            Reading(
                name=entry["name"],
                description=entry["description"],
                read=readers.get(entry["name"]),
                without=tuple(file for file in native if file.path in entry.get("without", ())),
            )
            for entry in table.get("readings", ())
        ),
    }


def source_from(name: str, table: Table, readers: Mapping[str, Reader]) -> Source:
    """The training corpus that a table of ``corpora.toml`` describes, read by ``readers``."""
    return Source(
        **_corpus(name, table, readers),
        extra=_files(table, "extra"),
        paper_raw=table["paper"]["raw"] if "paper" in table else None,
        training_off=table.get("training_off"),
    )


def _benchmark(name: str, table: Table) -> Benchmark:
    source = next((one for one in SOURCES if one.name == table.get("source")), None)
    listed = source.files if source is not None else ()
    own: dict[str, Any] = {
        "in_domain": table.get("in_domain", True),
        "notes": tuple(table.get("notes", ())),
        **{role: _files(table, role, listed) for role in ("shared", "same_rows", "claim_lists")},
    }
    if source is None:
        return Benchmark(**_corpus(name, table, _readers(name)), **own)
    return Benchmark.from_source(source, *_files(table, "files"), **own)


SOURCES: tuple[Source, ...] = tuple(
    source_from(name, table, _readers(name)) for name, table in TABLES["sources"].items()
)
BENCHMARKS: tuple[Benchmark, ...] = tuple(
    _benchmark(name, table) for name, table in TABLES["benchmarks"].items()
)


@dataclass(frozen=True, slots=True)
class PaperCounts:
    """Rows of one source in the paper's columns Raw, Diff., Dedup and Final.

    ``deduplicated`` includes decontamination and the least number of questions: it is the stage
    ``silver_decomposed`` here.
    """

    raw: int
    difficulty: int
    deduplicated: int
    final: int


PAPER_COUNTS: Mapping[str, PaperCounts] = {
    name: PaperCounts(**table["paper"]) for name, table in TABLES["sources"].items()
}
"""By the catalogue's name, in the order of the paper's table."""
PAPER_TOTAL = PaperCounts(**_PAPER["total"])
"""The table's last line, as printed."""


@dataclass(frozen=True, slots=True)
class Difference:
    """Why the rows of a corpus are not the paper's, or that they are.

    ``rows`` is what all its public files give with the default settings, by the files or their
    published sizes; None where neither says. ``setting`` reproduces the paper's rows, or comes
    nearest to them; it is empty where there is none.
    """

    corpus: str
    reason: str
    rows: int | None = None
    setting: str = ""

    @property
    def text(self) -> str:
        """The counts as far as they are known, the reason and the setting, in one line."""
        paper = PAPER_COUNTS.get(self.corpus)
        parts = (
            f"Paper: {paper.raw:,}." if paper else "",
            "" if self.rows is None else f"Here: {self.rows:,}.",
            self.reason,
            f"Setting: {self.setting}." if self.setting else "",
        )
        return " ".join(filter(None, parts))


DIFFERENCES: Mapping[str, Difference] = {
    name: Difference(name, **table["difference"])
    for tables in TABLES.values()
    for name, table in tables.items()
    if "difference" in table
}
"""Of each source, and of the test set whose files are not the paper's alone."""
STAGE_REASONS: Mapping[str, str] = _PAPER["reasons"]
"""By field of ``PaperCounts`` after ``raw``: why rows differ, whichever source."""


def source_of(benchmark: Benchmark, sources: Sequence[Source] = SOURCES) -> Source | None:
    """The training corpus that shares files with a test set; None where there is none."""
    return next((source for source in sources if source.name == benchmark.source), None)


def benchmark_of(source: Source, benchmarks: Sequence[Benchmark] = BENCHMARKS) -> Benchmark | None:
    """The test set of a training corpus; None where there is none."""
    return next((one for one in benchmarks if one.source == source.name), None)


def other_forms(path: str) -> tuple[str, ...]:
    """Where other forms of a file of the catalogue may be; none for any other path."""
    listed = (file for corpus in (*SOURCES, *BENCHMARKS) for file in corpus.native_files)
    return next((file.also for file in (CORPUS, *listed) if file.path == path), ())


def with_own_sources(own: Iterable[Source]) -> tuple[Source, ...]:
    """``SOURCES``, each replaced by the user's copy of its name, then the user's other sources.

    A copy keeps the catalogue's title, domain, ``paper_raw`` and ``training_off``, and its license,
    terms and homepage where the user states none.

    Raises:
        ConfigError: a name is taken, or a source replaces what is not in the catalogue.
    """
    # A file with test files alone replaces a test set, and names no training corpus.
    trained = [one for one in own if one.files or not one.replaces]
    return _with_own(trained, SOURCES, ("domain", "title", "paper_raw", "training_off"))


def with_own_benchmarks(own: Iterable[Benchmark]) -> tuple[Benchmark, ...]:
    """``BENCHMARKS``, each replaced by the user's copy of its name, then the user's other ones.

    Raises:
        ConfigError: as ``with_own_sources``.
    """
    # A copy of a training corpus that the paper does not test on may add test files.
    added = {one.name for one in SOURCES} - {one.name for one in BENCHMARKS}
    return _with_own(list(own), BENCHMARKS, ("domain", "title", "in_domain", "source"), added)


def _with_own(
    own: Sequence[AnyCorpus],
    catalogue: Sequence[AnyCorpus],
    kept: Sequence[str],
    added: AbstractSet[str] = frozenset(),
) -> tuple[AnyCorpus, ...]:
    """The catalogue with the user's copies, and the others; copies of ``added`` are others, too."""
    known, copies = {one.name: one for one in catalogue}, dict[str, AnyCorpus]()
    for one in own:
        if one.name in copies or (one.name in known and not one.replaces):
            hint = "" if one.name in copies else ", or say replaces = true to read it in its place"
            raise ConfigError(
                f"source.toml: the corpus name '{one.name}' is taken; choose another{hint}"
            )
        if one.replaces and one.name not in known.keys() | added:
            raise ConfigError(
                f"source.toml: replaces = true, but the catalogue has no '{one.name}' to replace; "
                f"it has {', '.join(sorted(known.keys() | added))}"
            )
        unstated = [name for name in _STATED if getattr(one, name) in _NOT_STATED]
        listed = known.get(one.name, one)
        theirs: dict[str, Any] = {name: getattr(listed, name) for name in (*kept, *unstated)}
        copies[one.name] = replace(one, **theirs)
    return tuple((known | copies).values())
