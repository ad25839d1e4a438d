"""Names, types and meaning of every frame that crosses a border of the system.

Takes nothing, gives ``Table`` constants. The IO manager checks each frame against its
table on the way to and from Parquet, so a column exists here or nowhere.

Left out deliberately: any computation on frames.
"""

import polars as pl

from decomposerl.table import Column, Table

LABELS = ("Supported", "Refuted")

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
    Column("label", _S, "Supported or Refuted"),
    Column("native_label", _S, "the corpus's own label"),
    Column("label_rule", _S, "drop_middle or middle_is_refuted"),
    Column("document_id", _S, "the document(s) behind the evidence", nullable=True),
    Column("subset", _S, "part of the corpus, where it has parts", nullable=True),
    Column("num_hops", _I, "reasoning hops, where the corpus states them", nullable=True),
)
CLAIMS = Table("claims", CLAIM_COLUMNS, unique=("claim_id",))

_NULLABLE_IN_BENCHMARK = {"label", "native_label", "evidence"}
BENCHMARK_CLAIMS = Table(
    "benchmark_claims",
    tuple(
        Column(c.name, c.dtype, c.meaning, c.nullable or c.name in _NULLABLE_IN_BENCHMARK)
        for c in CLAIM_COLUMNS
    ),
    unique=("claim_id",),
)

RULE_FILTERED = CLAIMS.extended(
    "rule_filtered",
    Column("evidence_words", _I, "white-space separated words of the evidence"),
    Column(
        "evidence_tokens",
        _I,
        "length of the evidence in token_unit; null where bounds decided and nobody counted",
        nullable=True,
    ),
    Column("token_unit", _S, "which counter measured evidence_tokens"),
    Column("overlap", _F, "share of the claim's content words in its best evidence sentence"),
    Column("entities", _LIST, "distinct normalised entity surface forms of the claim"),
)
DIFFICULTY_BAND = RULE_FILTERED.extended(
    "difficulty_band",
    Column("support_probability", _F, "verifier's P(supported), 0..1"),
    Column("label_confidence", _F, "P if the label is Supported, else 1 - P"),
)
DEDUPLICATED = DIFFICULTY_BAND.extended("deduplicated")
DECONTAMINATED = DIFFICULTY_BAND.extended("decontaminated")
SILVER_DECOMPOSED = DECONTAMINATED.extended(
    "silver_decomposed",
    Column("questions", _LIST, "distinct non-empty silver sub-questions"),
    Column("n_star", _I, "number of silver sub-questions, 2..20"),
)
DIVERSITY_SELECTED = SILVER_DECOMPOSED.extended(
    "diversity_selected",
    Column("bucket", _S, "selection cell: label|source"),
    Column("selection_rank", _I, "position in its cell's greedy order, from 0", nullable=True),
    Column("selection_gain", _F, "what the row added to f(S) of its cell", nullable=True),
)
TRAINING_CLAIMS = DIVERSITY_SELECTED.extended(
    "training_claims", Column("origin", _S, "selected or long_evidence; random in the random set")
)

DROPS = Table(
    "drops",
    (
        Column("claim_id", _S, "the claim that left"),
        Column("source", _S, "its corpus"),
        Column(
            "label", _S, "its label, null where the corpus gives none of the two", nullable=True
        ),
        Column("stage", _S, "asset that dropped it"),
        Column("step", _S, "step inside the stage"),
        Column("reason", _S, "why, from the step's closed list"),
        Column("value", _F, "the number it was judged by", nullable=True),
        Column("threshold", _F, "the bound the number was held against", nullable=True),
        Column("matched_claim_id", _S, "the claim it duplicates or leaks", nullable=True),
        Column("matched_source", _S, "corpus or benchmark of that claim", nullable=True),
        Column("engine", _S, "program that gave the number, null where none did", nullable=True),
    ),
    unique=("claim_id",),
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
)
SELECTION_CELLS = Table(
    "selection_cells",
    (
        Column("bucket", _S, "the cell: label|source"),
        Column("label", _S, "Supported or Refuted"),
        Column("source", _S, "corpus"),
        Column("available", _I, "claims in the cell, n"),
        Column("budget", _I, "claims asked of it"),
        Column("selected", _I, "claims picked, k"),
        Column("objective", _F, "f(S): sum of all claims' cosines to their nearest pick, least 0"),
        Column("mean_cover", _F, "f(S) / n, 0..1"),
        Column("within_0_5", _F, "share of the n claims with a pick at cosine 0.5 or more"),
        Column("within_0_7", _F, "the same at 0.7"),
        Column("within_0_9", _F, "the same at 0.9"),
        Column("evaluations", _I, "gains computed to find the picks"),
    ),
    unique=("bucket",),
)
REJECTS = Table(
    "rejects",
    (
        Column("source", _S, "corpus or benchmark being read"),
        Column("file", _S, "native file, relative to the corpora folder"),
        Column("row", _I, "1-based row or line; 0 where the file as a whole is meant"),
        Column("field", _S, "native field, empty where the row as a whole is meant"),
        Column("reason", _S, "one of the closed list in claims/source.py"),
        Column("detail", _S, "short excerpt or message"),
    ),
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
        Column("prompt_tokens", _I, "as the endpoint counted"),
        Column("completion_tokens", _I, "as the endpoint counted"),
        Column("latency_s", _F, "seconds from request to reply, when it was asked"),
        Column("tokens", _S, "log probabilities where asked for, as JSON", nullable=True),
    ),
    unique=("key",),
)
ATTRITION = Table(
    "attrition",
    (
        Column("stage", _S, "asset"),
        Column("stage_order", _I, "position in the funnel, 0 is the sources"),
        Column("source", _S, "corpus"),
        Column("label", _S, "Supported, Refuted, or none"),
        Column("outcome", _S, "kept, dropped or rejected"),
        Column("step", _S, "step that dropped the rows, empty where kept"),
        Column("reason", _S, "drop reason, empty where kept"),
        Column("rows", _I, "number of claims"),
    ),
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
        Column("status", _S, "ok, or why not: truncated, empty, limited, not_available, ..."),
    ),
    unique=("stage",),
)
JUDGE_CALLS = Table(
    "judge_calls",
    (
        Column("group", _S, "the prompt whose rollouts are compared with each other"),
        Column("rollout", _I, "number of the rollout in its group"),
        Column("task", _S, "answerability, atomicity, correctness or coverage"),
        Column("role", _S, "full or leave_one_out (coverage), else question"),
        Column("question", _I, "cycle asked about or left out, from 0; null: full", nullable=True),
        Column("call_key", _S, "64 hex digits of SHA-256 over the call; equal calls share it"),
        Column("value", _S, "the ruling, null where the call failed", nullable=True),
        Column("failure", _S, "why there is no ruling, null where there is one", nullable=True),
        Column("engine", _S, "program and model that ruled"),
    ),
    unique=("group", "rollout", "task", "role", "question"),
)
REWARDS = Table(
    "rewards",
    (
        Column("run", _S, "run that sampled the rollout; empty outside a run"),
        Column("step", _I, "training step of the run, from 0"),
        Column("group", _S, "the prompt whose rollouts are compared with each other"),
        Column("rollout", _I, "number of the rollout in its group"),
        Column("reward", _S, "name in the catalogue, or total: the weighted sum"),
        Column("question", _I, "cycle the value is about, from 0; null: the trace", nullable=True),
        Column("value", _F, "null where a ruling is missing or it does not apply", nullable=True),
        Column("state", _S, "scored, failed, absent or dropped; a question's finding"),
        Column("weight", _F, "weight of the reward in the total"),
        Column("counted", pl.Boolean(), "whether the trace's value entered the total"),
    ),
    unique=("run", "step", "group", "rollout", "reward", "question"),
)
ROLLOUTS = Table(
    "rollouts",
    (
        Column("run", _S, "16 hex digits over recipe, claims, base weights and engines"),
        Column("step", _I, "optimizer steps done when it was sampled"),
        Column("split", _S, "train, held_out_sampled or held_out_greedy"),
        Column("group", _S, "claim_id: the rollouts of a claim at a step are compared"),
        Column("rollout", _I, "number of the rollout in its group"),
        Column("attempt", _I, "which start of the run sampled it, from 1"),
        Column("source", _S, "the claim's corpus"),
        Column("claim", _S, "the statement to verify"),
        Column("label", _S, "Supported or Refuted"),
        Column("labelled", pl.Boolean(), "whether the rewards saw the label (section 3.3)"),
        Column("n_star", _I, "number of silver sub-questions"),
        Column("prompt_digest", _S, "64 hex digits of SHA-256 over the rendered prompt"),
        Column("prompt_tokens", _I, "its length"),
        Column("completion", _S, "what the policy wrote, all of it"),
        Column("completion_tokens", _I, "its length, the end token included"),
        Column("truncated", pl.Boolean(), "whether the token limit ended it"),
        Column("verdict", _S, "Supported, Refuted, or null: none was parsed", nullable=True),
        Column("questions", _I, "complete question-answer pairs"),
        Column("faults", _LIST, "kinds of what is malformed, in order"),
        Column("total", _F, "weighted sum of the counted rewards; null: none", nullable=True),
    ),
    unique=("run", "step", "split", "group", "rollout"),
)
CURVES = Table(
    "curves",
    (
        Column("run", _S, "as in rollouts"),
        Column("experiment", _S, "name of the recipe"),
        Column("step", _I, "optimizer steps done"),
        Column("split", _S, "train, held_out_sampled or held_out_greedy"),
        Column("measure", _S, "a reward, total, or one of training/curves.py"),
        Column("mean", _F, "over the step's rollouts; null where none has it", nullable=True),
        Column("spread", _F, "standard deviation over them, where it has one", nullable=True),
        Column("rows", _I, "rollouts or groups that it is the mean of"),
    ),
    unique=("run", "step", "split", "measure"),
)
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
        Column("method", _S, "name in the catalogue of baselines, or decomposerl"),
        Column("model", _S, "key of the model, or the experiment whose policy it is"),
        Column("protocol", _S, "faithful, single_call or trace"),
        Column("engine", _S, "program and model that answered"),
        Column("verdict", _S, "Supported, Refuted, or null: none was read", nullable=True),
        Column("parse_status", _S, "parsed, unparsed, truncated or failed"),
        Column("support_score", _F, "P(Supported) where the method gives one, 0..1", nullable=True),
        Column(
            "confidence_raw",
            _F,
            "probability of the verdict's token; null: unavailable",
            nullable=True,
        ),
        Column("confidence_normalised", _F, "the same over the two labels alone", nullable=True),
        Column("confidence_bound", pl.Boolean(), "normalised is only a lower bound", nullable=True),
        Column(
            "confidence_calibrated",
            _F,
            "by the calibration bound to model and prompt",
            nullable=True,
        ),
        Column(
            "agreement", _F, "share of k samples with the verdict; null: none drawn", nullable=True
        ),
        Column("questions", _I, "question-answer pairs of the trace"),
        Column("abstentions", _I, "of them answered with not knowing"),
        Column("calls", _I, "calls to the model for this claim"),
        Column(
            "trace", TRACE, "what was asked and answered; null: no decomposition", nullable=True
        ),
        Column("notes", _S, "the method's own findings, as JSON"),
        Column("reply", _S, "the output that holds the verdict, raw"),
        Column("prompt_hash", _S, "64 hex digits of SHA-256 over prompt files and settings"),
        Column("seed", _I, "of sampling"),
    ),
    unique=("claim_id",),
)
CALLS = Table(
    "calls",
    (
        Column("claim_id", _S, "the benchmark's claim"),
        Column("call", _I, "number of the call for this claim, from 0"),
        Column("operation", _S, "what was asked: answer, verify, program, ..."),
        Column("template", _S, "section of the prompt file"),
        Column("prompt_tokens", _I, "as the engine counted; 0: it does not"),
        Column("completion_tokens", _I, "as the engine counted; 0: it does not"),
        Column("latency_s", _F, "seconds from request to reply, when it was asked"),
        Column("cached", pl.Boolean(), "answered from the store of replies"),
        Column("dollars", _F, "at the profile's price; null: none is known", nullable=True),
        Column("failure", _S, "why there is no answer, null where there is one", nullable=True),
    ),
    unique=("claim_id", "call"),
)
SCORES = Table(
    "scores",
    (
        Column("benchmark", _S, "catalogue name of the test set"),
        Column("system", _S, "method, model and protocol"),
        Column("engine", _S, "program and model that answered"),
        Column("metric", _S, "name in evaluation/metrics.py"),
        Column("slice", _S, "all, or what the rows share: subset, hops, evidence length, source"),
        Column("value", _S, "of the slice, empty for all"),
        Column("score", _F, "percent or a count's mean; null: not defined here", nullable=True),
        Column("low", _F, "2.5 % bound of its bootstrap interval", nullable=True),
        Column("high", _F, "97.5 % bound", nullable=True),
        Column("rows", _I, "claims it is computed from"),
        Column("supported", _I, "of them labelled Supported"),
    ),
    unique=("benchmark", "system", "metric", "slice", "value"),
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
        Column("system", _S, "partition of predictions and scores"),
        Column("method", _S, "name in the catalogue of baselines, or decomposerl"),
        Column("model", _S, "key of the model, or the recipe of the policy"),
        Column("protocol", _S, "faithful, single_call or trace"),
        Column("engine", _S, "program and model that answered; null: no score", nullable=True),
        Column("benchmark", _S, "test set, or mean_in_domain, mean_out_of_domain"),
        Column("score", _F, "balanced accuracy in percent, ours; null: none", nullable=True),
        Column("low", _F, "2.5 % bound of its bootstrap interval", nullable=True),
        Column("high", _F, "97.5 % bound", nullable=True),
        Column("rows", _I, "claims it is computed from"),
        Column("status", _S, "scored, limited (a short run), not_available or not_run"),
        Column("paper", _F, "the paper's figure for this row and test set", nullable=True),
    ),
    unique=("table", "place", "benchmark"),
)
COMPARISON = Table(
    "comparison",
    (
        Column("benchmark", _S, "test set, or mean_in_domain, mean_out_of_domain"),
        Column("system", _S, "the one that is compared"),
        Column("other", _S, "with this one, on the same claims"),
        Column("engine", _S, "of the one that is compared"),
        Column("other_engine", _S, "of the other"),
        Column("rows", _I, "claims both have"),
        Column("difference", _F, "balanced accuracy of system minus other, points of percent"),
        Column("low", _F, "2.5 % bound of the paired bootstrap"),
        Column("high", _F, "97.5 % bound"),
        Column("p_bootstrap", _F, "two-sided, paired bootstrap"),
        Column("p_mcnemar", _F, "two-sided, exact; null for a mean", nullable=True),
        Column("p_holm", _F, "p_bootstrap after Holm's correction over benchmarks"),
    ),
    unique=("benchmark", "system", "other"),
)
