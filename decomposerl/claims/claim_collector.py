"""Checks drafts and collects one corpus while it is read: claims, drops and rejects, each row once.

A row that fails a check, whichever corpus it is from, is a reject. Drops (label rule, evidence,
hold-out, repeats) are sound rows that are merely unwanted. Rows come one by one, the three frames
at the end; columns are plain lists until then, because a frame per row would cost minutes. The
collector finds repeats, since it alone knows earlier rows.
"""

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from itertools import chain

import polars as pl

from decomposerl.claims.claim import (
    Draft,
    LabelMap,
    LabelRule,
    Reject,
    RejectReason,
    Side,
    apply_rule,
)
from decomposerl.claims.records import broken_field, excerpt
from decomposerl.claims.source import NativeFile
from decomposerl.errors import TooManyRejects
from decomposerl.schemas import BENCHMARK_CLAIMS, CLAIMS, DROPS, REJECTS

_INT64 = range(-(2**63), 2**63)
MAX_BYTES = {"id": 1_000, "claim": 16_000, "label": 1_000, "document": 4_000, "subset": 1_000}
"""Most bytes in UTF-8 of each text field; evidence has its limit in ``LoadSettings``."""
MAX_ITEMS = {"passages": 50_000, "documents": 1_000}
"""Most passages and documents of one row."""
_LABEL_CHARS = 60
HANDED_ON = 2_000
"""Claims that a sink gets at a time."""

Fault = tuple[str, RejectReason, str]
"""Field, reason, detail."""


def check_draft(
    draft: Draft, labels: LabelMap, *, label_needed: bool, max_evidence_bytes: int
) -> Draft | Reject:
    """The draft with its id, claim and passages trimmed, blank ones left out; or what is wrong."""
    native, texts = draft.native_label, map(str.strip, draft.passages)
    sound = replace(
        draft,
        native_id=draft.native_id.strip(),
        claim=draft.claim.strip(),
        passages=tuple(text for text in texts if text),
    )
    faults = chain(_too_large(draft), _unfit(draft, sound.evidence, max_evidence_bytes))
    for field, reason, detail in faults:  # the first of them counts
        return Reject(draft.file, draft.row, field, reason, excerpt(detail))
    if native is None and label_needed:
        return Reject(draft.file, draft.row, "label", "missing_field", "the row has no label")
    if native is not None and labels.side(native) is None:
        return Reject(draft.file, draft.row, "label", "unknown_label", excerpt(native))
    return sound


def _too_large(draft: Draft) -> Iterator[Fault]:
    for name, items in (("passages", draft.passages), ("documents", draft.documents)):
        if len(items) > MAX_ITEMS[name]:
            yield name, "field_too_large", f"{len(items)} {name}, at most {MAX_ITEMS[name]}"
    documents = (("document", document) for document in draft.documents)
    for name, text in (*_texts(draft).items(), *documents):
        if len(text) * 4 <= MAX_BYTES[name]:  # a character takes at most 4 bytes: skip encoding
            continue
        size = len(text.encode("utf-8", "surrogatepass"))
        if size > MAX_BYTES[name]:
            yield name, "field_too_large", f"{size} bytes, at most {MAX_BYTES[name]}"


def _texts(draft: Draft) -> dict[str, str]:
    """The texts of a row with one value each, by the names of their limits."""
    label, subset = draft.native_label or "", draft.subset or ""
    return {"id": draft.native_id, "claim": draft.claim, "label": label, "subset": subset}


def _unfit(draft: Draft, evidence: str, max_bytes: int) -> Iterator[Fault]:
    if not draft.native_id.strip():
        yield "id", "missing_field", "the id is blank"
    if not draft.claim.strip():
        yield "claim", "empty_claim", ""
    if draft.passages and not evidence:
        yield "evidence", "empty_evidence", ""
    joined = {"evidence": evidence, "document": "".join(draft.documents)}
    if (broken := broken_field(_texts(draft) | joined)) is not None:
        yield broken, "broken_encoding", "lone surrogate"
    if (size := len(evidence.encode("utf-8", "replace"))) > max_bytes:
        yield "evidence", "evidence_too_large", f"{size} bytes, at most {max_bytes}"
    if draft.num_hops is not None and draft.num_hops not in _INT64:
        yield "num_hops", "missing_field", "not a 64-bit integer"


def unknown_labels(rejects: pl.DataFrame, most: int = 8) -> str:
    """The unknown native labels with their row counts, most frequent first; may be empty.

    Written with escapes, so that a terminal shows nothing but text.
    """
    unknown = rejects.filter(reason="unknown_label", field="label")["detail"]
    counts = Counter(
        text if len(text) <= _LABEL_CHARS else text[:_LABEL_CHARS] + "…" for text in unknown
    )
    named = [f"{label!r} ({rows})" for label, rows in counts.most_common(most)]
    more = [f"and {len(counts) - most} more"] if len(counts) > most else []
    return ", ".join([*named, *more])


@dataclass(frozen=True, slots=True)
class Drop:
    """Why a sound row is not used, and the claim that it repeats, if it does."""

    step: str
    reason: str
    matched_claim_id: str | None = None


Sink = Callable[[pl.DataFrame], None]
"""Takes the next claims of a corpus, in the columns of ``CLAIMS``."""


class ClaimCollector:
    """Rows of one corpus; ``stage`` is the asset, ``name`` the corpus.

    With a ``sink`` claims are handed on as they come, ``HANDED_ON`` rows at a time, and not kept;
    of each, its ids and the text that a repeat is known by stay here.
    """

    def __init__(
        self, name: str, stage: str, label_rule: LabelRule, sink: Sink | None = None
    ) -> None:
        self.name, self.stage, self._rule = name, stage, label_rule
        self._table = BENCHMARK_CLAIMS if stage.startswith("benchmark/") else CLAIMS
        self._sink, self._handed_on = sink, 0
        self._claims: list[tuple[object, ...]] = []
        self._drops: list[tuple[object, ...]] = []
        self._rejects: dict[Reject, None] = {}  # an ordered set
        self._file = 0
        self._rows_of_id: dict[str, int] = {}
        # Of each row by what a repeat is known by: its file, claim id and whether it has text.
        self._seen: dict[tuple[str | None, str, str], tuple[int, str, bool]] = {}
        self._claim_ids: dict[str, int] = {}

    @property
    def rows_read(self) -> int:
        """Rows collected: claims, drops, and rejects of a row (not of a whole file)."""
        return self._handed_on + len(self._claims) + len(self._drops) + self._rows_rejected

    @property
    def _rows_rejected(self) -> int:
        return sum(reject.row > 0 for reject in self._rejects)

    def open_file(self, file: NativeFile) -> None:
        """Begin a native file: ids must be unique within it."""
        self._file += 1
        self._selection = file.selection
        self._rows_of_id = {}

    def reject(self, reject: Reject) -> None:
        """Quarantine a row; a fault of a support file counts once however often it occurs."""
        safe = replace(reject, field=excerpt(reject.field), detail=excerpt(reject.detail))
        self._rejects[safe] = None

    def record(self, row: Draft, side: Side | None, drop: Drop | None) -> None:
        """Collect a sound row as a claim or a drop, or reject it as a duplicate.

        ``side`` is that of its label, None where the corpus gives none. A native id may occur once
        in a file, though one native row may give several claims under it. A row of a later file
        with the id, claim and subset of an earlier one is a repeat, unless only the later one has
        evidence text, or a reading left the earlier out. A row of a ``NativeFile.selection`` counts
        as one of the corpus without subset.
        """
        identity = row.claim_id(self.name)
        earlier_row = self._rows_of_id.setdefault(row.native_id, row.row)
        if earlier_row != row.row or self._claim_ids.get(identity) == self._file:
            detail = f"{row.native_id} stood in row {earlier_row}"
            self.reject(Reject(row.file, row.row, "id", "duplicate_id", detail))
            return
        subset = None if self._selection else row.subset
        key = subset, row.native_id, " ".join(row.claim.casefold().split())
        file, earlier, has_text = self._seen.get(key, (self._file, "", False))
        covered = file != self._file and (has_text or not row.passages)
        # A row that a reading leaves out hides none of a later file, which it may keep.
        left_out = drop is not None and drop.step == "readings"
        repeated = not left_out and (covered or identity in self._claim_ids)
        if repeated:
            drop = Drop("repeated_row", "repeated_across_files", earlier if covered else identity)
        if repeated or left_out:
            # A separate id, so that every drop is one row of the table.
            identity = row.claim_id(self.name, f"@{self._file}")
        else:
            self._seen[key] = self._file, identity, bool(row.passages)
        self._claim_ids[identity] = self._file
        label = None if side is None else apply_rule(side, self._rule)
        if drop is not None:
            self._drops.append(self._drop_row(identity, label, drop))
            return
        self._claims.append(self._claim_row(identity, label, row))
        if self._sink is not None and len(self._claims) >= HANDED_ON:
            self._hand_on(self._sink)

    def _hand_on(self, sink: Sink) -> None:
        sink(self._claim_frame())
        self._handed_on += len(self._claims)
        self._claims = []

    def check_rejects(self, max_share: float) -> None:
        """Refuse a corpus with too many bad rows.

        Raises:
            TooManyRejects: the share of rejects is above ``max_share``; a file that cannot
                be read at all counts as a share of 1.
        """
        unreadable = any(one.reason == "unreadable_file" and not one.row for one in self._rejects)
        share = 1.0 if unreadable else self._rows_rejected / max(1, self.rows_read)
        if share <= max_share:
            return
        first = {reject.reason: reject for reject in reversed(self._rejects)}
        counts = Counter(reject.reason for reject in self._rejects).most_common(3)
        examples = "; ".join(f"{why} ({count}, e.g. {_place(first[why])})" for why, count in counts)
        labels = unknown_labels(self._reject_frame())
        raise TooManyRejects(
            f"{self.name}: {share:.1%} of {self.rows_read} rows were rejected, "
            f"at most {max_share:.1%} may be (max_reject_share): {examples}"
            + (f"; unknown labels: {labels}" if labels else ""),
            self._reject_frame(),
        )

    def frames(self) -> tuple[pl.DataFrame, pl.DataFrame, pl.DataFrame]:
        """Claims, drops and rejects; with a sink, which gets the rest now, without the claims."""
        if self._sink is not None:
            self._hand_on(self._sink)
        drops = pl.DataFrame(self._drops, schema=DROPS.schema, orient="row")
        return self._claim_frame(), DROPS.conform(drops), self._reject_frame()

    def _claim_frame(self) -> pl.DataFrame:
        claims = pl.DataFrame(self._claims, schema=self._table.schema, orient="row")
        return self._table.conform(claims)

    def _reject_frame(self) -> pl.DataFrame:
        rows = [(self.name, r.file, r.row, r.field, r.reason, r.detail) for r in self._rejects]
        return REJECTS.conform(pl.DataFrame(rows, schema=REJECTS.schema, orient="row"))

    def _claim_row(self, identity: str, label: str | None, row: Draft) -> tuple[object, ...]:
        return (
            *(identity, self.name, row.native_id, row.split, row.claim, row.evidence or None),
            *(list(row.passages), row.evidence_kind, label, row.native_label, self._rule),
            *(" | ".join(row.documents) or None, row.subset, row.num_hops),
        )

    def _drop_row(self, identity: str, label: str | None, drop: Drop) -> tuple[object, ...]:
        matched = drop.matched_claim_id
        source = self.name if matched is not None else None
        numbers = (None, None)  # value and threshold
        why = (self.stage, drop.step, drop.reason)
        return (identity, self.name, label, *why, *numbers, matched, source, None)


def _place(reject: Reject) -> str:
    location = f"{reject.file}:{reject.row}:{reject.field}"
    return f"{location} {reject.detail}" if reject.reason == "unreadable_file" else location
