"""The ledger's row of pages: the data that commands print and write of one small data folder.

Texts are kept as digests of their lines and as JSON; of a page for a browser its data alone.
"""

import base64
import gzip
import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import polars as pl
from typer.testing import CliRunner

from dagster_project.cli import app
from fixture_data import BENCHMARK, LONG, SELECTED, World, build
from ledger import digest, table
from ledger_commands import plain_environment
from ledger_traces import EVIDENCE
from resources.catalogue.database import build_catalogue

_DATA = re.compile(r'<script type="application/json" [^>]*>([^<]*)</script>')
_OF_RUN = {"made", "engine_calls", "version", "seconds", "rate"}
PRINTED: Mapping[str, str] = {
    "attrition": "attrition --data world",
    "attrition, json": "attrition --data world --format json",
    "attrition, csv": "attrition --data world --format csv",
    "attrition, markdown": "attrition --data world --format markdown",
    "drops by reason": "attrition --data world --by-reason --format json",
    "beside the paper": "attrition --data world --against paper --format json",
    "beside the paper, text": "attrition --data world --against paper",
    "another threshold": "attrition --data world --semantic-threshold 0.65 --format json",
    "leaderboard": "leaderboard --data world",
    "leaderboard, json": "leaderboard --data world --all --format json",
    "leaderboard, markdown": "leaderboard --data world --format markdown --all",
    "sources": "sources --json",
    "downloads": "fetch --list --json",
    "own systems": "evaluate --list --data world",
    "metrics, text": "metrics said.jsonl gold.jsonl --verdict said --draws 100",
    "marks": "metrics --marks marks.jsonl --json",
    "marks, text": "metrics --marks marks.jsonl",
    "preview": "init corpus mine --corpora corpora --from mine.jsonl --preview 3",
    "corpus": "init corpus mine --corpora corpora --from mine.jsonl",
    "accepted": "accept --data world --note why",
    "beside accepted": "leaderboard --data world",
}
SYSTEMS = (
    "self_ask-rules-faithful",
    "folk-rules-faithful",
    "qacheck-rules-faithful",
    "hiss-rules-single_call",
    "minicheck-lexical",
)


def page_entries(folder: Path) -> Mapping[str, Any]:
    """What the commands that look at results print and write."""
    world = build(folder / "world")
    build_catalogue(world.data)
    _write(folder)
    entries: dict[str, Any] = {name: _printed(line, folder) for name, line in PRINTED.items()}
    entries |= {f"explain {name}": _printed(line, folder) for name, line in _lives(world).items()}
    for name in ("comparison", "leaderboard", f"scores/{BENCHMARK}/decomposerl-tiny"):
        entries[f"table {name}"] = table(pl.read_parquet(world.data / f"{name}.parquet"))
    entries["source.toml"] = (folder / "corpora/mine/source.toml").read_text("utf-8").splitlines()
    entries |= {f"verify {name}": _verified(name, folder) for name in SYSTEMS}
    _command("view --data world --html world.html")
    entries["page of traces"] = _page_data((folder / "world.html").read_text("utf-8"))
    entries["page of verified claims"] = _page_data((folder / "page.html").read_text("utf-8"))
    return entries


def _lives(world: World) -> dict[str, str]:
    """The commands that tell the life of a claim, by how it ended."""
    ids = {
        "selected": world.with_fate(SELECTED),
        "long": world.with_fate(LONG),
        "leak": world.dropped("semantic_match"),
        "duplicate": world.dropped("lexical_duplicate"),
        "easy": world.dropped("too_easy"),
    }
    plain = {name: f"explain {one} --data world" for name, one in ids.items()}
    return plain | {f"{name}, json": f"{line} --json" for name, line in plain.items()}


def _command(line: str) -> Any:  # noqa: ANN401 - a result of typer's
    with plain_environment(DECOMPOSERL_DATA="data", DAGSTER_HOME="history", COLUMNS="120"):
        done = CliRunner().invoke(app, line.split())
    if done.exit_code not in {0, 1, 3, 4}:
        raise AssertionError(f"{line}: {done.stderr}")
    return done


def _printed(line: str, folder: Path) -> Any:  # noqa: ANN401 - JSON
    """The rows of JSON by digest; of a text its first lines and a digest of all."""
    text = _command(line).stdout.replace(str(folder.resolve()), "FOLDER")
    if "json" in line.rsplit(maxsplit=1)[-1] and text[:1] in "[{":
        return _outlined(json.loads(text))
    lines = [one.rstrip() for one in text.splitlines()]
    return {"first": lines[:4], "lines": len(lines), "text": digest(lines)}


def _outlined(value: Any) -> Any:  # noqa: ANN401 - JSON
    """Of rows their names, number and digest; of an object that of each value."""
    if isinstance(value, list):
        names = list(value[0]) if value and isinstance(value[0], dict) else []
        return {"names": names, "rows": len(value), "digest": digest(_rounded(value))}
    return {name: digest(_rounded(one)) for name, one in value.items() if name not in _OF_RUN}


def _rounded(value: Any) -> Any:  # noqa: ANN401 - JSON
    """Numbers to nine places, without what a run takes."""
    if isinstance(value, dict):
        return {key: _rounded(one) for key, one in value.items() if key not in _OF_RUN}
    if isinstance(value, list):
        return [_rounded(one) for one in value]
    return round(value, 9) if isinstance(value, float) else value


def _verified(system: str, folder: Path) -> list[Any]:
    """What a system of rules says of three claims, and of its page."""
    line = f"verify claims.jsonl --system {system} --json --html page.html"
    results = [json.loads(one) for one in _command(line).stdout.splitlines()]
    return [
        {
            "verdict": one.get("verdict"),
            "questions": len(one.get("questions", ())),
            "all": digest(_rounded(one)).replace(str(folder), ""),
        }
        for one in results
    ]


def _page_data(page: str) -> dict[str, Any]:
    """The index and the blocks that stand compressed in a page: each field by digest."""
    index, *blocks = [json.loads(gzip.decompress(base64.b64decode(one))) for one in
                      _DATA.findall(page)]  # fmt: skip
    return {
        "index": _outlined(index),
        "blocks": [{name: len(one) for name, one in block.items()} for block in blocks],
        "items": digest(_rounded(blocks)),
        "fields": sorted({key for block in blocks for item in block["items"] for key in item}),
    }


def _write(folder: Path) -> None:
    """Claims to verify, results to measure, marks, and rows of a new corpus."""
    claims = [
        "Ada Holm built the mill of Torbeck in 1840.",
        "The mill of Odense is 21 m high.",
        "Ada Holm was born in Vienna.",
    ]
    rows = {
        "claims": [{"claim": one, "evidence": EVIDENCE, "claim_id": f"c{n}"}
                   for n, one in enumerate(claims)],
        "said": [{"id": n, "said": ("Supported", "Refuted", None)[n % 3]} for n in range(30)],
        "gold": [{"id": n, "label": ("Supported", "Refuted")[n // 2 % 2]} for n in range(30)],
        "mine": [{"sentence": one, "text": EVIDENCE, "verdict": ("yes", "no")[n % 2]}
                 for n, one in enumerate(claims * 3)],
        "marks": [_mark(n) for n in range(12)],
    }  # fmt: skip
    (folder / "corpora").mkdir()
    for name, values in rows.items():
        text = "".join(json.dumps(one) + "\n" for one in values)
        (folder / f"{name}.jsonl").write_text(text, "utf-8")


def _mark(number: int) -> dict[str, Any]:
    return {
        "claim_id": f"c{number // 2 % 4}",
        "system": ("one", "two")[number % 2],
        "step": None,
        "rollout": None,
        "reviewer": ("ada", "bram")[number // 6],
        "mark": ("agree", "disagree", "unclear")[number % 3],
        "note": "",
        "span": None,
        "at": f"2026-01-02T03:04:{number:02}.000+00:00",
    }
