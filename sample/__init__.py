"""The bundled sample: an invented world in the native formats of every corpus.

Takes a seed, gives files and an answer key of what was planted. The same seed gives the same bytes
with the same versions of polars and SQLite, which write two of the formats. No planting rule uses
the funnel, the kernels or an engine.
"""

import random
from collections.abc import Mapping
from dataclasses import dataclass, replace

import polars as pl

from sample.answer_key import answer_key
from sample.plan import cases
from sample.planting import Planter, SampleClaim
from sample.raw_formats.files import write
from sample.world import World


@dataclass(frozen=True, slots=True)
class Sample:
    """``files``: path below the corpora root to content. ``answer_key``: what was planted."""

    files: Mapping[str, bytes]
    answer_key: pl.DataFrame


def generate(seed: int = 7) -> Sample:
    """The whole sample, in memory.

    ``answer_key`` joins the claims on source and native id; its columns: see that module.
    """
    rng = random.Random(seed)  # noqa: S311 - an invented world needs no secrets
    claims = cases(Planter(World(rng)))
    rng.shuffle(claims)
    claims = [_as_question(claim) for claim in claims]
    written = write(claims)
    return Sample(written.files, answer_key(claims, written.ids))


def paths() -> frozenset[str]:
    """The paths of ``Sample.files``, without the work of making their content."""
    return frozenset(write([]).files)


def _as_question(case: SampleClaim) -> SampleClaim:
    """The claim as a question in PubMedQA, whose claims are titles; unchanged elsewhere."""
    if not case.source.endswith("pubmedclaim"):
        return case
    return replace(case, claim=f"{case.claim.rstrip('.')}?")
