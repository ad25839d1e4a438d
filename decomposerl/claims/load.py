"""A corpus or a benchmark as a frame of claims, with every row accounted for.

Takes a ``Source`` or ``Benchmark``, the other one where they share files, the files on disk
and ``LoadSettings`` (paper, "Source Aggregation" and "Evaluation Benchmarks").

Law: ``rows_read == claims.height + drops.height + rejects with row > 0``, and every row that a
reader took from a claim file is among them or left out on purpose (``CountedFiles``).

Some files may train and test. ``plan_split`` gives every file on disk its role:

- *native*: an evaluation file with labels and evidence is on disk; the benchmark uses those
  files whole and the source everything else but the files with the same rows;
- *whole*: there is none, but the source has other training files beside the shared ones; the
  benchmark takes the shared files whole;
- *split*: there is nothing but the shared files; both read them, split by the documents behind
  each row and a fixed hash. Nothing depends on the order of rows, so that a source and its
  benchmark compute the same split independently.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Literal

import polars as pl
from pydantic import Field

from decomposerl.claims.claim import Draft, LabelRule, Reject, Side, apply_rule, short_digest
from decomposerl.claims.claim_collector import ClaimCollector, Drop, Sink, check_draft
from decomposerl.claims.doubtful import doubtful_claims
from decomposerl.claims.fields import CountedFiles
from decomposerl.claims.source import (
    Benchmark,
    Corpus,
    CorpusFiles,
    NativeFile,
    Source,
    in_form,
    read_as,
)
from decomposerl.settings import Settings


class LoadSettings(Settings):
    """How corpora are read (paper, "Source Aggregation")."""

    label_rule: LabelRule = Field(
        "drop_middle",
        description="what happens to the third class of labels; keep_middle: a third label of "
        "training claims",
    )
    holdout_share: float = Field(
        0.2, ge=0, le=1, description="share of documents kept for a benchmark without own files"
    )
    max_reject_share: float = Field(
        0.05, ge=0, le=1, description="most quarantined rows of a corpus, as a share of its rows"
    )
    max_evidence_bytes: int = Field(
        2_000_000, ge=1, description="most bytes of one evidence text in UTF-8"
    )
    allow_training_off: bool = Field(
        default=False, description="use corpora whose terms keep them out of training"
    )
    readings: dict[str, str] = Field(
        {}, description="another way to read a corpus or test set, by its name: see paper-readings"
    )


@dataclass(frozen=True)
class LoadedClaims:
    """The rows of one corpus.

    ``claims`` has the columns of ``CLAIMS`` (``BENCHMARK_CLAIMS`` for a benchmark) and no row
    where a ``sink`` got the claims as they were read,
    ``drops`` of ``DROPS``, ``rejects`` of ``REJECTS``; ``files`` are the native files read and
    ``unread`` other forms of the same rows beside them, by the file that was read instead.
    ``doubtful`` are the ``DOUBTFUL`` lists of a benchmark that has some.
    ``status`` is not_available (no file), off_by_terms, empty (a claim file holds no row), else
    ok.
    """

    claims: pl.DataFrame
    drops: pl.DataFrame
    rejects: pl.DataFrame
    rows_read: int
    status: str
    files: tuple[str, ...]
    unread: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    doubtful: pl.DataFrame | None = None


Mode = Literal["native", "whole", "split"]
Files = tuple[NativeFile, ...]


@dataclass(frozen=True, slots=True)
class SplitPlan:
    """Existing files by role, each in the form that is read.

    ``training`` and ``extra`` are read by the source, ``evaluation``, ``shared`` and
    ``claim_lists`` by the benchmark; in mode ``split`` the shared files are in ``training`` too.
    """

    mode: Mode
    training: Files = ()
    extra: Files = ()
    evaluation: Files = ()
    shared: Files = ()
    claim_lists: Files = ()


def plan_split(
    source: Source | None, benchmark: Benchmark | None, files: CorpusFiles, *, training_on: bool
) -> SplitPlan:
    """Give every file on disk its role; ``training_on`` says whether the source is used."""

    def present(corpus: Source | Benchmark | None, role: str) -> Files:
        forms = (in_form(files, file) for file in getattr(corpus, role, ()))
        return tuple(file for file in forms if files.exists(file.path))

    training = present(source if training_on else None, "files")
    extra = present(source if training_on else None, "extra")
    if benchmark is None:
        return SplitPlan("native", training, extra)
    evaluation, shared = present(benchmark, "files"), present(benchmark, "shared")
    lists = present(benchmark, "claim_lists")
    # A path may hold several splits, so an evaluation file is known by path and split.
    tested = {(file.path, file.split) for file in evaluation}
    tested |= {(file.path, file.split) for file in benchmark.same_rows if evaluation}
    training = tuple(file for file in training if (file.path, file.split) not in tested)
    if not shared or any(_can_test(benchmark, files, file) for file in evaluation):
        return SplitPlan("native", training, extra, evaluation, (), lists)
    own = tuple(file for file in training if file.path not in {one.path for one in shared})
    if own or not training:
        return SplitPlan("whole", own, extra, evaluation, shared, lists)
    return SplitPlan("split", training, extra, evaluation, shared, lists)


def _can_test(benchmark: Benchmark, files: CorpusFiles, file: NativeFile) -> bool:
    """Whether a row of the file has a label and evidence."""
    return any(
        isinstance(draft, Draft) and draft.native_label is not None and bool(draft.passages)
        for draft in benchmark.read(files, file)
    )


def documents_of(draft: Draft) -> tuple[str, ...]:
    """The row's documents; a row without any counts as a separate document."""
    return draft.documents or (f"row:{draft.native_id.strip()}",)


def is_held_out(draft: Draft, held_out: AbstractSet[str]) -> bool:
    """Whether a row belongs to the benchmark; its documents are all of one component."""
    return documents_of(draft)[0] in held_out


def components(rows: Iterable[Sequence[str]]) -> dict[str, str]:
    """Map every document to the smallest document it is connected to through rows (union-find)."""
    parent: dict[str, str] = {}

    def root(document: str) -> str:
        parent.setdefault(document, document)
        while parent[document] != document:
            parent[document] = parent[parent[document]]  # path halving
            document = parent[document]
        return document

    for row in rows:
        for document in row:
            one, other = root(row[0]), root(document)
            parent[max(one, other)] = min(one, other)
    return {document: root(document) for document in parent}


def hash_fraction(document: str) -> float:
    """A number in 0..1 that depends only on the document's name."""
    return int(short_digest(document), 16) / 2**64


def split_by_document(
    shared: Iterable[Draft], extra: Iterable[Draft], share: float | None
) -> frozenset[str]:
    """The documents on the benchmark's side of a split by connected components.

    ``shared`` rows connect documents and ``extra`` rows only join components. A component is held
    out where the hash of its smallest document is below ``share`` (0..1), or always where ``share``
    is None because the benchmark takes the shared files whole.
    """
    tested = [documents_of(draft) for draft in shared]
    roots = components((*tested, *(documents_of(draft) for draft in extra)))
    # Only components with a shared row: the benchmark would gain nothing from the others.
    candidates = {roots[documents[0]] for documents in tested}
    held_out = {root for root in candidates if share is None or hash_fraction(root) < share}
    return frozenset(document for document, root in roots.items() if root in held_out)


def load_source(
    source: Source,
    benchmark: Benchmark | None,
    files: CorpusFiles,
    settings: LoadSettings,
    sink: Sink | None = None,
) -> LoadedClaims:
    """Read a training corpus; ``benchmark`` is the test set drawn from it, if there is one.

    Raises:
        TooManyRejects: more rows were quarantined than ``max_reject_share``, or a file
            could not be read at all.
        SourceFileError: the columns of a file are those of no known form.
        ConservationError: the adapter lost a row.
        ConfigError: the corpus lacks the reading that ``settings.readings`` chooses.
    """
    source = read_as(source, settings.readings)
    benchmark = benchmark and read_as(benchmark, settings.readings)
    collector = ClaimCollector(source.name, f"claims/{source.name}", settings.label_rule, sink)
    if not _training_on(source, settings):
        return _loaded(collector, (), "off_by_terms", settings)
    plan = plan_split(source, benchmark, files, training_on=True)
    holdout = _holdout(plan, source, benchmark, files, settings)
    split = {*plan.extra, *(plan.training if plan.mode == "split" else ())}

    def drop(file: NativeFile, row: Draft, side: Side | None) -> Drop | None:
        if apply_rule(side or "middle", settings.label_rule) is None:
            return Drop("label_rule", "no_verdict" if side == "no_verdict" else "middle_class")
        if row.left_out is not None:
            return Drop("readings", row.left_out)
        if not row.passages:
            return Drop("evidence", row.no_evidence)
        held_out = file in split and is_held_out(row, holdout)
        return Drop("holdout", "held_out_document") if held_out else None

    return _collected(collector, source, files, (*plan.training, *plan.extra), drop, settings)


def load_benchmark(
    benchmark: Benchmark,
    source: Source | None,
    files: CorpusFiles,
    settings: LoadSettings,
    sink: Sink | None = None,
) -> LoadedClaims:
    """Read a test set; ``source`` is the training corpus it shares files with, if any.

    A ``sink`` gets its claims at the end, when doubtful labels were looked up among them.
    Rows of the middle class, of no verdict and without a label have a null ``label``, rows without
    evidence text a null ``evidence``: they still count for decontamination. Under ``keep_middle``
    the middle class has a label, too, and the test set is scored over three.

    Raises:
        TooManyRejects, SourceFileError, ConservationError, ConfigError: as for ``load_source``.
    """
    benchmark = read_as(benchmark, settings.readings)
    source = source and read_as(source, settings.readings)
    key = f"benchmark/{benchmark.name}"
    collector = ClaimCollector(benchmark.name, key, settings.label_rule)
    on = source is not None and _training_on(source, settings)
    plan = plan_split(source, benchmark, files, training_on=on)
    held_out = frozenset[str]()
    if split := plan.mode == "split" and source is not None:
        held_out = _holdout(plan, source, benchmark, files, settings)

    def drop(file: NativeFile, row: Draft, _: Side | None) -> Drop | None:
        if row.left_out is not None:
            return Drop("readings", row.left_out)
        trained = split and file in plan.shared and not is_held_out(row, held_out)
        return Drop("holdout", "training_document") if trained else None

    tested = (*plan.evaluation, *plan.shared, *plan.claim_lists)
    loaded = _collected(collector, benchmark, files, tested, drop, settings)
    doubtful = doubtful_claims(benchmark, loaded.claims, files)
    if sink is not None:
        sink(loaded.claims)
    return replace(loaded, doubtful=doubtful)


def _training_on(source: Source, settings: LoadSettings) -> bool:
    return source.training_off is None or settings.allow_training_off


def _rows(corpus: Corpus, files: CorpusFiles, file: NativeFile) -> Iterator[Draft | Reject]:
    """What the corpus's reader gives for a file; at its end, whether it lost a row is checked."""
    counted, seen = CountedFiles(files, file.path, corpus.forms), set[int]()
    for row in corpus.read(counted, file):
        if row.file == file.path:
            seen.add(row.row)
        yield row
    counted.check(corpus.name, seen)


def _holdout(
    plan: SplitPlan,
    source: Source,
    benchmark: Benchmark | None,
    files: CorpusFiles,
    settings: LoadSettings,
) -> frozenset[str]:
    """The test documents that source and benchmark agree on; none where no file is shared."""
    if benchmark is None or not plan.shared:
        return frozenset()

    def drafts(corpus: Corpus, wanted: Iterable[NativeFile]) -> Iterator[Draft]:
        rows = (row for file in wanted for row in _rows(corpus, files, file))
        return (row for row in rows if isinstance(row, Draft))

    # Both readers read the shared files, so that a document named by either one counts.
    shared = [*drafts(benchmark, plan.shared)]
    if plan.mode == "split":
        shared += drafts(source, plan.training)
    share = settings.holdout_share if plan.mode == "split" else None
    return split_by_document(shared, drafts(source, plan.extra), share)


def _collected(
    collector: ClaimCollector,
    corpus: Corpus,
    files: CorpusFiles,
    read: Sequence[NativeFile],
    drop: Callable[[NativeFile, Draft, Side | None], Drop | None],
    settings: LoadSettings,
) -> LoadedClaims:
    """Check every row of the files; ``drop`` gives the reason against a sound row, if any."""
    check = partial(
        check_draft,
        labels=corpus.labels,
        label_needed=isinstance(corpus, Source),
        max_evidence_bytes=settings.max_evidence_bytes,
    )
    status = "ok" if read else "not_available"
    for file in read:
        collector.open_file(file)
        empty = True
        for row in _rows(corpus, files, file):
            empty = False
            outcome = row if isinstance(row, Reject) else check(row)
            if isinstance(outcome, Reject):
                collector.reject(outcome)
            else:
                native = outcome.native_label
                side = None if native is None else corpus.labels.side(native)
                collector.record(outcome, side, drop(file, outcome, side))
        status = "empty" if empty else status
    return _loaded(collector, read, status, settings)


def _loaded(
    collector: ClaimCollector, read: Sequence[NativeFile], status: str, settings: LoadSettings
) -> LoadedClaims:
    collector.check_rejects(settings.max_reject_share)
    names = tuple(dict.fromkeys(file.path for file in read))
    unread = {file.path: file.also for file in read if file.also}
    claims, drops, rejects = collector.frames()
    return LoadedClaims(claims, drops, rejects, collector.rows_read, status, names, unread)
