"""The bundled sample: an invented world in the native formats of every corpus.

Takes a seed, gives files and the ledger of what was planted. The same seed gives the same
bytes (with one version of polars and of SQLite, which write two of the formats).
"""

import random
from collections.abc import Mapping
from dataclasses import dataclass, replace

import polars as pl

from sample.ledger import ledger
from sample.plan import cases
from sample.planting import Case, Planter
from sample.raw_formats.files import write
from sample.world import World


@dataclass(frozen=True, slots=True)
class Sample:
    """``files``: path below the corpora root to content. ``ledger``: the answer sheet."""

    files: Mapping[str, bytes]
    ledger: pl.DataFrame


def generate(seed: int = 7) -> Sample:
    """The whole sample, in memory.

    ``ledger`` columns: see ``ledger.ledger``; it joins the claims on source and native id.
    """
    rng = random.Random(seed)  # noqa: S311 - an invented world needs no secrets
    made = cases(Planter(World(rng)))
    rng.shuffle(made)
    made = [_as_question(case) for case in made]
    out = write(made)
    return Sample(out.files, ledger(made, out.ids))


def _as_question(case: Case) -> Case:
    """PubMedQA asks with a title and a question mark; every other corpus states."""
    if not case.source.endswith("pubmedclaim"):
        return case
    return replace(case, claim=f"{case.claim.rstrip('.')}?")
