"""Runs of a study that were never trained: verdicts and rewards by chance, as ``OUTCOMES``."""

from typing import Any
from zlib import crc32

import numpy as np
import polars as pl

from decomposerl.training.studies import STUDIES, Study, Variant
from decomposerl.training.study_table import GREEDY, OUTCOMES, SAMPLED, SCORED

CLAIMS, SEEDS = 60, (42, 1, 2, 3, 4)


def study_named(name: str) -> Study:
    """The study of the catalogue with this name."""
    return next(one for one in STUDIES if one.name == name)


def outcomes(study: Study, worse: dict[str, float], seeds: tuple[int, ...] = SEEDS) -> pl.DataFrame:
    """Runs of a study: of a variant in ``worse`` this share of the right verdicts is lost.

    Every reward of a trace is 0.5 and a little noise; a variant's own is lower by its share.
    """
    rows: list[dict[str, Any]] = []
    for variant in study.variants:
        share = worse.get(variant.title, 0.0)
        for seed in seeds:
            luck = np.random.default_rng([seed, crc32(variant.title.encode())])
            for end in ("before", "after"):
                lost = share if end == "after" else 0.0
                for split in (GREEDY, SAMPLED):
                    rows += [row(variant, seed, end, split, n, lost, luck) for n in range(CLAIMS)]
    return pl.DataFrame(rows, schema=OUTCOMES)


def row(
    variant: Variant,
    seed: int,
    end: str,
    split: str,
    claim: int,
    lost: float,
    luck: Any,  # noqa: ANN401
) -> dict[str, Any]:
    labels = ("Supported", "Refuted")
    right = luck.random() < 0.9 * (1 - lost)
    scores = {name: 0.5 + 0.01 * luck.standard_normal() for name in SCORED}
    if variant.moves in scores:
        scores[variant.moves] -= lost
    return {
        "variant": variant.title,
        "end": end,
        "split": split,
        "claim_id": f"c{claim:03}",
        "document": f"d{claim // 2}",
        "label": labels[claim % 2],
        "verdict": labels[claim % 2] if right else (None if claim % 3 else labels[1 - claim % 2]),
        "seed": seed,
        "steps": 30,
        **(scores if split == SAMPLED else {}),
    }
