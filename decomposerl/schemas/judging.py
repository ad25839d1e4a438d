"""Tables of the tiny judge: its examples, its agreement with the large judge, its rewards."""

import polars as pl

from decomposerl.table import Column, Table

_S, _I, _F = pl.String(), pl.Int64(), pl.Float64()

JUDGE_EXAMPLES = Table(
    "judge_distillation",
    (
        Column("head", _S, "classifier of the tiny judge"),
        Column("call_key", _S, "64 hex digits of SHA-256 over the judge call"),
        Column("text", _S, "first text: a question, with its answer for correctness, or the claim"),
        Column("context", _S, "second text: the document, the claim or the answers"),
        Column("label", _S, "the large judge's class: 0, 1 or a verdict"),
        Column("claim_id", _S, "the claim of the trace"),
        Column("document", _S, "16 hex digits: one for all claims and documents that are linked"),
        Column("split", _S, "train, dev (early stopping) or test (agreement)"),
        Column("teacher", _S, "program and model that ruled"),
        Column("selected", pl.Boolean(), "used: what can be balanced in train, a sample in dev"),
    ),
    unique=("head", "call_key"),
    row="a ruling of the large judge as an example for a head",
)
_MEASURED = (
    Column("metric", _S, "what is measured"),
    Column("value", _F, "null where it is not defined", nullable=True),
    Column("low", _F, "lower end of the 95 % interval; null: too few clusters", nullable=True),
    Column("high", _F, "upper end of the 95 % interval", nullable=True),
)
JUDGE_AGREEMENT = Table(
    "tiny_judge_agreement",
    (
        Column("head", _S, "classifier of the tiny judge"),
        *_MEASURED,
        Column("rows", _I, "test examples"),
        Column("documents", _I, "documents that they are from; intervals are over them"),
        Column("shortened", _I, "examples that did not fit the encoder"),
        Column("engine", _S, "the tiny judge"),
        Column("teacher", _S, "the large judge"),
    ),
    unique=("head", "metric"),
    row="a measure of agreement with the large judge",
)
JUDGE_STUDY = Table(
    "judge_study",
    (
        Column("reward", _S, "name in the catalogue, or total: the weighted sum"),
        *_MEASURED,
        Column("rollouts", _I, "traces that have the reward from both judges"),
        Column("groups", _I, "claims that they are of; intervals are over them"),
        Column("engine", _S, "the tiny judge"),
        Column("teacher", _S, "the large judge"),
    ),
    unique=("reward", "metric"),
    row="a measure of how rewards differ between two judges",
)
