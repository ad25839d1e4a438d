"""A corpus or a benchmark as a frame of claims, with every row accounted for.

Takes a ``Source`` or ``Benchmark``, the other one where they share files, the files on disk
and ``LoadSettings`` (paper, "Source Aggregation" and "Evaluation Benchmarks").

A row that fails a check, whichever corpus it is from, is a reject. Drops (label rule, evidence,
hold-out, repeats) are sound rows that are merely unwanted. Law: ``rows_read == claims.height +
drops.height + rejects with row > 0``, and every row that a reader took from a claim file is among
them or left out on purpose (``CountedFiles``).

Some files may train and test. ``plan_split`` gives every file on disk its role:

- an evaluation file with labels and evidence is on disk: the benchmark uses those files whole and
  the source everything else but the files with the same rows;
- there is none, but the source has other training files beside the shared ones: the benchmark
  takes the shared files whole;
- there is nothing but the shared files: both read them, split by the documents behind each row and
  a fixed hash. Nothing depends on the order of rows, so that a source and its benchmark compute
  the same split independently.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

import polars as pl
from pydantic import Field

from decomposerl.claims.claim import (
    Draft,
    LabelMap,
    LabelRule,
    Reject,
    RejectReason,
    Side,
    apply_rule,
    short_digest,
)
from decomposerl.claims.doubtful import doubtful_claims
from decomposerl.claims.fields import CountedFiles
from decomposerl.claims.records import broken_field, excerpt
from decomposerl.claims.source import (
    AnyCorpus,
    Benchmark,
    Corpus,
    CorpusFiles,
    NativeFile,
    Source,
    in_form,
    read_as,
)
from decomposerl.errors import TooManyRejects
from decomposerl.schemas import BENCHMARK_CLAIMS, CLAIMS, DROPS, REJECTS
from decomposerl.settings import Settings

_INT64 = range(-(2**63), 2**63)
MAX_BYTES = {"id": 1_000, "claim": 16_000, "label": 1_000, "document": 4_000, "subset": 1_000}
"""Most bytes in UTF-8 of each text field; evidence has its limit in ``LoadSettings``."""
MAX_ITEMS = {"passages": 50_000, "documents": 1_000}
"""Most passages and documents of one row."""
_LABELS, _LABEL_CHARS = 8, 60  # shown of unknown ones
HANDED_ON = 2_000
"""Claims that a sink gets at a time."""

Sink = Callable[[pl.DataFrame], None]
"""Takes the next claims of a corpus, in the columns of ``CLAIMS``."""

Fault = tuple[object, str, RejectReason, str]
"""Whether it is one, field, reason, detail."""


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

    @property
    def unknown_labels(self) -> str:
        """The unknown native labels with their row counts, most frequent first; may be empty.

        Written with escapes, so that a terminal shows nothing but text.
        """
        unknown = self.rejects.filter(reason="unknown_label", field="label")["detail"]
        counts = Counter(label[:_LABEL_CHARS] for label in unknown).most_common()
        named = [f"{label!r} ({rows})" for label, rows in counts[:_LABELS]]
        return ", ".join([*named, *[f"and {len(counts) - _LABELS} more"] * (len(counts) > _LABELS)])

    @property
    def reject_share(self) -> float:
        """The rejected part of the rows; 1 where a file could not be read, or not to its end."""
        if self.rejects.filter(reason="unreadable_file", row=0).height:
            return 1.0
        return self.rejects.filter(pl.col("row") > 0).height / max(1, self.rows_read)


def check_draft(
    draft: Draft, labels: LabelMap, *, label_needed: bool, max_evidence_bytes: int
) -> Draft | Reject:
    """The draft with its id, claim and passages trimmed, blank ones left out; or what is wrong."""
    passages = tuple(filter(None, map(str.strip, draft.passages)))
    native_id, claim = draft.native_id.strip(), draft.claim.strip()
    sound = replace(draft, native_id=native_id, claim=claim, passages=passages)
    label, hops, most = draft.native_label, draft.num_hops, max_evidence_bytes
    texts = {"id": draft.native_id, "claim": draft.claim, "label": label or ""}
    texts |= {"subset": draft.subset or ""}
    joined = {"evidence": sound.evidence, "document": "".join(draft.documents)}
    broken, size = broken_field(texts | joined), _bytes(sound.evidence, most)
    faults: tuple[Fault, ...] = (
        *_too_large(draft, texts),
        (not native_id, "id", "missing_field", "the id is blank"),
        (not claim, "claim", "empty_claim", ""),
        (draft.passages and not passages, "evidence", "empty_evidence", ""),
        (broken, broken or "", "broken_encoding", "lone surrogate"),
        (size > most, "evidence", "evidence_too_large", f"{size} bytes, at most {most}"),
        (hops and hops not in _INT64, "num_hops", "missing_field", "not a 64-bit integer"),
        (label is None and label_needed, "label", "missing_field", "the row has no label"),
        (label is not None and not labels.side(label), "label", "unknown_label", label or ""),
    )
    for wrong, name, reason, detail in faults:
        if wrong:  # the first counts
            return Reject(draft.file, draft.row, name, reason, excerpt(detail))
    return sound


def _too_large(draft: Draft, texts: Mapping[str, str]) -> Iterator[Fault]:
    for name, items in (("passages", draft.passages), ("documents", draft.documents)):
        if len(items) > MAX_ITEMS[name]:
            yield True, name, "field_too_large", f"{len(items)}, at most {MAX_ITEMS[name]}"
    for name, text in (*texts.items(), *(("document", one) for one in draft.documents)):
        if (size := _bytes(text, MAX_BYTES[name])) > MAX_BYTES[name]:
            yield True, name, "field_too_large", f"{size} bytes, at most {MAX_BYTES[name]}"


def _bytes(text: str, most: int) -> int:
    """The size of a text in UTF-8; 0 where it cannot be above ``most``."""
    return len(text.encode("utf-8", "surrogatepass")) if 4 * len(text) > most else 0


@dataclass(frozen=True, slots=True)
class Drop:
    """Why a sound row is not used, and the claim that it repeats, if it does."""

    step: str
    reason: str
    matched_claim_id: str | None = None


def _rows(corpus: Corpus, files: CorpusFiles, file: NativeFile) -> Iterator[Draft | Reject]:
    """What the corpus's reader gives for a file; at its end, whether it lost a row is checked."""
    counted, seen = CountedFiles(files, file.path, corpus.forms), set[int]()
    for row in corpus.read(counted, file):
        if row.file == file.path:
            seen.add(row.row)
        yield row
    counted.check(corpus.name, seen)


@dataclass(frozen=True, slots=True)
class SplitPlan:
    """The files on disk that a source (``training``) and its benchmark (``testing``) read.

    Each is in the form that is read. Of the files in ``divided`` the rows with a document that is
    ``held_out`` are the benchmark's, the others the source's.
    """

    training: tuple[NativeFile, ...] = ()
    testing: tuple[NativeFile, ...] = ()
    divided: frozenset[NativeFile] = frozenset()
    held_out: frozenset[str] = frozenset()


class ClaimCollector:
    """Rows of one corpus while it is read as planned; its ``stage`` is the asset.

    Columns are plain lists until the end, because a frame per row would cost minutes. With a
    ``sink`` claims are handed on as they come, ``HANDED_ON`` rows at a time, and not kept; of each,
    its ids and the text that a repeat is known by stay here: the collector alone knows earlier
    rows.
    """

    def __init__(
        self, corpus: Corpus, plan: SplitPlan, settings: LoadSettings, sink: Sink | None = None
    ) -> None:
        self._trains = isinstance(corpus, Source)
        self._read = plan.training if self._trains else plan.testing
        self.stage = f"{'claims' if self._trains else 'benchmark'}/{corpus.name}"
        self._table = CLAIMS if self._trains else BENCHMARK_CLAIMS
        self._corpus, self._plan, self._settings = corpus, plan, settings
        self._sink, self._handed_on = sink, 0
        self._claims: list[tuple[object, ...]] = []
        self._drops: list[tuple[object, ...]] = []
        self._rejects: dict[Reject, None] = {}  # an ordered set
        self._file = 0
        self._rows_of_id: dict[str, int] = {}
        # Of each row by what a repeat is known by: its file, claim id and whether it has text.
        self._seen: dict[tuple[str | None, str, str], tuple[int, str, bool]] = {}
        self._claim_ids: dict[str, int] = {}

    def read(self, files: CorpusFiles) -> LoadedClaims:
        """Read and check every row of the files."""
        corpus, most = self._corpus, self._settings.max_evidence_bytes
        status = "ok" if self._read else "not_available"
        for file in self._read:
            self._file += 1
            self._rows_of_id = {}  # ids are unique in a file
            empty = True
            for row in _rows(corpus, files, file):
                empty, outcome = False, row
                if isinstance(row, Draft):
                    outcome = check_draft(
                        row, corpus.labels, label_needed=self._trains, max_evidence_bytes=most
                    )
                if isinstance(outcome, Reject):
                    self.reject(outcome)
                else:
                    self.record(file, outcome)
            status = "empty" if empty else status
        return self.loaded(status)

    def _unwanted(self, file: NativeFile, row: Draft, side: Side | None) -> Drop | None:
        """The reason against a sound row; a test set keeps rows without a label or evidence."""
        if self._trains and apply_rule(side or "middle", self._settings.label_rule) is None:
            return Drop("label_rule", "no_verdict" if side == "no_verdict" else "middle_class")
        if row.left_out is not None:
            return Drop("readings", row.left_out)
        if self._trains and not row.passages:
            return Drop("evidence", row.no_evidence)
        tested = not self._plan.held_out.isdisjoint(documents_of(row))
        if file in self._plan.divided and tested == self._trains:
            return Drop("holdout", "held_out_document" if tested else "training_document")
        return None

    def reject(self, reject: Reject) -> None:
        """Quarantine a row; a fault of a support file counts once however often it occurs."""
        safe = replace(reject, field=excerpt(reject.field), detail=excerpt(reject.detail))
        self._rejects[safe] = None

    def record(self, file: NativeFile, row: Draft) -> None:
        """Collect a sound row as a claim or a drop, or reject it as a duplicate.

        A native id may occur once in a file, though one native row may give several claims under
        it. A row of a later file with the id, claim and subset of an earlier one is a repeat,
        unless only the later one has evidence text, or a reading left the earlier out. A row of a
        ``NativeFile.selection`` counts as one of the corpus without subset.
        """
        name, rule, native = self._corpus.name, self._settings.label_rule, row.native_label
        side = None if native is None else self._corpus.labels.side(native)
        drop, identity = self._unwanted(file, row, side), row.claim_id(name)
        earlier_row = self._rows_of_id.setdefault(row.native_id, row.row)
        if earlier_row != row.row or self._claim_ids.get(identity) == self._file:
            detail = f"{row.native_id} stood in row {earlier_row}"
            self.reject(Reject(row.file, row.row, "id", "duplicate_id", detail))
            return
        subset = None if file.selection else row.subset
        key = subset, row.native_id, " ".join(row.claim.casefold().split())
        seen_in, earlier, has_text = self._seen.get(key, (self._file, "", False))
        covered = seen_in != self._file and (has_text or not row.passages)
        # A row that a reading leaves out hides none of a later file, which it may keep.
        left_out = drop is not None and drop.step == "readings"
        repeated = not left_out and (covered or identity in self._claim_ids)
        if repeated:
            drop = Drop("repeated_row", "repeated_across_files", earlier if covered else identity)
        if repeated or left_out:
            # A separate id, so that every drop is one row of the table.
            identity = row.claim_id(name, f"@{self._file}")
        else:
            self._seen[key] = self._file, identity, bool(row.passages)
        self._claim_ids[identity] = self._file
        label = None if side is None else apply_rule(side, rule)
        if drop is not None:
            source = None if drop.matched_claim_id is None else name
            why = (self.stage, drop.step, drop.reason, None, None)  # without value and threshold
            matched = (drop.matched_claim_id, source, None)
            self._drops.append((identity, name, label, *why, *matched))
            return
        self._claims.append(
            (
                *(identity, name, row.native_id, row.split, row.claim, row.evidence or None),
                *(list(row.passages), row.evidence_kind, label, row.native_label, rule),
                *(" | ".join(row.documents) or None, row.subset, row.num_hops),
            )
        )
        if self._sink is not None and len(self._claims) >= HANDED_ON:
            self._sink(self._frame())
            self._handed_on += len(self._claims)
            self._claims = []

    def loaded(self, status: str) -> LoadedClaims:
        """The rows collected from the files that were read; a sink gets the rest now.

        Raises:
            TooManyRejects: the share of rejects is above the limit.
        """
        name, most = self._corpus.name, self._settings.max_reject_share
        rows = [(name, r.file, r.row, r.field, r.reason, r.detail) for r in self._rejects]
        rejects = REJECTS.conform(pl.DataFrame(rows, schema=REJECTS.schema, orient="row"))
        drops = DROPS.conform(pl.DataFrame(self._drops, schema=DROPS.schema, orient="row"))
        rows_read = self._handed_on + len(self._claims) + len(self._drops)
        rows_read += sum(reject.row > 0 for reject in self._rejects)
        names = tuple(dict.fromkeys(file.path for file in self._read))
        unread = {file.path: file.also for file in self._read if file.also}
        loaded = LoadedClaims(self._frame(), drops, rejects, rows_read, status, names, unread)
        if loaded.reject_share > most:
            raise TooManyRejects(_refusal(name, loaded, most), rejects)
        if self._sink is None:
            return loaded
        self._sink(loaded.claims)
        return replace(loaded, claims=loaded.claims.clear())

    def _frame(self) -> pl.DataFrame:
        claims = pl.DataFrame(self._claims, schema=self._table.schema, orient="row")
        return self._table.conform(claims)


def _refusal(name: str, loaded: LoadedClaims, most: float) -> str:
    """Why a corpus with too many rejects is refused: the three largest reasons, each with a row."""
    first = pl.len(), pl.first("file", "row", "field", "detail")
    by_reason = loaded.rejects.group_by("reason", maintain_order=True).agg(*first)
    largest = by_reason.sort("len", descending=True, maintain_order=True).head(3).rows()
    examples = "; ".join(
        f"{why} ({count}, e.g. {file}:{row}:{column}{f' {detail}' * (why == 'unreadable_file')})"
        for why, count, file, row, column, detail in largest
    )
    labels = f"; unknown labels: {loaded.unknown_labels}" if loaded.unknown_labels else ""
    return (
        f"{name}: {loaded.reject_share:.1%} of {loaded.rows_read} rows were rejected, "
        f"at most {most:.1%} may be (max_reject_share): {examples}{labels}"
    )


def plan_split(
    source: Source | None, benchmark: Benchmark | None, files: CorpusFiles, holdout_share: float
) -> SplitPlan:
    """Give every file on disk its role, and the documents of shared ones to a side."""

    def present(corpus: Corpus | None, role: str) -> tuple[NativeFile, ...]:
        forms = (in_form(files.exists, file) for file in getattr(corpus, role, ()))
        return tuple(file for file in forms if files.exists(file.path))

    def drafts(corpus: Corpus, wanted: Iterable[NativeFile]) -> Iterator[Draft]:
        rows = (row for file in wanted for row in _rows(corpus, files, file))
        return (row for row in rows if isinstance(row, Draft))

    training, extra = present(source, "files"), present(source, "extra")
    evaluation, lists = present(benchmark, "files"), present(benchmark, "claim_lists")
    shared = present(benchmark, "shared")
    # A path may hold several splits, so an evaluation file is known by path and split.
    same_rows = benchmark.same_rows if benchmark and evaluation else ()
    tested = {(file.path, file.split) for file in (*evaluation, *same_rows)}
    training = tuple(file for file in training if (file.path, file.split) not in tested)
    if benchmark and any(_can_test(benchmark, files, file) for file in evaluation if shared):
        shared = ()
    own = tuple(file for file in training if file.path not in {one.path for one in shared})
    split = training if not own else ()  # both read the shared files
    held_out = frozenset[str]()
    if source and benchmark and shared:
        # By both readers, so that a document named by either one counts.
        rows = [*drafts(benchmark, shared), *drafts(source, split)]
        share = holdout_share if split else None
        held_out = split_by_document(rows, drafts(source, extra), share)
    return SplitPlan(
        (*(own or split), *extra),
        (*evaluation, *shared, *lists),
        frozenset((*extra, *split, *(shared if split else ()))),
        held_out,
    )


def _can_test(benchmark: Benchmark, files: CorpusFiles, file: NativeFile) -> bool:
    """Whether a row of the file has a label and evidence."""
    return any(
        isinstance(draft, Draft) and draft.native_label is not None and bool(draft.passages)
        for draft in benchmark.read(files, file)
    )


def documents_of(draft: Draft) -> tuple[str, ...]:
    """The row's documents; a row without any counts as a separate document."""
    return draft.documents or (f"row:{draft.native_id.strip()}",)


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
    benchmark, trained = _read_as(benchmark, settings), _read_as(source, settings)
    if trained is None:
        return ClaimCollector(source, SplitPlan(), settings, sink).loaded("off_by_terms")
    plan = plan_split(trained, benchmark, files, settings.holdout_share)
    return ClaimCollector(trained, plan, settings, sink).read(files)


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
    benchmark, source = read_as(benchmark, settings.readings), _read_as(source, settings)
    plan = plan_split(source, benchmark, files, settings.holdout_share)
    loaded = ClaimCollector(benchmark, plan, settings).read(files)
    doubtful = doubtful_claims(benchmark, loaded.claims, files)
    if sink is not None:
        sink(loaded.claims)
    return replace(loaded, doubtful=doubtful)


def _read_as(corpus: AnyCorpus | None, settings: LoadSettings) -> AnyCorpus | None:
    """The corpus in the chosen reading; None for one that its terms keep out of training."""
    off = None if settings.allow_training_off else getattr(corpus, "training_off", None)
    return None if corpus is None or off else read_as(corpus, settings.readings)
