"""Claims of a test set whose label is doubtful, as lists in the corpora folder name them.

A list is ``doubtful.jsonl`` or ``.csv``, in the folder named like the test set or in those of its
native files; several count together. A row names a claim by ``native_id`` (or ``id``), or by the
text of ``claim`` (or ``statement``); ``evidence`` (or ``reference_documents``) tells claims of one
text apart. A ``label`` that is the claim's own confirms it, unless the row has a ``kind``. The
published rows of ClearFacts and GrayFacts (Seo et al., 2025, "Verifying the Verifiers") are so.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import PurePosixPath
from typing import Any

import polars as pl

from decomposerl.claims.claim import LabelMap, Record, Reject
from decomposerl.claims.source import Benchmark, CorpusFiles, FileFormat, NativeFile
from decomposerl.schemas import DOUBTFUL

_SIDES = {"s": "Supported", "ns": "Refuted", "supported": "Supported", "refuted": "Refuted"}
_NAMES = (("native_id", "id"), ("claim", "statement"), ("evidence", "reference_documents"))


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
    kinds: tuple[FileFormat, ...] = ("jsonl", "csv")
    paths = [(f"{folder}/doubtful.{kind}", kind) for folder in folders for kind in kinds]
    lists = [NativeFile(path, kind, "") for path, kind in paths if files.exists(path)]
    if not lists:
        return None
    known: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for claim in claims.select("claim_id", "native_id", "claim", "evidence", "label").to_dicts():
        known[f"id {claim['native_id']}"].append(claim)
        known[_letters(claim["claim"])].append(claim)
    doubted, rows = set[str | None](), []
    for record in (record for file in lists for record in files.records(file)):
        for claim_id, state in _named(record, labels, known):
            again = state == "doubtful" and claim_id in doubted
            rows.append((record.file, record.row, claim_id, "repeated" if again else state))
            doubted |= {claim_id} if state == "doubtful" else set()
    return DOUBTFUL.conform(pl.DataFrame(rows, DOUBTFUL.schema, orient="row"))


def doubted_ids(rows: pl.DataFrame) -> frozenset[str]:
    """The claims whose label ``DOUBTFUL`` doubts."""
    return frozenset(rows.filter(state="doubtful")["claim_id"])


def without_effect(rows: pl.DataFrame) -> str:
    """How many rows of ``DOUBTFUL`` name no claim, or not one, by state, with the first of them."""
    lost = rows.filter(pl.col("claim_id").is_null())
    counts = lost["state"].value_counts(sort=True).rows()
    states = ", ".join(f"{state.replace('_', ' ')} {count:,}" for state, count in counts)
    first = "; ".join(f"{file}:{row}" for file, row in lost.select("file", "row").head(3).rows())
    return f"doubtful labels without effect: {states}, e.g. {first}" if states else ""


def _named(
    record: Record | Reject, labels: LabelMap, known: Mapping[str, list[dict[str, Any]]]
) -> list[tuple[str | None, str]]:
    """Each claim that a row names, with what the row says of it; or why it names none."""
    fields = {} if isinstance(record, Reject) else record.fields
    cells = {name: str(cell) for name, cell in fields.items() if cell not in (None, "")}
    native_id, text, evidence = (cells.get(a) or cells.get(b, "") for a, b in _NAMES)
    if not native_id and not text:
        return [(None, "unreadable")]
    claims = known.get(f"id {native_id}" if native_id else _letters(text), [])
    if not native_id and evidence and len(claims) > 1:
        claims = [claim for claim in claims if _letters(claim["evidence"]) == _letters(evidence)]
    if not claims or (len(claims) > 1 and not native_id):
        return [(None, "several_claims" if claims else "no_claim")]
    label = cells.get("label", "")
    side = labels.side(label) or _SIDES.get(label.casefold())
    sides = {claim["claim_id"]: claim["label"] for claim in claims}
    confirmed = {own for own, label in sides.items() if label == side and "kind" not in cells}
    return [(own, "confirmed" if own in confirmed else "doubtful") for own in sides]


def _letters(text: str | None) -> str:
    """The key of a text: without case, spaces and punctuation, also those of a JSON list."""
    return "".join(letter for letter in (text or "").casefold() if letter.isalnum())
