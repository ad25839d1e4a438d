"""The types between a native row and a claim: records, drafts, rejects, label rules."""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from decomposerl.schemas import Verdict

EvidenceKind = Literal["text", "table"]
NoEvidence = Literal[
    "evidence_unavailable",  # its text is not on this machine
    "evidence_not_found",  # the corpus says that its authors' search found none
]
LabelRule = Literal["drop_middle", "middle_is_refuted", "keep_middle"]
Side = Literal["Supported", "Refuted", "middle", "no_verdict"]

RejectReason = Literal[
    "malformed_line",  # not JSON, wrong number of cells, unclosed quote, value out of range
    "broken_encoding",  # not UTF-8
    "unreadable_file",  # row 0: the file could not be read, or not to its end
    "missing_field",  # absent, null or of the wrong type
    "empty_claim",
    "empty_evidence",  # the field is there and holds no text
    "evidence_too_large",  # more bytes than the limit
    "field_too_large",  # another text, or a list of them, is over its limit
    "unknown_label",
    "duplicate_id",  # an earlier row has the native id
    "conflicting_rows",  # rows of one claim differ in claim or label; the first stands for all
    "dangling_reference",  # points to a document or sentence that does not exist
    "damaged_page",  # the evidence's page in a database cannot be read
    "adapter_error",  # the adapter has no rule for such a row; its error is the detail
]


@dataclass(frozen=True, slots=True)
class Record:
    """One native row: its position and its fields.

    ``file`` is relative to the corpora folder; ``row`` counts from 1 (lines for JSONL and
    delimited text, elements for JSON arrays and objects).
    """

    file: str
    row: int
    fields: Mapping[str, object]


@dataclass(frozen=True, slots=True)
class Reject:
    """One native row that cannot become a claim, with the field and the reason."""

    file: str
    row: int
    field: str
    reason: RejectReason
    detail: str = ""


@dataclass(frozen=True, slots=True)
class Draft:
    """One claim as its corpus states it, before label rule, id and hold-out.

    ``passages`` is empty where there is no evidence text (for example, a Wikipedia database is
    absent): such rows are dropped for the reason ``no_evidence``, no fault of the file.
    ``native_label`` is None in unlabelled claim lists. ``documents`` names every
    document behind the evidence; rows that share one are never on both sides of a hold-out
    split. ``left_out`` is the reason why the chosen reading of the corpus drops the row.
    """

    file: str
    row: int
    native_id: str
    split: str
    claim: str
    passages: tuple[str, ...]
    native_label: str | None
    documents: tuple[str, ...] = ()
    evidence_kind: EvidenceKind = "text"
    subset: str | None = None
    num_hops: int | None = None
    left_out: str | None = None
    no_evidence: NoEvidence = "evidence_unavailable"

    @property
    def evidence(self) -> str:
        """The passages as one text."""
        return "\n".join(self.passages)

    def claim_id(self, source: str, suffix: str = "") -> str:
        """The row's id in ``source``; ``suffix`` makes the id of a dropped repeat unique."""
        return claim_id(source, self.native_id + suffix, self.claim, self.evidence)


def claim_id(source: str, native_id: str, claim: str, evidence: str) -> str:
    """16 hex digits of SHA-256 over the four parts, separated by the unit separator."""
    return short_digest(f"{source}\x1f{native_id}\x1f{claim}\x1f{evidence}")


def short_digest(text: str) -> str:
    """16 hex digits of SHA-256 of any text."""
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:16]


@dataclass(frozen=True, slots=True)
class LabelMap:
    """The native labels of each side (paper, "Source Aggregation"); compared trimmed and caseless.

    ``middle`` holds the third class: not enough information, mixture, partly supported.
    ``drop`` holds labels that are no verdict under any rule, such as "duplicate".
    """

    supported: frozenset[str]
    refuted: frozenset[str]
    middle: frozenset[str] = frozenset()
    drop: frozenset[str] = frozenset()

    def side(self, native: str) -> Side | None:
        """The side of one native label; None where the label is unknown."""
        key = native.strip().casefold()
        if key in self.supported:
            return "Supported"
        if key in self.refuted:
            return "Refuted"
        if key in self.drop:
            return "no_verdict"
        return "middle" if key in self.middle else None


_MIDDLE: Mapping[LabelRule, Verdict | None] = {
    "drop_middle": None,
    "middle_is_refuted": "Refuted",
    "keep_middle": "NotEnoughInfo",
}


def apply_rule(side: Side, rule: LabelRule) -> Verdict | None:
    """The label of a side under a rule; None means the row is dropped."""
    if side == "no_verdict":
        return None
    return _MIDDLE[rule] if side == "middle" else side
