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

TRAINING_STUDY = Table(
    "training_study",
    (
        Column("study", _S, "name of the study"),
        Column("variant", _S, "what was trained; all variants: of a tau"),
        Column("against", _S, "the variant it is compared with, or before training: its own start; "
               "null: the first variant", nullable=True),
        Column("measure", _S, "balanced_accuracy (percent), a reward, total, questions; or "
               "tau_in_domain, tau_out_of_domain: Kendall's tau-b with the paper's order"),
        Column("split", _S, "held_out_sampled or held_out_greedy"),
        Column("recipe", _S, "recipe that was trained, without its seed; empty for a tau"),
        Column("engine", _S, "judge, embedder and policy"),
        Column("seeds", _I, "runs of each variant, one per seed"),
        Column("claims", _I, "held-out claims that every run answered"),
        Column("steps", _I, "optimizer steps of a run"),
        Column("before", _F, "mean over seeds before the first step", nullable=True),
        Column("mean", _F, "mean over seeds after the last step", nullable=True),
        Column("low", _F, "lower end of its 95 % interval over seeds", nullable=True),
        Column("high", _F, "upper end", nullable=True),
        Column("difference", _F, "mean less that of the variant in against", nullable=True),
        Column("claims_low", _F, "lower end of its 95 % interval over claims", nullable=True),
        Column("claims_high", _F, "upper end", nullable=True),
        Column("seeds_low", _F, "lower end of its 95 % interval over seeds", nullable=True),
        Column("seeds_high", _F, "upper end", nullable=True),
        Column("resolved", pl.Boolean(), "whether neither interval holds 0", nullable=True),
        Column("p", _F, "two-sided, the larger over claims and over seeds", nullable=True),
        Column("p_holm", _F, "corrected over the measure's variants", nullable=True),
        Column("own_measure", pl.Boolean(), "whether the variant should move this measure"),
        Column("paper_in_domain", _F, "the paper's mean of its run, percent", nullable=True),
        Column("paper_out_of_domain", _F, "the same out of domain", nullable=True),
        Column("order_in_domain", _S, "same, opposite or not resolved: sign of the difference "
               "beside the paper's in domain; null: none there", nullable=True),
        Column("order_out_of_domain", _S, "the same out of domain", nullable=True),
    ),
    unique=("study", "variant", "against", "measure", "split"),
    row="a measure of a variant of a study",
)  # fmt: skip
