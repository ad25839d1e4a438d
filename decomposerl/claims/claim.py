"""The types between a native row and a claim: records, drafts and rejects."""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

EvidenceKind = Literal["text", "table"]

RejectReason = Literal[
    "malformed_line",  # not JSON, wrong number of cells, unclosed quote, value out of range
    "broken_encoding",  # not UTF-8
    "truncated_file",  # a compressed or structured file ends in the middle
    "unreadable_file",  # row 0: nothing of the file could be read; else this row's block
    "missing_field",  # absent, null or of the wrong type
    "empty_claim",
    "empty_evidence",  # the field is there and holds no text
    "evidence_too_large",  # more bytes than the limit
    "field_too_large",  # another text, or a list of them, is over its limit
    "unknown_label",
    "duplicate_id",  # an earlier row has the native id
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

    ``passages`` is empty where the evidence text is not on this machine (for example, a
    Wikipedia database is absent): such rows are dropped as ``evidence_unavailable``, no fault
    of the file. ``native_label`` is None in unlabelled claim lists. ``documents`` names every
    document behind the evidence; rows that share one are never on both sides of a hold-out
    split.
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


def claim_id(source: str, native_id: str, claim: str, evidence: str) -> str:
    """16 hex digits of SHA-256 over the four parts, separated by the unit separator."""
    parts = f"{source}\x1f{native_id}\x1f{claim}\x1f{evidence}"
    return hashlib.sha256(parts.encode("utf-8", "surrogatepass")).hexdigest()[:16]
