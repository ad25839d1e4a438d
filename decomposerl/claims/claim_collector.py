"""Collects one corpus while it is read: claims, drops and rejects, each row once.

Rows come one by one, the three frames at the end; columns are plain lists until then, because a
frame per row would cost minutes. The collector finds repeats, since it alone knows earlier rows.
"""

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, replace

import polars as pl

from decomposerl.claims.checks import Candidate
from decomposerl.claims.claim import LabelRule, Reject, apply_rule
from decomposerl.claims.records import excerpt
from decomposerl.claims.source import NativeFile
from decomposerl.errors import TooManyRejects
from decomposerl.schemas import BENCHMARK_CLAIMS, CLAIMS, DROPS, REJECTS

_LABEL_CHARS = 60
HANDED_ON = 2_000


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


@dataclass(frozen=True, slots=True)
class _Seen:
    file: int
    claim_id: str
    has_text: bool


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
        self._sink, self._handed_on = sink, 0
        self._claims: list[tuple[object, ...]] = []
        self._drops: list[tuple[object, ...]] = []
        self._rejects: dict[Reject, None] = {}  # an ordered set
        self._file = 0
        self._rows_of_id: dict[str, int] = {}
        self._seen: dict[tuple[str | None, str, str], _Seen] = {}
        self._claim_ids: dict[str, int] = {}

    @property
    def rows_read(self) -> int:
        """Rows collected: claims, drops, and rejects of a row (not of a whole file)."""
        rejected = sum(reject.row > 0 for reject in self._rejects)
        return self._handed_on + len(self._claims) + len(self._drops) + rejected

    def open_file(self, file: NativeFile) -> None:
        """Begin a native file: ids must be unique within it."""
        self._file += 1
        self._selection = file.selection
        self._rows_of_id = {}

    def reject(self, reject: Reject) -> None:
        """Quarantine a row; a fault of a support file counts once however often it occurs."""
        safe = replace(reject, field=excerpt(reject.field), detail=excerpt(reject.detail))
        self._rejects[safe] = None

    def record(self, row: Candidate, drop: Drop | None) -> None:
        """Collect a sound row as a claim or a drop, or reject it as a duplicate.

        A native id may occur once in a file, though one native row may give several claims
        under it. A row of a later file with the id, claim and subset of an earlier one is a
        repeat, unless only the later one has evidence text, or a reading left the earlier out.
        A row of a ``NativeFile.selection`` counts as one of the corpus without subset.
        """
        draft, identity = row.draft, row.claim_id(self.name)
        earlier_row = self._rows_of_id.setdefault(row.native_id, draft.row)
        if earlier_row != draft.row or self._claim_ids.get(identity) == self._file:
            detail = f"{row.native_id} stood in row {earlier_row}"
            self.reject(Reject(draft.file, draft.row, "id", "duplicate_id", detail))
            return
        key = (
            None if self._selection else draft.subset,
            row.native_id,
            " ".join(row.claim.casefold().split()),
        )
        seen = self._seen.get(key)
        repeated = seen is not None and seen.file != self._file
        covered = seen is not None and repeated and (seen.has_text or not row.passages)
        if drop is not None and drop.step == "readings":
            # It hides no row of a later file, which may be the form that the reading keeps.
            identity = row.claim_id(self.name, f"@{self._file}")
        elif covered or identity in self._claim_ids:
            matched = seen.claim_id if seen is not None and covered else identity
            drop = Drop("repeated_row", "repeated_across_files", matched)
            # The repeat has a separate id, so that every drop is one row of the table.
            identity = row.claim_id(self.name, f"@{self._file}")
        else:
            self._seen[key] = _Seen(self._file, identity, bool(row.passages))
        self._claim_ids[identity] = self._file
        label = apply_rule(row.side, self._rule) if row.side is not None else None
        if drop is not None:
            self._drops.append(self._drop_row(identity, label, drop))
        else:
            self._claims.append(self._claim_row(identity, label, row))
            if self._sink is not None and len(self._claims) >= HANDED_ON:
                self._hand_on(self._sink)

    def _hand_on(self, sink: Sink) -> None:
        sink(CLAIMS.conform(pl.DataFrame(self._claims, schema=CLAIMS.schema, orient="row")))
        self._handed_on += len(self._claims)
        self._claims = []

    def check_rejects(self, max_share: float) -> None:
        """Refuse a corpus with too many bad rows.

        Raises:
            TooManyRejects: the share of rejects is above ``max_share``; a file that cannot
                be read at all counts as a share of 1.
        """
        unreadable = any(
            reject.reason == "unreadable_file" and reject.row == 0 for reject in self._rejects
        )
        rejected = sum(reject.row > 0 for reject in self._rejects)
        share = 1.0 if unreadable else rejected / max(1, self.rows_read)
        if share <= max_share:
            return
        counts = Counter(reject.reason for reject in self._rejects).most_common(3)
        examples = "; ".join(
            f"{reason} ({count}, e.g. {self._example(reason)})" for reason, count in counts
        )
        labels = unknown_labels(self._reject_frame())
        raise TooManyRejects(
            f"{self.name}: {share:.1%} of {self.rows_read} rows were rejected, "
            f"at most {max_share:.1%} may be (max_reject_share): {examples}"
            + (f"; unknown labels: {labels}" if labels else ""),
            self._reject_frame(),
        )

    def frames(self, *, nullable: bool) -> tuple[pl.DataFrame, pl.DataFrame, pl.DataFrame]:
        """Claims, drops and rejects; ``nullable`` chooses the benchmark's table of claims.

        With a sink, which gets the rest now, the claims are empty.
        """
        if self._sink is not None:
            self._hand_on(self._sink)
        table = BENCHMARK_CLAIMS if nullable else CLAIMS
        claims = pl.DataFrame(self._claims, schema=table.schema, orient="row")
        drops = pl.DataFrame(self._drops, schema=DROPS.schema, orient="row")
        return table.conform(claims), DROPS.conform(drops), self._reject_frame()

    def _reject_frame(self) -> pl.DataFrame:
        rows = [(self.name, r.file, r.row, r.field, r.reason, r.detail) for r in self._rejects]
        return REJECTS.conform(pl.DataFrame(rows, schema=REJECTS.schema, orient="row"))

    def _example(self, reason: str) -> str:
        first = next(reject for reject in self._rejects if reject.reason == reason)
        location = f"{first.file}:{first.row}:{first.field}"
        unreadable = first.reason == "unreadable_file"
        return f"{location} {first.detail}" if unreadable else location

    def _claim_row(self, identity: str, label: str | None, row: Candidate) -> tuple[object, ...]:
        draft = row.draft
        return (
            identity,
            self.name,
            row.native_id,
            draft.split,
            row.claim,
            row.evidence if row.passages else None,
            list(row.passages),
            draft.evidence_kind,
            label,
            draft.native_label,
            self._rule,
            " | ".join(draft.documents) or None,
            draft.subset,
            draft.num_hops,
        )

    def _drop_row(self, identity: str, label: str | None, drop: Drop) -> tuple[object, ...]:
        matched = drop.matched_claim_id
        source = self.name if matched is not None else None
        return (
            identity, self.name, label, self.stage, drop.step, drop.reason,
            None, None, matched, source, None,
        )  # fmt: skip
