"""Tables of the evaluation: predictions and their calls, scores, leaderboard, comparison."""

from functools import partial
from typing import Literal, get_args

import polars as pl

from decomposerl.table import Column, Table

Basis = Literal["answered", "partly", "silent"]
"""What a verdict rests on: all of its questions have an answer that tells something, some, none."""
BASES: tuple[Basis, ...] = get_args(Basis)
_S, _I, _F = pl.String(), pl.Int64(), pl.Float64()
_optional = partial(Column, nullable=True)

TRACE = pl.Struct(
    {
        "opening": _S,
        "cycles": pl.List(pl.Struct({"question": _S, "answer": _S, "thought": _S})),
        "verdict": _S,
    }
)
PREDICTIONS = Table(
    "predictions",
    (
        Column("claim_id", _S, "the benchmark's claim"),
        Column("benchmark", _S, "catalogue name of the test set"),
        Column("system", _S, "method, model and protocol; the partition"),
        Column("method", _S, "name in the catalogue of baselines, decomposerl or verifier"),
        Column("model", _S, "key of the model, or the experiment whose policy it is"),
        Column("protocol", _S, "faithful, single_call or trace"),
        Column("engine", _S, "program and model that answered"),
        _optional(
            "verdict",
            _S,
            "Supported, Refuted, NotEnoughInfo where it is offered; null: none was read",
        ),
        Column("parse_status", _S, "parsed, unparsed, truncated or failed"),
        _optional("support_score", _F, "P(Supported) where the method gives one, 0..1"),
        _optional("confidence_raw", _F, "probability of the verdict's token; null: unavailable"),
        _optional("confidence_normalised", _F, "probability of the verdict among the two labels"),
        _optional("confidence_bound", pl.Boolean(), "confidence_normalised is only a lower bound"),
        _optional("confidence_calibrated", _F, "after the calibration of this model and prompt"),
        _optional("agreement", _F, "share of k samples with the verdict; null: none drawn"),
        Column("questions", _I, "question-answer pairs of the trace"),
        Column("abstentions", _I, "of those pairs, the ones whose answer is not known"),
        _optional(
            "basis",
            _S,
            "answered, partly or silent: all, some or none of the answers are known; null: no pair",
        ),
        Column("calls", _I, "calls to the model for this claim"),
        _optional("trace", TRACE, "what was asked and answered; null: no decomposition"),
        Column("notes", _S, "the method's own findings, as JSON"),
        Column("reply", _S, "the output that holds the verdict, raw"),
        Column("prompt_hash", _S, "64 hex digits of SHA-256 over prompt files and settings"),
        Column("seed", _I, "seed of sampling"),
    ),
    unique=("claim_id",),
    row="a system's verdict on a claim of a test set",
)
CALLS = Table(
    "calls",
    (
        Column("claim_id", _S, "the benchmark's claim"),
        Column("call", _I, "number of the call for this claim, from 0"),
        Column("operation", _S, "what the call does: answer, verify, program, ..."),
        Column("template", _S, "section of the prompt file"),
        Column("prompt_tokens", _I, "as the engine counted; 0: it does not"),
        Column("completion_tokens", _I, "as the engine counted; 0: it does not"),
        Column("latency_s", _F, "seconds from request to reply, when it was asked"),
        Column("cached", pl.Boolean(), "answered from the store of replies"),
        _optional("dollars", _F, "at the profile's price; null: none is known"),
        _optional("failure", _S, "why there is no answer, null where there is one"),
    ),
    unique=("claim_id", "call"),
    row="a call to a model for a prediction",
)
CALIBRATIONS = Table(
    "calibrations",
    (
        Column("system", _S, "method, model and protocol; the partition"),
        Column("engine", _S, "program and model that answered"),
        Column("reading", _S, "confidence: normalised, or calibrated (cross-fitted)"),
        Column("bin", _I, "of equally many verdicts, from the least confident, 0 to 14"),
        Column("low", _F, "least confidence in the bin"),
        Column("high", _F, "greatest confidence in the bin"),
        Column("rows", _I, "verdicts on claims of the dev split"),
        Column("confidence", _F, "mean confidence of those verdicts, 0..1"),
        Column("right", _F, "share of those verdicts that were right, 0..1"),
    ),
    unique=("reading", "bin"),
    row="a bin of a system's reliability diagram",
)
SCORES = Table(
    "scores",
    (
        Column("benchmark", _S, "catalogue name of the test set"),
        Column("system", _S, "method, model and protocol"),
        Column("engine", _S, "program and model that answered"),
        Column("metric", _S, "name in evaluation/metrics.py"),
        Column("slice", _S, "all, or what the rows share: subset, hops, evidence length, source"),
        Column("value", _S, "value of the slice; empty for all"),
        _optional("score", _F, "percent or a count's mean; null: not defined here"),
        _optional("low", _F, "lower bound of its 95 % interval; null: none"),
        _optional("high", _F, "upper bound"),
        Column("rows", _I, "claims it is computed from"),
        Column("supported", _I, "claims among them labelled Supported"),
    ),
    unique=("benchmark", "system", "metric", "slice", "value"),
    row="a metric of a system on a test set or a slice of it",
)
LEADERBOARD = Table(
    "leaderboard",
    (
        Column(
            "table", _I, "1 or 2: a row of the paper's table of that number; 0: further systems"
        ),
        Column("place", _I, "row in its table, from 0; the protocols of a row follow each other"),
        Column("family", _S, "group of rows in the table"),
        Column("title", _S, "the row's name in the paper, or the system's own"),
        Column("system", _S, "partition of predictions and scores; a mean's ends with -mean"),
        Column("method", _S, "name in the catalogue of baselines, decomposerl or verifier"),
        Column("model", _S, "key of the model, or the policy's run; a mean's ends with -mean"),
        Column("protocol", _S, "faithful, single_call or trace"),
        Column("seeds", _I, "runs of one recipe that the row is the mean of; 1: it is one run"),
        _optional("engine", _S, "program and model that answered; null: no score"),
        Column("benchmark", _S, "test set, or mean_in_domain, mean_out_of_domain"),
        _optional("score", _F, "balanced accuracy in percent, ours; null: none"),
        _optional("low", _F, "lower bound of its 95 % interval; of a mean the least score"),
        _optional("high", _F, "upper bound; of a mean the greatest score"),
        Column("rows", _I, "claims it is computed from; of a mean the fewest of a run"),
        Column(
            "beyond_context",
            _I,
            "longer than the model's context: read in part, wrong, dropped; of a mean the most",
        ),
        Column(
            "status",
            _S,
            "scored, limited (a short run), one_label (no balanced accuracy), not_available, "
            "edited (not run with the present entry of systems.toml) or not_run",
        ),
        Column("ranked", pl.Boolean(), "on as many claims as any other"),
        *(Column(basis, _I, "verdicts with this basis; of a mean the sum") for basis in BASES),
        *(Column(f"{basis}_right", _I, "right ones among them") for basis in BASES),
        _optional("paper", _F, "the paper's figure for this row and test set"),
    ),
    unique=("table", "place", "benchmark"),
    row="a system's score on a test set, or its place in the paper's table",
)
COMPARISON = Table(
    "comparison",
    (
        Column("benchmark", _S, "test set, or mean_in_domain, mean_out_of_domain"),
        Column("system", _S, "the system that is compared"),
        Column("other", _S, "the system it is compared with, on the same claims"),
        Column("engine", _S, "engine of system"),
        Column("other_engine", _S, "engine of other"),
        Column("rows", _I, "claims that both have"),
        Column("limited", pl.Boolean(), "a short run of either is in it: no measurement"),
        Column("difference", _F, "balanced accuracy of system minus other, points of percent"),
        Column("low", _F, "lower bound of its 95 % interval"),
        Column("high", _F, "upper bound"),
        _optional("p", _F, "two-sided, < 0.05 where the interval excludes 0; null: see no_p"),
        _optional("p_holm", _F, "after Holm's correction over all pairs of the test set or mean"),
        _optional("no_p", _S, "why there is no p-value: limited run, or n < N"),
    ),
    unique=("benchmark", "system", "other"),
    row="two systems on a test set",
)
