"""The predictions of one system on one test set, and every call that they took.

Takes a task (a procedure with the names of its system), claims and a caller, gives the frames
``PREDICTIONS`` and ``CALLS``. Claims that were done by an earlier run are not asked again, and the
frames are the same as if they had been.

A confidence is there where the tokens of the verdict had alternatives, else null, which means
unavailable. It is calibrated where a calibration was fitted to this very model and prompt.

Left out deliberately: labels. Nothing here can see them, so that nothing here can depend on them.
"""

import hashlib
import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from decomposerl.baselines.method import Procedure, Question
from decomposerl.evaluation.calibration import Calibration
from decomposerl.evaluation.confidence import READING
from decomposerl.schemas import CALLS, PREDICTIONS
from decomposerl.traces.abstention import abstains
from resources.evaluation.caller import MethodCaller
from resources.evaluation.policy_method import AGREEMENT
from resources.evaluation.prediction_store import Prediction, PredictionStore
from resources.evaluation.runner import Case, Limits, Progress, run_claims

SUPPORT = "support_probability"
"""The note of a method that gives a support probability."""


@dataclass(frozen=True, slots=True)
class Task:
    """What is run, and under which names it is recorded.

    ``prompt`` is the method's prompt file, ``revision`` the number of its code, ``settings`` what
    decides its answers besides, as JSON;
    ``decomposes`` says whether its cycles are kept as a trace; ``seed`` is of sampling. ``samples``
    drawn beside the answer change no answer, so they are no part of the prompt's hash.
    """

    system: str
    method: str
    model: str
    protocol: str
    procedure: Procedure
    prompt: str
    decomposes: bool = True
    settings: str = "{}"
    seed: int = 42
    samples: int = 0
    revision: int = 1

    @property
    def shelf(self) -> str:
        """The name that its finished claims are kept under."""
        return f"{self.system} samples={self.samples}" if self.samples else self.system

    @property
    def names(self) -> dict[str, str | int]:
        """The columns of ``PREDICTIONS`` that are the same for all its claims."""
        named = ("system", "method", "model", "protocol", "seed")
        return {name: getattr(self, name) for name in named}

    def prompt_hash(self, caller: MethodCaller) -> str:
        """64 hex digits of SHA-256 over the prompt files, the code's revisions and all settings."""
        files = caller.prompt_hash(self.prompt)
        parts = [files, self.protocol, self.revision, self.settings, self.seed, READING]
        return hashlib.sha256(json.dumps(parts).encode()).hexdigest()


@dataclass(frozen=True, slots=True)
class Generated:
    """``PREDICTIONS`` in the claims' order, ``CALLS`` in the same; how many claims were asked."""

    predictions: pl.DataFrame
    calls: pl.DataFrame
    asked: int


def predict(  # noqa: PLR0913 - each is one thing that a run is told
    task: Task,
    benchmark: str,
    claims: pl.DataFrame,
    caller: MethodCaller,
    shards: Path,
    *,
    limits: Limits | None = None,
    progress: Progress | None = None,
    calibration: Calibration | None = None,
) -> Generated:
    """Ask ``task`` about each of ``claims`` (``BENCHMARK_CLAIMS``) that ``shards`` has not done.

    Raises:
        EngineError: more claims failed than the limit allows, or nobody can be asked; what was
            answered is kept in ``shards``.
        EvaluationError: the calibration was fitted to another model or prompt.
    """
    prompt_hash = task.prompt_hash(caller)
    if calibration is not None:  # before anything is spent
        calibration.apply(np.empty(0), model=caller.engine, prompt_hash=prompt_hash)
    cases = _cases(claims)
    asked = {case.claim_id: _digest(case.question) for case in cases}
    shelf = PredictionStore(shards / benchmark, caller.engine, task.shelf, prompt_hash, asked)
    known = len(shelf.read([case.claim_id for case in cases]))
    done = run_claims(
        task.procedure, task.prompt, cases, caller, shelf, limits=limits, progress=progress
    )
    same = task.names | {
        "benchmark": benchmark,
        "engine": caller.engine,
        "prompt_hash": prompt_hash,
    }
    rows = [same | _row(one, decomposes=task.decomposes) for one in done]
    predictions = PREDICTIONS.conform(pl.DataFrame(rows, PREDICTIONS.schema))
    if calibration is not None:
        predictions = _calibrated(predictions, calibration, caller.engine, prompt_hash)
    return Generated(predictions, _calls(done), len(cases) - known)


def _cases(claims: pl.DataFrame) -> list[Case]:
    columns = claims.select("claim_id", "claim", "evidence", "passages")
    return [
        Case(claim_id, Question(claim, evidence, tuple(passages)))
        for claim_id, claim, evidence, passages in columns.iter_rows()
    ]


def _digest(question: Question) -> str:
    """Of all that a method sees of a claim; units of the same evidence may be cut anew."""
    return hashlib.sha256(json.dumps(asdict(question)).encode()).hexdigest()


def _row(one: Prediction, *, decomposes: bool) -> dict[str, Any]:
    found, confidence = one.verification, one.confidence
    cycles = [asdict(cycle) for cycle in found.cycles]
    trace = {"opening": found.opening, "cycles": cycles, "verdict": found.verdict}
    return {
        "claim_id": one.claim_id,
        "verdict": found.verdict,
        "parse_status": found.status,
        "support_score": found.notes.get(SUPPORT),
        "confidence_raw": None if confidence is None else confidence.raw,
        "confidence_normalised": None if confidence is None else confidence.normalised,
        "confidence_bound": None if confidence is None else confidence.lower_bound,
        "confidence_calibrated": None,
        "agreement": found.notes.get(AGREEMENT),
        "questions": len(found.cycles),
        "abstentions": sum(abstains(cycle.answer) for cycle in found.cycles),
        "calls": len(one.calls),
        "trace": trace if decomposes else None,
        "notes": json.dumps(dict(found.notes), sort_keys=True),
        "reply": found.reply,
    }


def _calls(done: Sequence[Prediction]) -> pl.DataFrame:
    rows = [
        {"claim_id": one.claim_id, "call": number, **asdict(call)}
        for one in done
        for number, call in enumerate(one.calls)
    ]
    return CALLS.conform(pl.DataFrame(rows, CALLS.schema))


def _calibrated(
    predictions: pl.DataFrame, calibration: Calibration, model: str, prompt_hash: str
) -> pl.DataFrame:
    raw = predictions["confidence_normalised"].fill_null(float("nan")).to_numpy()
    found = calibration.apply(raw, model=model, prompt_hash=prompt_hash)
    return predictions.with_columns(pl.Series("confidence_calibrated", found).fill_nan(None))
