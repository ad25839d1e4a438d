"""Tables of the funnel: claims at every stage, drops, and the replies of its engines."""

from collections.abc import Mapping
from typing import Literal, get_args

import polars as pl

from decomposerl.table import Column, Table

Verdict = Literal["Supported", "Refuted", "NotEnoughInfo"]
"""Every verdict and gold label; the third only where a three-way setting admits it."""
VERDICTS: tuple[Verdict, ...] = get_args(Verdict)
LABELS: tuple[Verdict, ...] = VERDICTS[:2]
"""The two of the paper."""
WRITTEN: Mapping[Verdict, str] = {
    "Supported": "Supported",
    "Refuted": "Refuted",
    "NotEnoughInfo": "Not Enough Information",
}
"""A verdict as traces and pages write it."""


def label_problem(frame: pl.DataFrame) -> str:
    """What is wrong with ``label`` beside ``label_rule``; empty where nothing is."""
    label, kept = pl.col("label"), pl.col("label_rule") == "keep_middle"
    unknown = frame.filter(~label.is_in(VERDICTS))["label"]
    if len(unknown):
        return f"{len(unknown)} labels such as {unknown[0]!r} are none of {', '.join(VERDICTS)}"
    third = frame.filter(~label.is_in(LABELS) & ~kept).height
    if third:
        return (
            f"{third} claims have the label {VERDICTS[2]}, which only label_rule = keep_middle "
            "gives; read the corpora again under one label rule"
        )
    return ""


_S, _I, _F = pl.String(), pl.Int64(), pl.Float64()
_LIST = pl.List(pl.String())

CLAIM_COLUMNS = (
    Column("claim_id", _S, "16 hex digits of SHA-256 over source, native id, claim, evidence"),
    Column("source", _S, "catalogue name of the corpus"),
    Column("native_id", _S, "the corpus's own id of the row"),
    Column("split", _S, "the corpus's own split: train, dev or test"),
    Column("claim", _S, "the statement to verify"),
    Column("evidence", _S, "the passages joined by line breaks"),
    Column("passages", _LIST, "evidence units: paragraphs, sentences or table rows"),
    Column("evidence_kind", _S, "text or table"),
    Column("label", _S, "Supported or Refuted; NotEnoughInfo under keep_middle alone"),
    Column("native_label", _S, "the corpus's own label"),
    Column("label_rule", _S, "drop_middle, middle_is_refuted or keep_middle"),
    Column("document_id", _S, "the document(s) behind the evidence", nullable=True),
    Column("subset", _S, "part of the corpus, where it has parts", nullable=True),
    Column("num_hops", _I, "reasoning hops, where the corpus states them", nullable=True),
)
CLAIMS = Table(
    "claims",
    CLAIM_COLUMNS,
    unique=("claim_id",),
    row="a claim of a training corpus, as read from its native files",
    rule=label_problem,
)

_NULLABLE_IN_BENCHMARK = {"label", "native_label", "evidence"}
BENCHMARK_CLAIMS = Table(
    "benchmark_claims",
    tuple(
        Column(c.name, c.dtype, c.meaning, c.nullable or c.name in _NULLABLE_IN_BENCHMARK)
        for c in CLAIM_COLUMNS
    ),
    unique=("claim_id",),
    row="a claim of a test set, as read from its native files",
    rule=CLAIMS.rule,
)

RULE_FILTERED = CLAIMS.extended(
    "rule_filtered",
    "a claim that passed the rules on passages, tokens, overlap and entities",
    Column("evidence_words", _I, "white-space separated words of the evidence"),
    Column(
        "evidence_tokens",
        _I,
        "length of the evidence in token_unit; null where bounds decided without counting",
        nullable=True,
    ),
    Column("token_unit", _S, "which counter measured evidence_tokens"),
    Column("overlap", _F, "share of the claim's content words in its best evidence sentence"),
    Column("entities", _LIST, "distinct normalised entity surface forms of the claim"),
)
DIFFICULTY_BAND = RULE_FILTERED.extended(
    "difficulty_band",
    "a claim whose label confidence lies in the band",
    Column("support_probability", _F, "verifier's P(supported), 0..1"),
    Column("label_confidence", _F, "P if the label is Supported, else 1 - P"),
)
DEDUPLICATED = DIFFICULTY_BAND.extended("deduplicated", "a claim that repeats no earlier one")
DECONTAMINATED = DIFFICULTY_BAND.extended("decontaminated", "a claim that is in no test set")
SILVER_DECOMPOSED = DECONTAMINATED.extended(
    "silver_decomposed",
    "a claim with its silver sub-questions",
    Column("questions", _LIST, "distinct non-empty silver sub-questions"),
    Column("n_star", _I, "number of silver sub-questions, 2..20"),
)
DIVERSITY_SELECTED = SILVER_DECOMPOSED.extended(
    "diversity_selected",
    "a claim that the selection picked",
    Column("bucket", _S, "selection cell: label|source"),
    Column("selection_rank", _I, "position in its cell's greedy order, from 0", nullable=True),
    Column("selection_gain", _F, "what the row added to f(S) of its cell", nullable=True),
)
TRAINING_CLAIMS = DIVERSITY_SELECTED.extended(
    "training_claims",
    "a claim to train on",
    Column("origin", _S, "selected or long_evidence; random in the random set"),
)

DROPS = Table(
    "drops",
    (
        Column("claim_id", _S, "the claim that left"),
        Column("source", _S, "its corpus"),
        Column("label", _S, "its label, null where the corpus gives none of them", nullable=True),
        Column("stage", _S, "asset that dropped it"),
        Column("step", _S, "step inside the stage"),
        Column("reason", _S, "why; each step has a fixed list of reasons"),
        Column("value", _F, "the number that decided", nullable=True),
        Column("threshold", _F, "the bound that value was compared with", nullable=True),
        Column("matched_claim_id", _S, "the claim it duplicates or leaks", nullable=True),
        Column("matched_source", _S, "corpus or benchmark of that claim", nullable=True),
        Column("engine", _S, "program that gave the number, null where none did", nullable=True),
    ),
    unique=("claim_id",),
    row="a claim that a stage dropped",
)
PAIRS = Table(
    "pairs",
    (
        Column("kind", _S, "lexical (Jaccard) or semantic (cosine)"),
        Column("earlier_id", _S, "the claim that comes first in input order"),
        Column("later_id", _S, "the claim that comes later"),
        Column("similarity", _F, "Jaccard or cosine of the two claims, 0..1"),
        Column("floor", _F, "least similarity that was kept"),
        Column("engine", _S, "search that found the pair"),
    ),
    unique=("kind", "earlier_id", "later_id"),
    row="two claims that are alike",
)
SELECTION_CELLS = Table(
    "selection_cells",
    (
        Column("bucket", _S, "the cell: label|source"),
        Column("label", _S, "that of its claims"),
        Column("source", _S, "corpus"),
        Column("available", _I, "claims in the cell, n"),
        Column("budget", _I, "claims wanted from the cell"),
        Column("selected", _I, "claims picked, k"),
        Column("objective", _F, "f(S): sum of all claims' cosines to their nearest pick, least 0"),
        Column("mean_cover", _F, "f(S) / n, 0..1"),
        Column("within_0_5", _F, "share of the n claims with a pick at cosine 0.5 or more"),
        Column("within_0_7", _F, "share with a pick at cosine 0.7 or more"),
        Column("within_0_9", _F, "share with a pick at cosine 0.9 or more"),
        Column("evaluations", _I, "gains computed to find the picks"),
    ),
    unique=("bucket",),
    row="a cell of the selection: one label of one corpus",
)
DOUBTFUL = Table(
    "doubtful",
    (
        Column("file", _S, "the list in the corpora folder"),
        Column("row", _I, "its row, from 1"),
        Column("claim_id", _S, "the test set's claim; null: none is named", nullable=True),
        Column(
            "state",
            _S,
            "doubtful; or without effect: confirmed (its label is the claim's), repeated, "
            "no_claim, several_claims, unreadable",
        ),
    ),
    row="a row of the list, for each claim that it names",
)
REJECTS = Table(
    "rejects",
    (
        Column("source", _S, "corpus or benchmark being read"),
        Column("file", _S, "native file, relative to the corpora folder"),
        Column("row", _I, "1-based row or line; 0 where the file as a whole is meant"),
        Column("field", _S, "native field, empty where the row as a whole is meant"),
        Column("reason", _S, "why; one of a fixed list"),
        Column("detail", _S, "short excerpt or message"),
    ),
    row="something in a native file that could not be read",
)
CHAT_REPLIES = Table(
    "chat_replies",
    (
        Column("key", _S, "64 hex digits of SHA-256 over all that decides the reply"),
        Column("model", _S, "name in requests"),
        Column("revision", _S, "of the weights, or the snapshot; empty where none was set"),
        Column("template", _S, "prompt that the messages were filled from"),
        Column("template_digest", _S, "SHA-256 of that prompt file"),
        Column("text", _S, "the reply, raw"),
        Column("finish_reason", _S, "stop, length, content_filter or other"),
        Column("reported_model", _S, "the model that the endpoint says answered"),
        Column("prompt_tokens", _I, "as the endpoint counted, or estimated"),
        Column("completion_tokens", _I, "as the endpoint counted, or estimated"),
        Column("latency_s", _F, "seconds from request to reply, when it was asked"),
        Column("tokens", _S, "log probabilities where asked for, as JSON", nullable=True),
    ),
    unique=("key",),
    row="a stored reply of a chat model",
)
ATTRITION = Table(
    "attrition",
    (
        Column("stage", _S, "asset"),
        Column("stage_order", _I, "position in the funnel, 0 is the sources"),
        Column("source", _S, "corpus"),
        Column("label", _S, "as in claims, or none"),
        Column("outcome", _S, "kept, dropped or rejected"),
        Column("step", _S, "step that dropped the rows, empty where kept"),
        Column("reason", _S, "drop reason, empty where kept"),
        Column("rows", _I, "number of claims"),
    ),
    row="a number of claims with one way through a stage",
)
STAGE_RUNS = Table(
    "stage_runs",
    (
        Column("stage", _S, "asset key with slashes"),
        Column("run_id", _S, "Dagster run that wrote the current data"),
        Column("finished_at", _S, "UTC, ISO 8601"),
        Column("seconds", _F, "wall time of the stage"),
        Column("rows_in", _I, "rows that entered (records read, for a source)"),
        Column("rows_kept", _I, "rows that stayed"),
        Column("rows_dropped", _I, "rows that left with a reason"),
        Column("rows_rejected", _I, "rows quarantined while reading"),
        Column("engine", _S, "engines used, empty where none", nullable=True),
        Column("engine_calls", _I, "items sent to an engine in this run"),
        Column("engine_hits", _I, "items answered from stored results"),
        Column("config", _S, "the resolved configuration as JSON"),
        Column("step_engines", _S, "engine of each step that has one, as JSON", nullable=True),
        Column("data_version", _S, "content hash of the stage's frame"),
        Column("status", _S, "ok, or why not: empty, limited, not_available, ..."),
        Column("entry", _S, "digest of the entry of systems.toml evaluated", nullable=True),
    ),
    unique=("stage",),
    row="the latest materialization of an asset or partition",
)
