"""Tables of the studies: one each, with the paper's rows beside those made here."""

import polars as pl

from decomposerl.table import Column, Table

_S, _I, _F = pl.String(), pl.Int64(), pl.Float64()

SELECTOR_STUDY = Table(
    "selector_study",
    (
        Column("origin", _S, "here, or paper: a row as printed there"),
        Column("selector", _S, "how the claims of a cell were chosen"),
        Column("seed", _I, "of a selector that draws; null for the others", nullable=True),
        Column("engine", _S, "what made the vectors"),
        Column("pool", _I, "claims to select from"),
        Column("selected", _I, "claims selected"),
        Column("bins", _F, "percent of the pool's occupied PCA bins, 50 × 50, with a pick"),
        Column("distance_median", _F, "median cosine distance to the nearest pick, of the sample"),
        Column("distance_95", _F, "its 95th percentile"),
        Column("isolated", _F, "percent of the picks among the 5 % most isolated claims"),
        Column("source_entropy", _F, "entropy of the picks' corpora, bits"),
        Column("mean_cover", _F, "f(S) of all cells / pool, 0..1", nullable=True),
        Column(
            "shared", _F, "percent of the picks that facility_location picks too", nullable=True
        ),
        Column("seconds", _F, "wall time over all cells, vectors given", nullable=True),
        Column("core_seconds", _F, "the same, processor time of all threads", nullable=True),
        Column("largest_cell", _I, "claims in the largest cell"),
        Column("largest_budget", _I, "claims selected from it"),
        Column("largest_seconds", _F, "wall time over it alone"),
        Column(
            "largest_core_seconds", _F, "the same, processor time of all threads", nullable=True
        ),
    ),
    unique=("origin", "selector", "seed"),
    row="a selector on the pool, with one seed",
)
