"""Traces to look at: a small set with every special case, and any number of invented ones.

``trace_pages.json`` has the special ones, and what is known of a trace where nothing is said.
"""

import base64
import gzip
import json
import re
from collections.abc import Sequence
from copy import deepcopy
from pathlib import Path
from typing import Any

from decomposerl.reports.trace_page.page import offline_parts
from project import SUPPORT

TABLES = json.loads((SUPPORT / "trace_pages.json").read_text("utf-8"))
FLAGS = tuple(TABLES["flags"])
HOSTILE, EVIDENCE = tuple(TABLES["hostile"]), TABLES["evidence"]
Index = dict[str, Any]
Block = dict[str, Any]


def offline_page(index: dict[str, Any], blocks: list[dict[str, Any]]) -> str:
    """The whole file of a page."""
    return "".join(offline_parts(index, blocks))


def cycle(
    question: str, answer: str, status: str = "quotes_evidence", **more: object
) -> dict[str, Any]:
    """A cycle of a trace, with nothing known beyond its status unless given."""
    empty = deepcopy(TABLES["cycle"])
    return {"question": question, "answer": answer, "status": status} | empty | more


def detail(cycles: Sequence[dict[str, Any]] = (), **more: object) -> dict[str, Any]:
    """A trace's detail, with nothing known beyond its cycles unless given."""
    return deepcopy(TABLES["detail"]) | {"cycles": list(cycles)} | more


def trace(claim_id: str, claim: str, made: dict[str, Any], **more: object) -> dict[str, Any]:
    """A trace: what the index says of it, and its ``detail``."""
    known = {"claim_id": claim_id, "claim": claim} | deepcopy(TABLES["trace"])
    abstained = sum(one["status"] == "abstained" for one in made["cycles"])
    counted = {"questions": len(made["cycles"]), "abstentions": abstained}
    return known | counted | more | {"detail": made}


def pages(
    blocks: Sequence[Sequence[dict[str, Any]]],
    evidence: Sequence[str] = (EVIDENCE,),
    **more: object,
) -> tuple[Index, list[Block]]:
    """Index and blocks of the traces in ``blocks``; every block has the same evidence."""
    sentences = {EVIDENCE: TABLES["sentences"]}
    texts = [{"text": text, "sentences": sentences.get(text, [])} for text in evidence]
    every = [one for block in blocks for one in block]
    columns = [name for name in (every[0] if every else {}) if name not in {"detail", "flags"}]
    index: Index = deepcopy(TABLES["index"]) | {
        "blocks": len(blocks),
        "block_of": [number for number, block in enumerate(blocks) for _ in block],
        "place_of": [place for block in blocks for place in range(len(block))],
        "flag_names": list(FLAGS),
        "flags": [sum(1 << FLAGS.index(name) for name in one["flags"]) for one in every],
    }
    index |= {name: [one[name] for one in every] for name in columns}
    return {**index, **more}, [
        {"evidence": texts, "items": [one["detail"] for one in block]} for block in blocks
    ]


def special_traces() -> tuple[Index, list[Block]]:
    """Every special case, in three blocks: all that is known, broken, hostile."""
    blocks = [
        [trace(**row | {"made": _made(**row.pop("detail"))}) for row in block]
        for block in deepcopy(TABLES["special"])
    ]
    return pages(blocks, evidence=(EVIDENCE, "\n".join(HOSTILE)))


def _made(cycles: Sequence[dict[str, Any]] = (), **more: Any) -> dict[str, Any]:  # noqa: ANN401
    return detail([cycle(**one) for one in cycles], **more)


def packed(page: Path) -> list[dict[str, Any]]:
    """The blocks of data in an offline page, unpacked."""
    found = re.findall(r'<script type="application/json" [^>]*>([^<]*)</script>', page.read_text())
    return [json.loads(gzip.decompress(base64.b64decode(text))) for text in found]
