"""The checks that every draft must pass before it becomes a claim, whichever corpus it is from.

A row that fails is a reject. Drops (label rule, evidence, hold-out, repeats) are decided later: a
dropped row is sound and merely unwanted.
"""

from dataclasses import dataclass

from decomposerl.claims.claim import Draft, LabelMap, Reject, RejectReason, Side, claim_id
from decomposerl.claims.records import broken_field, excerpt

_INT64 = range(-(2**63), 2**63)
MAX_BYTES = {"id": 1_000, "claim": 16_000, "label": 1_000, "document": 4_000, "subset": 1_000}
"""Most bytes in UTF-8 of each text field; evidence has its limit in ``LoadSettings``."""
MAX_ITEMS = {"passages": 50_000, "documents": 1_000}
"""Most passages and documents of one row."""

Fault = tuple[str, RejectReason, str]
"""Field, reason, detail."""


@dataclass(frozen=True, slots=True)
class Candidate:
    """A sound row: trimmed claim, passages without blanks, and the side of its label.

    ``side`` is None where the corpus gives no label.
    """

    draft: Draft
    native_id: str
    claim: str
    passages: tuple[str, ...]
    evidence: str
    side: Side | None

    def claim_id(self, source: str, suffix: str = "") -> str:
        """The row's id in ``source``; ``suffix`` makes the id of a dropped repeat unique."""
        return claim_id(source, self.native_id + suffix, self.claim, self.evidence)


def check_draft(
    draft: Draft, labels: LabelMap, *, label_needed: bool, max_evidence_bytes: int
) -> Candidate | Reject:
    """Clean one draft, or give the reason why it cannot become a claim."""
    passages = tuple(text for text in map(str.strip, draft.passages) if text)
    evidence = "\n".join(passages)
    native = draft.native_label
    fault = _size_fault(draft) or _text_fault(draft, evidence, max_evidence_bytes)
    side = labels.side(native) if native is not None and fault is None else None
    if fault is None and draft.num_hops is not None and draft.num_hops not in _INT64:
        fault = ("num_hops", "missing_field", "not a 64-bit integer")
    if fault is None and native is None and label_needed:
        fault = ("label", "missing_field", "the row has no label")
    if fault is None and native is not None and side is None:
        fault = ("label", "unknown_label", native)
    if fault is not None:
        field, reason, detail = fault
        return Reject(draft.file, draft.row, field, reason, excerpt(detail))
    return Candidate(draft, draft.native_id.strip(), draft.claim.strip(), passages, evidence, side)


def _size_fault(draft: Draft) -> Fault | None:
    """The first field or list over its limit."""
    for name, items in (("passages", draft.passages), ("documents", draft.documents)):
        if len(items) > MAX_ITEMS[name]:
            return name, "field_too_large", f"{len(items)} {name}, at most {MAX_ITEMS[name]}"
    for name, text in (*_fields(draft), *(("document", each) for each in draft.documents)):
        if len(text) * 4 <= MAX_BYTES[name]:  # a character takes at most 4 bytes: skip encoding
            continue
        size = len(text.encode("utf-8", "surrogatepass"))
        if size > MAX_BYTES[name]:
            return name, "field_too_large", f"{size} bytes, at most {MAX_BYTES[name]}"
    return None


def _fields(draft: Draft) -> tuple[tuple[str, str], ...]:
    """The texts of a row with one value each, by the names of their limits."""
    return (
        ("id", draft.native_id),
        ("claim", draft.claim),
        ("label", draft.native_label or ""),
        ("subset", draft.subset or ""),
    )


def _text_fault(draft: Draft, evidence: str, max_bytes: int) -> Fault | None:
    if not draft.native_id.strip():
        return "id", "missing_field", "the id is blank"
    if not draft.claim.strip():
        return "claim", "empty_claim", ""
    if draft.passages and not evidence:
        return "evidence", "empty_evidence", ""
    texts = {"evidence": evidence, "document": "".join(draft.documents)}
    broken = broken_field(dict(_fields(draft)) | texts)
    if broken is not None:
        return broken, "broken_encoding", "lone surrogate"
    size = len(evidence.encode("utf-8"))
    if size > max_bytes:
        return "evidence", "evidence_too_large", f"{size} bytes, at most {max_bytes}"
    return None
