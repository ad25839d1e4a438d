"""One system's predictions of one test set as a log of Inspect, the UK AISI's evaluation framework.

Gives plain values in the form of ``inspect_ai.log.EvalLog`` (version 2), without the package:
a sample for each claim with its evidence, label, reply, verdict and trace, and each metric over all
claims, 0..1 as Inspect has it, with its interval.
"""

import hashlib
import json
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

import polars as pl

SCORER = "verdict"
_COUNT = "_per_claim"
_CORRECT, _INCORRECT = "C", "I"
_DETAILS = (
    *("parse_status", "support_score", "confidence_raw", "confidence_normalised"),
    *("confidence_calibrated", "agreement", "questions", "abstentions", "calls"),
)
_ABOUT = ("source", "native_id", "subset", "num_hops", "document_id", "native_label")


@dataclass(frozen=True, slots=True)
class Predicted:
    """What is on disk of one system and test set.

    ``predictions``, ``claims``, ``scores`` and ``calls`` are the tables of these names, the last
    two empty where there are none; ``doubtful`` are the claims whose label a list doubts; ``run``
    is the record of the predictions (``STAGE_RUNS``), ``began`` and ``ended`` its times (ISO 8601).
    """

    benchmark: str
    system: str
    title: str
    predictions: pl.DataFrame
    claims: pl.DataFrame
    scores: pl.DataFrame
    calls: pl.DataFrame
    doubtful: Collection[str]
    run: Mapping[str, Any]
    began: str
    ended: str


def inspect_log(predicted: Predicted, version: str) -> dict[str, Any]:
    """The log; ``version`` is that of this project. The same tables give the same log."""
    said, claims = predicted.predictions, predicted.claims
    model = f"decomposerl/{predicted.system}"
    samples = [
        _sample(row, model, doubtful=row["claim_id"] in predicted.doubtful)
        for row in said.join(claims, on="claim_id", maintain_order="left").iter_rows(named=True)
    ]
    return {
        "version": 2,
        "status": "success",
        "eval": _spec(predicted, model, [one["id"] for one in samples], version),
        "plan": {"name": "decomposerl", "steps": [{"solver": predicted.system}]},
        "results": {
            "total_samples": len(samples),
            "completed_samples": len(samples),
            "scores": [{"name": SCORER, "scorer": SCORER, "metrics": _metrics(predicted.scores)}],
        },
        "stats": {
            "started_at": predicted.began,
            "completed_at": predicted.ended,
            "model_usage": {model: _usage(predicted.calls)},
        },
        "samples": samples,
    }


def _spec(predicted: Predicted, model: str, ids: list[str], version: str) -> dict[str, Any]:
    """What was run; its ids are a hash of system, test set and time."""
    about = f"{model} {predicted.benchmark} {predicted.ended}"
    digest = hashlib.sha256(about.encode()).hexdigest()[:22]
    return {
        "created": predicted.began,
        "task": f"decomposerl/{predicted.benchmark}",
        "task_version": 1,
        **dict.fromkeys(("eval_id", "run_id", "task_id"), digest),
        "dataset": {"name": predicted.benchmark, "samples": len(ids), "sample_ids": ids},
        "model": model,
        "config": {},
        "packages": {"decomposerl": version},
        "scorers": [{"name": SCORER}],
        "metadata": {
            "system": predicted.title,
            "engine": predicted.run["engine"],
            "status": predicted.run["status"],
        },
    }


def _sample(row: Mapping[str, Any], model: str, *, doubtful: bool) -> dict[str, Any]:
    question = f"{row['evidence']}\n\nClaim: {row['claim']}"
    reply = {"role": "assistant", "content": row["reply"], "source": "generate", "model": model}
    stopped = "max_tokens" if row["parse_status"] == "truncated" else "stop"
    about = {name: row[name] for name in _ABOUT if row[name] is not None}
    return {
        "id": row["claim_id"],
        "epoch": 1,
        "input": question,
        "target": row["label"] or "",
        "messages": [{"role": "user", "content": question, "source": "input"}, reply],
        "output": {"model": model, "choices": [{"message": reply, "stop_reason": stopped}]},
        "scores": {SCORER: _score(row)} if row["label"] else {},
        "metadata": {"claim": row["claim"], **about, **({"doubtful": True} if doubtful else {})},
    }


def _score(row: Mapping[str, Any]) -> dict[str, Any]:
    """Right or wrong; a missing verdict counts as wrong, as in every score of this project."""
    details = {name: row[name] for name in _DETAILS if row[name] is not None}
    return {
        "value": _CORRECT if row["verdict"] == row["label"] else _INCORRECT,
        "answer": row["verdict"] or "",
        "explanation": _explanation(row["trace"]),
        "metadata": {**details, "notes": json.loads(row["notes"])},
    }


def _explanation(trace: Mapping[str, Any] | None) -> str | None:
    if trace is None:
        return None
    steps = [f"Question: {one['question']}\nAnswer: {one['answer']}" for one in trace["cycles"]]
    return "\n\n".join([*filter(None, [trace["opening"]]), *steps, f"Verdict: {trace['verdict']}"])


def _metrics(scores: pl.DataFrame) -> dict[str, dict[str, Any]]:
    """The metrics over all claims; shares 0..1, counts per claim as they are."""
    metrics = {}
    for row in scores.filter(slice="all").drop_nulls("score").iter_rows(named=True):
        name, unit = row["metric"], 1.0 if row["metric"].endswith(_COUNT) else 100.0
        bounds = {end: row[end] / unit for end in ("low", "high") if row[end] is not None}
        metrics[name] = {
            "name": name,
            "value": row["score"] / unit,
            "metadata": {**bounds, "claims": row["rows"]},
        }
    return metrics


def _usage(calls: pl.DataFrame) -> dict[str, int]:
    """Tokens in and out; a call without counts adds none."""
    read, written = (int(calls[name].sum()) for name in ("prompt_tokens", "completion_tokens"))
    return {"input_tokens": read, "output_tokens": written, "total_tokens": read + written}
