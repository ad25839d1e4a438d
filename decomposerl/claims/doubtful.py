"""Claims of a test set whose label is doubtful, as lists in the corpora folder name them.

Takes ``doubtful.jsonl`` or ``.csv`` of the folder named like the test set and of the folders that
its native files are in (``list_folders``), and the test set's claims; gives the ``DOUBTFUL`` table.
Several lists count together. Each row names a claim by ``native_id`` (or ``id``), or by the text of
``claim`` (or ``statement``); where several claims have that text, ``evidence`` (or
``reference_documents``) tells them apart. ``kind`` is wrong or ambiguous, ``label`` the proposed
label: Supported, Refuted or ambiguous, as the corpus spells it or as S, NS and AMBIG. A row that
proposes the label that the claim has confirms it. The published rows of ClearFacts and GrayFacts
(Seo et al., 2025, "Verifying the Verifiers") have this form.
"""

import json
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import PurePosixPath

import polars as pl

from decomposerl.claims.claim import LabelMap, Record, Reject
from decomposerl.claims.records import excerpt
from decomposerl.claims.source import Benchmark, CorpusFiles, FileFormat, NativeFile
from decomposerl.schemas import DOUBTFUL

LISTS: Mapping[str, FileFormat] = {"doubtful.jsonl": "jsonl", "doubtful.csv": "csv"}
DOUBTED = "doubtful"
"""The state of a row that doubts one claim's label; rows of every other state change nothing."""
_UNMATCHED = ("unreadable", "no_claim", "several_claims")
_NAMES = {
    "native_id": ("native_id", "id"),
    "claim": ("claim", "statement"),
    "evidence": ("evidence", "reference_documents"),
}
_KINDS = ("wrong", "ambiguous")
_LABELS = {
    **dict.fromkeys(("s", "supported"), "Supported"),
    **dict.fromkeys(("ns", "refuted", "not supported"), "Refuted"),
    **dict.fromkeys(("ambig", "ambiguous"), "ambiguous"),
}
_Found = list[dict[str, object]]
_Claims = dict[str, _Found]


@dataclass(frozen=True, slots=True)
class _Row:
    """A row of the list, as a row of ``DOUBTFUL``."""

    file: str
    row: int
    native_id: str | None = None
    claim: str | None = None
    claim_id: str | None = None
    kind: str | None = None
    label: str | None = None
    state: str = ""
    detail: str = ""

    def cells(self) -> tuple[object, ...]:
        return tuple(getattr(self, name) for name in DOUBTFUL.schema)


def list_folders(benchmark: Benchmark) -> tuple[str, ...]:
    """The folders that may hold a list of the test set: its name's, then its native files'."""
    native = (*benchmark.files, *benchmark.shared, *benchmark.claim_lists)
    folders = (PurePosixPath(file.path).parts[:-1] for file in native)
    return tuple(dict.fromkeys((benchmark.name, *(parts[0] for parts in folders if parts))))


def doubtful_claims(
    folders: Sequence[str], labels: LabelMap, claims: pl.DataFrame, files: CorpusFiles
) -> pl.DataFrame | None:
    """The lists of a test set in ``folders`` as ``DOUBTFUL``, or None where there is none.

    ``claims`` are its ``BENCHMARK_CLAIMS``, ``labels`` the spellings of its labels. Every row of
    a list is there at least once: a native row that gave several claims doubts all of them.
    """
    paths = {f"{name}/{file}": kind for name in folders for file, kind in LISTS.items()}
    lists = [NativeFile(path, kind, "") for path, kind in paths.items() if files.exists(path)]
    if not lists:
        return None
    known = claims.select("claim_id", "native_id", "claim", "evidence", "label").to_dicts()
    by_id: _Claims = defaultdict(list)
    by_text: _Claims = defaultdict(list)
    for claim in known:
        by_id[str(claim["native_id"])].append(claim)
        by_text[_plain(str(claim["claim"]))].append(claim)
    taken = set[str]()
    rows = []
    for record in (record for file in lists for record in files.records(file)):
        for row in _matched(record, labels, by_id, by_text):
            repeated = row.state == DOUBTED and row.claim_id in taken
            taken |= {row.claim_id} if row.claim_id and row.state == DOUBTED else set()
            rows.append(replace(row, state="repeated") if repeated else row)
    return DOUBTFUL.conform(
        pl.DataFrame([row.cells() for row in rows], DOUBTFUL.schema, orient="row")
    )


def doubted_ids(rows: pl.DataFrame) -> frozenset[str]:
    """The claims whose label ``DOUBTFUL`` doubts."""
    return frozenset(rows.filter(state=DOUBTED)["claim_id"])


def without_effect(rows: pl.DataFrame, most: int = 3) -> str:
    """How many rows of ``DOUBTFUL`` name no claim, or not one, by state, with the first of them."""
    lost = rows.filter(pl.col("state").is_in(_UNMATCHED))
    counts = lost["state"].value_counts(sort=True).rows()
    said = ", ".join(f"{state.replace('_', ' ')} {count:,}" for state, count in counts)
    first = "; ".join(f"{file}:{row}" for file, row in lost.select("file", "row").head(most).rows())
    return f"doubtful labels without effect: {said}, e.g. {first}" if said else ""


def _matched(
    record: Record | Reject, labels: LabelMap, by_id: _Claims, by_text: _Claims
) -> Iterator[_Row]:
    """The row for each claim that a record names, or the one that says why it names none."""
    empty = _Row(record.file, record.row)
    if isinstance(record, Reject):
        yield replace(empty, state="unreadable", detail=excerpt(record.reason))
        return
    cells = {name: _first(record.fields, names) for name, names in _NAMES.items()}
    named = replace(empty, native_id=cells["native_id"], claim=cells["claim"])
    kind, label = (_first(record.fields, (name,)) for name in ("kind", "label"))
    proposed = _proposed(label, labels)
    if not (named.native_id or named.claim):
        yield replace(named, state="unreadable", detail="neither native_id nor claim")
    elif kind is not None and kind.casefold() not in _KINDS:
        yield replace(named, state="unreadable", detail=f"kind is none of {', '.join(_KINDS)}")
    elif label is not None and proposed is None:
        yield replace(named, state="unreadable", detail=f"unknown label {excerpt(label)}")
    else:
        row = replace(named, kind=kind and kind.casefold(), label=proposed)
        candidates = by_id.get(row.native_id or "", [])
        if not row.native_id:
            candidates = _of_text(by_text.get(_plain(row.claim or ""), []), cells["evidence"])
        yield from _judged(row, candidates)


def _judged(row: _Row, candidates: _Found) -> Iterator[_Row]:
    if not candidates:
        yield replace(row, state="no_claim")
    elif len(candidates) > 1 and not row.native_id:
        yield replace(row, state="several_claims", detail=f"{len(candidates)}; give the native_id")
    else:
        for claim in candidates:
            same = row.kind is None and row.label is not None and row.label == claim["label"]
            kind = row.kind or {"ambiguous": "ambiguous", None: None}.get(row.label, "wrong")
            yield replace(
                row,
                claim_id=str(claim["claim_id"]),
                kind=None if same else kind,
                state="confirmed" if same else DOUBTED,
            )


def _of_text(claims: _Found, evidence: str | None) -> _Found:
    """Of several claims with one text those with the evidence, up to punctuation and case."""
    wanted = _letters(evidence or "")
    if len(claims) == 1 or not wanted:
        return claims
    return [claim for claim in claims if wanted == _letters(str(claim["evidence"] or ""))]


def _first(fields: Mapping[str, object], names: tuple[str, ...]) -> str | None:
    """The first of the fields that is not empty, as text; a list of texts joined."""
    for name in names:
        cell = _listed(fields.get(name))
        text = "\n".join(map(str, cell)) if isinstance(cell, list) else str(cell).strip()
        if cell is not None and text:
            return text
    return None


def _listed(cell: object) -> object:
    """The cell; a list of texts also where it is written as JSON within text, as by GrayFacts."""
    if not isinstance(cell, str) or not cell.startswith("["):
        return cell
    try:
        return json.loads(cell)
    except ValueError:
        return cell


def _proposed(label: str | None, labels: LabelMap) -> str | None:
    if label is None:
        return None
    side = labels.side(label)
    if side in {"Supported", "Refuted"}:
        return side
    word = " ".join(label.casefold().replace("_", " ").split())
    return _LABELS.get(word) or ("ambiguous" if side == "middle" else None)


def _plain(text: str) -> str:
    return " ".join(text.casefold().split())


def _letters(text: str) -> str:
    return "".join(letter for letter in text.casefold() if letter.isalnum())
