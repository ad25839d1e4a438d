"""Tables of the trick study: what tricks earn, which signs show them, what a run found."""

import polars as pl

from decomposerl.table import Column, Table

_S, _I, _F = pl.String(), pl.Int64(), pl.Float64()

TRICK_STUDY = Table(
    "trick_study",
    (
        Column("reading", _S, "settings of the rewards: paper, strict, ..."),
        Column("trick", _S, "name in studies/trick_scripts.py"),
        Column("reward", _S, "name in the catalogue, or total: the weighted sum"),
        Column("claims", _I, "claims on which both traces have the reward"),
        Column("honest", _F, "mean of the honest traces", nullable=True),
        Column("paid", _F, "mean of the trick's traces", nullable=True),
        Column("gain", _F, "mean difference: the trick less the honest trace", nullable=True),
        Column("low", _F, "95 % interval over claims; null: all are equal, or few", nullable=True),
        Column("high", _F, "its upper end", nullable=True),
        Column("pays_more", _F, "share of the claims on which the trick earns more", nullable=True),
        Column("engine", _S, "judge and embedder"),
    ),
    unique=("reading", "trick", "reward"),
    row="a reward of a trick under a reading, beside the honest traces",
)
TRICK_SIGNS = Table(
    "trick_signs",
    (
        Column("trick", _S, "name in studies/trick_scripts.py"),
        Column("title", _S, "what its traces do"),
        Column("claims", _I, "claims with a scripted trace"),
        Column("seen", _F, "share of the trick's traces that show its sign"),
        Column("false_alarms", _F, "share of the honest traces that show it"),
        Column(
            "health_rules",
            pl.List(_S),
            "rules that object once 7 of 8 rollouts do it, and not while 1 of 8 does",
        ),
        Column("engine", _S, "judge and embedder"),
    ),
    unique=("trick",),
    row="a trick, and what notices it",
)
TRICKS_FOUND = Table(
    "tricks_found",
    (
        Column("experiment", _S, "name of the recipe's run"),
        Column("split", _S, "train, held_out_sampled or held_out_greedy"),
        Column("step", _I, "optimizer steps done when the rollouts were sampled"),
        Column("kind", _S, "trick, or health: a rule of training/health.py"),
        Column("name", _S, "of the trick or of the rule"),
        Column("rollouts", _I, "rollouts of the step"),
        Column("share", _F, "of them that show the sign, 0..1; 1 where the rule objects"),
        Column("low", _F, "95 % interval over claims; null below 30 of them", nullable=True),
        Column("high", _F, "its upper end", nullable=True),
        Column(
            "advantage",
            _F,
            "mean weighted sum of those less their group's; null: none, or a rule",
            nullable=True,
        ),
        Column("engine", _S, "judge of the run"),
    ),
    unique=("experiment", "split", "step", "kind", "name"),
    row="how often a trick was played at a step of a training run",
)
