"""Small corpora on disk: a declared toy corpus (TOML and JSONL), and the generated sample."""

import json
import random
from pathlib import Path

from sample import Sample

SOURCE = """
[source]
name = "toy"
title = "Toy claims"
domain = "Wiki"
license = "CC0"
terms = "made here"
homepage = "https://example.org"

[files]
train = ["toy/claims.jsonl"]

[columns]
id = "id"
claim = "claim"
evidence = "evidence"
label = "label"

[evidence]
kind = "text"
split = "none"

[labels]
supported = ["yes"]
refuted = ["no"]
"""
NAMES = "Arlo Brin Cato Dena Emre Fina Goran Hild Ivo Jara Kian Lotte Mira Nils Orla Pavo".split()
PLACES = "Varnholt Quessa Iskeby Torvane Melqart Dunmarr Oskolin Peverell Rustak Selmoor".split()
WORKS = (
    "harbour archive orchestra observatory tannery railway glassworks clinic quarry school".split()
)


def corpus(folder: Path, claims: int) -> Path:
    """A corpora folder with one user-declared source of ``claims`` rows."""
    draw = random.Random(5)
    (folder / "toy").mkdir(parents=True)
    (folder / "toy" / "source.toml").write_text(SOURCE, "utf-8")
    rows = [json.dumps(row(draw, number)) for number in range(claims)]
    (folder / "toy" / "claims.jsonl").write_text("\n".join(rows), "utf-8")
    return folder


def row(draw: random.Random, number: int) -> dict[str, str]:
    """One claim with a page of evidence around it."""
    who, where, what = draw.choice(NAMES), draw.choice(PLACES), draw.choice(WORKS)
    sentences = [
        f"{draw.choice(NAMES)} {draw.choice(NAMES)}sen led the {draw.choice(WORKS)} of "
        f"{draw.choice(PLACES)} between {draw.randint(1700, 1850)} and {draw.randint(1851, 1990)}."
        for _ in range(24)
    ]
    return {
        "id": str(number),
        "claim": f"{who} of {where} opened the {what} number {number} after {draw.choice(PLACES)} "
        f"closed its {draw.choice(WORKS)} in {draw.randint(1700, 1990)}.",
        "evidence": " ".join(sentences),
        "label": draw.choice(["yes", "no"]),
    }


def write_sample(sample: Sample, folder: Path) -> Path:
    """The files of a generated sample below ``folder``, which is returned.

    In ``<data folder>/sample/<fingerprint>`` they are found as those that a first run generates.
    """
    for name, content in sample.files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(content)
    return folder
