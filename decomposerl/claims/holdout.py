"""Who stands on which side of a hold-out split, decided by documents and a fixed hash.

Takes the documents behind each row, gives the connected components of rows that share one
and the side of each component. Nothing depends on the order of rows, so that a source and
its benchmark come to the same answer on their own.

Left out deliberately: which files are split (``split_plan.py``) and what happens to a row
on the wrong side (``load.py``).
"""

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from decomposerl.claims.claim import Draft


@dataclass(frozen=True, slots=True)
class Holdout:
    """A split: ``roots`` maps a document to the smallest document of its component.

    ``held`` holds the roots of the components on the benchmark's side.
    """

    roots: Mapping[str, str]
    held: frozenset[str]

    def is_held(self, draft: Draft) -> bool:
        """Whether the row belongs to the benchmark."""
        first = documents_of(draft)[0]
        return self.roots.get(first, first) in self.held


def documents_of(draft: Draft) -> tuple[str, ...]:
    """The row's documents; a row without any stands alone under its own id."""
    return draft.documents or (f"row:{draft.native_id}",)


def components(rows: Iterable[Sequence[str]]) -> dict[str, str]:
    """Map every document to the smallest document it is connected to through rows."""
    parent: dict[str, str] = {}

    def root(document: str) -> str:
        parent.setdefault(document, document)
        while parent[document] != document:
            parent[document] = parent[parent[document]]
            document = parent[document]
        return document

    for row in rows:
        for document in row:
            one, other = root(row[0]), root(document)
            parent[max(one, other)] = min(one, other)
    return {document: root(document) for document in parent}


def place(document: str) -> float:
    """A number in 0..1 that depends on the document's name alone."""
    digest = hashlib.sha256(document.encode("utf-8", "surrogatepass")).digest()
    return int.from_bytes(digest[:8], "big") / 2**64


def split_by_document(
    shared: Iterable[Draft], extra: Iterable[Draft], share: float | None
) -> Holdout:
    """Split the components of ``shared`` rows; ``extra`` rows only join components.

    A component is held out where the hash of its smallest document lies below ``share``
    (0..1), or always where ``share`` is None because the benchmark takes the shared files
    whole. A component without a shared row is never held out: the benchmark would gain
    nothing from it.
    """
    tested = [documents_of(draft) for draft in shared]
    roots = components((*tested, *(documents_of(draft) for draft in extra)))
    candidates = {roots[documents[0]] for documents in tested}
    held = {root for root in candidates if share is None or place(root) < share}
    return Holdout(roots, frozenset(held))
