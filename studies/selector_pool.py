"""The selector study on a made-up pool of the paper's size, and its tables and pictures in docs.

    python -m studies.selector_pool --report docs/results/studies.md
    python -m studies.selector_pool --report docs/results/studies.md --data data

The first makes 17,328 vectors of 3,072 numbers (213 MB) in 14 sources and both labels, runs every
selector and writes the section ``made-up selectors``; minutes, and 2 GB of memory. With ``--data``
the section ``selectors`` is written from what ``decomposerl run study/selectors`` left there.
"""

import argparse
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import polars as pl

from decomposerl.claims.catalogue import PAPER_COUNTS
from decomposerl.funnel.selector_comparison import SelectorComparison, compare_selectors
from decomposerl.funnel.settings import SelectorStudySettings
from decomposerl.kernels.selectors import METHODS, Rows, Vectors
from decomposerl.reports.figure_style import drawn
from decomposerl.reports.selector_report import (
    selectors_figure,
    selectors_markdown,
    selectors_sentence,
)
from decomposerl.schemas import LABELS
from perf.inputs import scaled_to_one, unit_noise
from perf.pages import write_between_markers
from resources.report.studies import CLOCKS, STUDIES

SEED, DIMENSIONS, SEEDS = 7, 3_072, 3
LARGEST = ("llm_aggrefact", 3_482)
"""The source whose Supported claims are the paper's largest cell."""
SUPPORTED = 0.715
"""Their share in the other sources, which the paper does not print: with it the largest cell's
budget is the printed 430."""
ALONE = 0.03
"""Share of the rows that belong to no cluster."""
CLAIMS_A_CLUSTER = 12
_COMMON, _SOURCE, _CLUSTER = 0.35, 0.35, 0.6
_SPREAD = (0.5, 1.1)
_BLOCK = 2_048
REAL, MADE_UP = "selectors", "made-up selectors"


def claims_of(scale: float = 1.0) -> pl.DataFrame:
    """``label`` and ``source`` of the paper's pool by its counts per source, times ``scale``."""
    rows = []
    for source, counts in PAPER_COUNTS.items():
        claims = counts.deduplicated
        supported = LARGEST[1] if source == LARGEST[0] else round(SUPPORTED * claims)
        for label, size in zip(LABELS, (supported, claims - supported), strict=True):
            rows += [(label, source)] * max(round(scale * size), 1)
    return pl.DataFrame(rows, schema=["label", "source"], orient="row")


def pool_vectors(sources: Sequence[str], dimensions: int, seed: int = SEED) -> Vectors:
    """Unit rows: a common direction, the source's, the cluster's, and noise; some rows are alone.

    Clusters lie within a source and their sizes are uneven (a power law); noise differs by
    cluster.
    """
    rng = np.random.default_rng(seed)
    places = {source: place for place, source in enumerate(dict.fromkeys(sources))}
    source_of = np.array([places[source] for source in sources], np.int64)
    cluster_of, clusters = _clusters(rng, source_of)
    shared = np.float32(_COMMON) * unit_noise(rng, 1, dimensions)
    directions = np.float32(_SOURCE) * unit_noise(rng, len(places), dimensions)
    centres = np.float32(_CLUSTER) * unit_noise(rng, clusters, dimensions)
    noise = rng.uniform(*_SPREAD, clusters).astype(np.float32)[cluster_of]
    vectors = unit_noise(rng, len(sources), dimensions)
    alone = rng.random(len(sources)) < ALONE
    for start in range(0, len(sources), _BLOCK):
        rows = np.arange(start, min(start + _BLOCK, len(sources)))
        near = rows[~alone[rows]]
        vectors[near] *= noise[near][:, None]
        vectors[near] += centres[cluster_of[near]]
        vectors[rows] += directions[source_of[rows]] + shared
    return scaled_to_one(vectors)


def _clusters(rng: np.random.Generator, source_of: Rows) -> tuple[Rows, int]:
    """The cluster of each row, and how many there are."""
    cluster_of, first = np.zeros(len(source_of), np.int64), 0
    for source in range(int(source_of.max(initial=-1)) + 1):
        rows = np.flatnonzero(source_of == source)
        count = max(len(rows) // CLAIMS_A_CLUSTER, 1)
        weights = 1 / np.arange(1, count + 1)
        cluster_of[rows] = first + rng.choice(count, len(rows), p=weights / weights.sum())
        first += count
    return cluster_of, first


def compared_pool(
    scale: float, dimensions: int, selectors: Sequence[str], seeds: int
) -> SelectorComparison:
    """Every named selector on the made-up pool."""
    claims = claims_of(scale)
    vectors = pool_vectors(claims["source"].to_list(), dimensions)
    settings = SelectorStudySettings(selectors=list(selectors), seeds=seeds)
    engine = f"made-up vectors, {dimensions:,} numbers, seed {SEED}"
    return compare_selectors(vectors, claims, settings, engine, CLOCKS)


def section(table: pl.DataFrame, picture: str) -> str:
    """Picture, sentence and table as Markdown."""
    alt = "Where the picks lie on the pool's principal plane, and distances to the nearest pick"
    return f"![{alt}]({picture})\n\n{selectors_sentence(table)}\n\n{selectors_markdown(table)}"


def main(words: Sequence[str] | None = None) -> None:
    """Print the section, and write it where ``--report`` says."""
    given = options(words)
    name = REAL if given.data else MADE_UP
    picture = f"{name.replace(' ', '_').replace('-', '_')}.png"
    if given.data:
        table = pl.read_parquet(given.data / "study/selectors.parquet")
        png = (given.data / STUDIES / "selectors.png").read_bytes()
    else:
        compared = compared_pool(given.scale, given.dimensions, given.selectors, given.seeds)
        table, png = compared.table, drawn(selectors_figure(compared)).png
    text = section(table, picture)
    print(text)
    if given.report:
        (given.report.parent / picture).write_bytes(png)
        write_between_markers(given.report, name, text)


def options(words: Sequence[str] | None = None) -> argparse.Namespace:
    """The options of the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--report", type=Path, help="page with the markers of the section")
    parser.add_argument("--data", type=Path, help="data folder of the study to show instead")
    parser.add_argument("--scale", type=float, default=1.0, help="of the number of claims")
    parser.add_argument("--dimensions", type=int, default=DIMENSIONS)
    parser.add_argument("--seeds", type=int, default=SEEDS, help="of k-means and random")
    parser.add_argument("--selectors", nargs="+", choices=METHODS, default=list(METHODS))
    return parser.parse_args(words)


if __name__ == "__main__":
    main()
