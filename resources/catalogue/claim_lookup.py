"""Finds one claim in the data folder: by its id, by its text, or by the row that it was read from.

Also which claims each stage kept, and with which settings.

Reads the Parquet files, so the result is current even if the DuckDB catalogue is older.
"""

import json
import re
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import polars as pl

from decomposerl.claims.claim import Draft, Reject
from decomposerl.claims.load import LoadSettings, check_draft
from decomposerl.claims.source import Benchmark, CorpusFiles, NativeFile, Source, in_form
from decomposerl.errors import DecomposeRLError, SchemaError
from decomposerl.reports.attrition import STAGES, FunnelState
from decomposerl.reports.explain import ClaimRows, MatchedClaim, Where
from decomposerl.reports.tables import one_line
from resources.store.integrity import read_record, scan_parquet

SHORTEST_PREFIX = 6
_LISTED = 8
_ID = re.compile(r"[0-9a-f]+")


def find_claim(data: Path, asked: str) -> ClaimRows:
    """All rows of the one claim whose id begins with ``asked``, or whose text it is.

    Raises:
        DecomposeRLError: no claim or several claims are meant.
    """
    claim_id, where = _resolve(data, asked.strip())
    drop = _drop(data, claim_id, where)
    return ClaimRows(
        claim_id=claim_id,
        where=where,
        rows=_stage_rows(data, claim_id),
        ran=frozenset(s for s in STAGES if (data / f"{s}.parquet").is_file()),
        drop=drop,
        matched=None if drop is None else _matched(data, drop),
        displaced=_displaced(data, claim_id),
    )


def ids_of_row(
    file: str, row: int, corpora: Sequence[Source | Benchmark], files: CorpusFiles
) -> Iterator[str]:
    """The ids of the claims that corpora make of one row of a native file.

    Raises:
        DecomposeRLError: no corpus reads the file, or the row gives no claim; the reason is said.
    """
    there = files.exists
    read = [(corpus, in_form(there, native)) for corpus in corpora for native in _files(corpus)]
    if file not in {native.path for _, native in read}:
        raise DecomposeRLError(
            f"no corpus reads '{file}'; give its path below the corpora folder, as "
            "`decomposerl sources --json` names it"
        )
    reason, limit = f"the file has no row {row}", LoadSettings().max_evidence_bytes
    drafts = (
        (corpus, draft)
        for corpus, native in read
        if native.path == file
        for draft in corpus.read(files, native)
        if draft.row == row
    )
    for corpus, draft in drafts:
        sound: Draft | Reject = (
            check_draft(draft, corpus.labels, label_needed=False, max_evidence_bytes=limit)
            if isinstance(draft, Draft)
            else draft
        )
        if isinstance(sound, Draft):
            yield sound.claim_id(corpus.name)
            reason = ""
        else:
            reason = reason and f"{sound.reason.replace('_', ' ')} in {sound.field}: {sound.detail}"
    if reason:
        raise DecomposeRLError(f"{file}:{row} gave no claim: {reason}")


def _files(corpus: Source | Benchmark) -> Sequence[NativeFile]:
    return (*corpus.files, *corpus.extra) if isinstance(corpus, Source) else corpus.files


def _resolve(data: Path, asked: str) -> tuple[str, Where]:
    if len(asked) < SHORTEST_PREFIX:
        raise DecomposeRLError(
            f"'{one_line(asked, 40)}' is no claim: give at least {SHORTEST_PREFIX} of the 16 hex "
            "digits of its id, its text, or FILE:ROW"
        )
    begins = pl.col("claim_id").str.starts_with(asked.lower())
    if not _ID.fullmatch(asked.lower()):
        plain = pl.col("claim").str.to_lowercase().str.replace_all(r"\s+", " ")
        begins = plain.str.strip_chars() == " ".join(asked.lower().split())
    patterns: list[tuple[Where, str]] = [
        ("source", "claims/*.parquet"),
        ("benchmark", "benchmark/*.parquet"),
        ("source", "drops/claims/*.parquet"),
        ("benchmark", "drops/benchmark/*.parquet"),
    ]
    hits: dict[str, tuple[Where, dict[str, Any]]] = {}
    for where, pattern in patterns if _ID.fullmatch(asked.lower()) else patterns[:2]:
        for row in _rows(data.glob(pattern), begins):
            hits.setdefault(row["claim_id"], (where, row))
    if not hits:
        raise DecomposeRLError(_unknown(data, asked))
    if len(hits) > 1:
        raise DecomposeRLError(_ambiguous(asked, [row for _, row in hits.values()]))
    claim_id, (where, _) = next(iter(hits.items()))
    return claim_id, where


def _unknown(data: Path, prefix: str) -> str:
    if not any(data.glob("claims/*.parquet")):
        return f"there are no claims in {data}. Make them with: decomposerl run catalog --upstream"
    return (
        f"no claim in {data} has the text, or an id that begins with, '{one_line(prefix, 80)}'; a "
        "row that was dropped while reading is found as FILE:ROW"
    )


def _ambiguous(prefix: str, rows: list[dict[str, Any]]) -> str:
    shown = [
        f"  {row['claim_id']}  {row['source']}  {one_line(row.get('claim') or '', 70)}"
        for row in rows[:_LISTED]
    ]
    more = [f"  and {len(rows) - _LISTED} more"] if len(rows) > _LISTED else []
    head = f"'{one_line(prefix, 80)}' means {len(rows)} claims; give the id of one of them:"
    return "\n".join([head, *shown, *more])


def _stage_rows(data: Path, claim_id: str) -> dict[str, dict[str, Any]]:
    patterns = {"benchmark": "benchmark/*.parquet", "claims": "claims/*.parquet"}
    patterns |= {stage: f"{stage}.parquet" for stage in STAGES[1:]}
    rows = {
        stage: _first(_rows(data.glob(pattern), pl.col("claim_id") == claim_id))
        for stage, pattern in patterns.items()
    }
    return {stage: row for stage, row in rows.items() if row is not None}


def _drop(data: Path, claim_id: str, where: Where) -> dict[str, Any] | None:
    """The row of ``DROPS`` at which the claim's way ended.

    A benchmark with the name of its source drops the claims that train under the same ids, so its
    drops count only for a claim that no source has. Where stages disagree because one is older,
    the first in the funnel counts.
    """
    same = pl.col("claim_id") == claim_id
    rows = _rows([*data.glob("drops/claims/*.parquet"), *data.glob("drops/*.parquet")], same)
    rows.sort(key=lambda row: STAGES.index(row["stage"]) if row["stage"] in STAGES else 0)
    if rows or where == "source":
        return _first(rows)
    return _first(_rows(data.glob("drops/benchmark/*.parquet"), same))


def _matched(data: Path, drop: dict[str, Any]) -> MatchedClaim | None:
    claim_id = drop["matched_claim_id"]
    if claim_id is None:
        return None
    same = pl.col("claim_id") == claim_id
    folders: list[tuple[Where, str]] = [("source", "claims"), ("benchmark", "benchmark")]
    for where, folder in folders:
        row = _first(_rows(data.glob(f"{folder}/*.parquet"), same))
        if row is not None:
            return MatchedClaim(claim_id, row["source"], where, row["claim"])
    return MatchedClaim(claim_id, drop["matched_source"] or "a claim unknown here", "unknown", None)


def _displaced(data: Path, claim_id: str) -> tuple[MatchedClaim, ...]:
    matching = pl.col("matched_claim_id") == claim_id
    dropped = {row["claim_id"]: row for row in _rows(data.glob("drops/*.parquet"), matching)}
    stored = _rows(data.glob("claims/*.parquet"), pl.col("claim_id").is_in(list(dropped)))
    texts = {row["claim_id"]: row["claim"] for row in stored}
    return tuple(
        MatchedClaim(i, row["source"], "source", texts.get(i)) for i, row in dropped.items()
    )


def _rows(paths: Iterable[Path], condition: pl.Expr) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = []
    for path in sorted(paths):
        rows += scan_parquet(path).filter(condition).collect().to_dicts()
    return rows


def _first(rows: list[dict[str, Any]]) -> dict[str, Any] | None:
    return rows[0] if rows else None


def funnel_state(data: Path) -> FunnelState:
    """The stages of ``data`` that have run.

    Raises:
        DecomposeRLError: the folder has none.
        SchemaError: a run record is damaged.
    """
    kept, settings = {}, {}
    for stage in STAGES:
        files = sorted(
            data.glob(f"{stage}/*.parquet" if stage == STAGES[0] else f"{stage}.parquet")
        )
        if files:
            kept[stage] = scan_parquet(*files).select("claim_id", "source").collect()
        record = data / "stage_runs" / f"{stage}.json"
        if record.is_file():
            try:
                settings[stage] = json.loads(read_record(record)["config"])
            except (ValueError, KeyError) as error:
                raise SchemaError(f"{record} is not a run record: {error}") from error
    if not kept:
        raise DecomposeRLError(
            f"no stage has run in {data}; give `paper`, `published` or a data folder, which "
            "`decomposerl run catalog --upstream` makes"
        )
    return FunnelState(kept, settings)
