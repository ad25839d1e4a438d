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

from fixture_data import BENCHMARK, LONG, SELECTED, World, build
from ledger import digest, table
from ledger_inputs import INPUTS, call
from metrics_parts import write
from resources.catalogue.database import build_catalogue

_DATA = re.compile(r'<script type="application/json" [^>]*>([^<]*)</script>')
_OF_RUN = {"made", "engine_calls", "version", "seconds", "rate"}


def page_entries(folder: Path) -> Mapping[str, Any]:
    """What the commands that look at results print and write."""
    world = build(folder / "world")
    build_catalogue(world.data)
    _write(folder)
    lines = INPUTS["pages"]["printed"] | _lives(world)
    entries: dict[str, Any] = {name: _printed(line, folder) for name, line in lines.items()}
    for name in ("comparison", "leaderboard", f"scores/{BENCHMARK}/decomposerl-tiny"):
        entries[f"table {name}"] = table(pl.read_parquet(world.data / f"{name}.parquet"))
    entries["source.toml"] = (folder / "corpora/mine/source.toml").read_text("utf-8").splitlines()
    entries |= {f"verify {name}": _verified(name) for name in INPUTS["pages"]["systems"]}
    _command("view --data world --html world.html")
    entries["page of traces"] = _page_data(folder / "world.html")
    entries["page of verified claims"] = _page_data(folder / "page.html")
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
    plain = {f"explain {name}": f"explain {one} --data world" for name, one in ids.items()}
    return plain | {f"{name}, json": f"{line} --json" for name, line in plain.items()}


def _command(line: str) -> str:
    """What a command prints; the codes beside 0 say that there is something to look at."""
    return call(f"COLUMNS=120 {line}", codes={0, 1, 3, 4}).stdout


def _printed(line: str, folder: Path) -> Any:  # noqa: ANN401 - JSON
    """The rows of JSON by digest; of a text its first lines and a digest of all."""
    text = _command(line).replace(str(folder.resolve()), "FOLDER")
    if line.endswith("json"):
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


def _verified(system: str) -> list[Any]:
    """What a system of rules says of three claims; the last one's page stays."""
    printed = _command(f"verify claims.jsonl --system {system} --json --html page.html")
    return [
        {
            "verdict": result.get("verdict"),
            "questions": len(result.get("questions", ())),
            "all": digest(_rounded(result)),
        }
        for result in map(json.loads, printed.splitlines())
    ]


def _page_data(page: Path) -> dict[str, Any]:
    """The index and the blocks that stand compressed in a page: each field by digest."""
    packed = _DATA.findall(page.read_text("utf-8"))
    index, *blocks = [json.loads(gzip.decompress(base64.b64decode(one))) for one in packed]
    return {
        "index": _outlined(index),
        "blocks": [{name: len(one) for name, one in block.items()} for block in blocks],
        "items": digest(_rounded(blocks)),
        "fields": sorted({key for block in blocks for item in block["items"] for key in item}),
    }


def _write(folder: Path) -> None:
    """Claims to verify, results to measure, and rows of a new corpus."""
    claims, evidence = INPUTS["pages"]["claims"], INPUTS["traces"]["evidence"]
    rows: dict[str, list[dict[str, Any]]] = {
        "claims": [{"claim": one, "evidence": evidence, "claim_id": f"c{n}"}
                   for n, one in enumerate(claims)],
        "said": [{"id": n, "said": ("Supported", "Refuted", None)[n % 3]} for n in range(30)],
        "gold": [{"id": n, "label": ("Supported", "Refuted")[n // 2 % 2]} for n in range(30)],
        "mine": [{"sentence": one, "text": evidence, "verdict": ("yes", "no")[n % 2]}
                 for n, one in enumerate(claims * 3)],
    }  # fmt: skip
    (folder / "corpora").mkdir()
    for name, values in rows.items():
        write(folder / f"{name}.jsonl", values)
