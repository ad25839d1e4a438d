"""Claims of a test set whose label is doubtful, as lists in the corpora folder name them.

A list is ``doubtful.jsonl`` or ``.csv``, in the folder named like the test set or in those of its
native files; several count together. A row names a claim by ``native_id`` (or ``id``), or by the
text of ``claim`` (or ``statement``); ``evidence`` (or ``reference_documents``) tells claims of one
text apart. A ``label`` that is the claim's own confirms it, unless the row has a ``kind``. The
published rows of ClearFacts and GrayFacts (Seo et al., 2025, "Verifying the Verifiers") are so.
"""

from collections import defaultdict
from typing import Any

import polars as pl

from decomposerl.claims.claim import Record, Reject
from decomposerl.claims.source import Benchmark, CorpusFiles, FileFormat, NativeFile
from decomposerl.schemas import DOUBTFUL

WITHOUT = "_without_doubtful"
"""Ending of the metric, and of the column of a test set, that leave such claims out."""
_SIDES = {"s": "Supported", "ns": "Refuted", "supported": "Supported", "refuted": "Refuted"}
_NAMES = (("native_id", "id"), ("claim", "statement"), ("evidence", "reference_documents"))


def list_folders(benchmark: Benchmark) -> tuple[str, ...]:
    """The folders that may hold a list of the test set: its name's, then its native files'."""
    native = (file.path.partition("/") for file in benchmark.native_files)
    return tuple(dict.fromkeys((benchmark.name, *(folder for folder, slash, _ in native if slash))))


def doubtful_claims(
    benchmark: Benchmark, claims: pl.DataFrame, files: CorpusFiles
) -> pl.DataFrame | None:
    """The lists of a test set as ``DOUBTFUL``, or None where there is none.

    ``claims`` are its ``BENCHMARK_CLAIMS``. Every row of a list is there at least once: a native
    row that gave several claims doubts all of them.
    """
    kinds: tuple[FileFormat, ...] = ("jsonl", "csv")
    names = [f"{folder}/doubtful." for folder in list_folders(benchmark)]
    lists = [NativeFile(f"{name}{kind}", kind, "") for name in names for kind in kinds]
    lists = [file for file in lists if files.exists(file.path)]
    known: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for claim in claims.iter_rows(named=True) if lists else ():
        known[f"id {claim['native_id']}"].append(claim)
        known[_letters(claim["claim"])].append(claim)
    doubted, rows = set[str | None](), []
    for record in (record for file in lists for record in files.records(file)):
        for claim_id, state in _named(record, benchmark, known):
            again = state == "doubtful" and claim_id in doubted
            rows.append((record.file, record.row, claim_id, "repeated" if again else state))
            doubted |= {claim_id} if state == "doubtful" else set()
    frame = pl.DataFrame(rows, DOUBTFUL.schema, orient="row")
    return DOUBTFUL.conform(frame) if lists else None


def _named(
    record: Record | Reject, benchmark: Benchmark, known: dict[str, list[dict[str, Any]]]
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
    side = None if "kind" in cells else benchmark.labels.side(label) or _SIDES.get(label.casefold())
    states = ("confirmed" if side and claim["label"] == side else "doubtful" for claim in claims)
    return [(claim["claim_id"], state) for claim, state in zip(claims, states, strict=True)]


def _letters(text: str | None) -> str:
    """The key of a text: without case, spaces and punctuation, also those of a JSON list."""
    return "".join(letter for letter in (text or "").casefold() if letter.isalnum())
