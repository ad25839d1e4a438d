"""FaviQ, the A set: claims made from ambiguous questions, with retrieved passages.

Evidence is the passages that the row carries, the positive one first, then the negative one
(retrieved, but without the answer), so that a verifier meets both as it would after retrieval. A
row without any passage keeps its claim and no evidence. The authors write ``N/A`` for a passage
that their search did not find: it is none, and a row whose positive one is such is dropped as
``evidence_not_found``, since no passage of it holds the answer. The reading ``positive`` takes the
train split and its positive passages.
"""

from collections.abc import Mapping, Sequence

from decomposerl.claims.claim import Draft
from decomposerl.claims.fields import JsonObject, NativeRow, each_row
from decomposerl.claims.source import FieldError

_EVIDENCE = ("positive_evidence", "negative_evidence")
_NOT_FOUND = "n/a"


def _draft(row: NativeRow, evidence: Sequence[str] = _EVIDENCE) -> Draft:
    """Documents are the titles of the passages."""
    if not any(name in row.raw for name in _EVIDENCE):
        raise FieldError(_EVIDENCE[0], "missing_field", "neither evidence field is there")
    found = {name: _passages(row, name) for name in evidence}
    passages = [passage for name in evidence for passage in found[name]]
    titles = (passage.optional("title", passage.text) for passage in passages)
    documents = tuple(dict.fromkeys(title for title in titles if title))
    lost = [name for name in evidence if row.raw.get(name) and not found[name]]
    if _EVIDENCE[0] in lost or (lost and not passages):
        return row.draft((), documents=documents, no_evidence="evidence_not_found")
    return row.draft(tuple(passage.text("text") for passage in passages), documents=documents)


def _passages(row: NativeRow, name: str) -> tuple[JsonObject, ...]:
    """One passage object or a list of them; none where the field is null, empty or not found."""
    value = row.raw.get(name)
    if not value:
        return ()
    passages = (row.mapping(name),) if isinstance(value, Mapping) else row.objects(name)
    return tuple(one for one in passages if one.text("text").strip().casefold() != _NOT_FOUND)


READERS = {
    "default": each_row(_draft),
    "positive": each_row(lambda row: _draft(row, _EVIDENCE[:1])),
}
