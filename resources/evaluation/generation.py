"""The predictions of one system on one test set, and every call that they took.

Gives the frames ``PREDICTIONS`` and ``CALLS``; a resumed run gives the same frames as a whole one.
A confidence is null where the verdict's tokens have no top log probabilities; it is calibrated
where a calibration fits the model and prompt. Labels are never used.
"""

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from decomposerl.baselines.method import ClaimInput, Procedure, Verification
from decomposerl.baselines.minicheck import SUPPORT
from decomposerl.evaluation.calibration import Calibration
from decomposerl.evaluation.confidence import READING
from decomposerl.evaluation.scored_claims import BEYOND_CONTEXT, BeyondContext
from decomposerl.replies.abstention import abstains
from decomposerl.schemas import CALLS, PREDICTIONS
from resources.evaluation.caller import MethodCaller
from resources.evaluation.context_guard import ContextGuard
from resources.evaluation.prediction_store import Prediction, PredictionStore
from resources.evaluation.runner import (
    ClaimToVerify,
    FailureLimit,
    Finished,
    Progress,
    run_claims,
)
from resources.evaluation.trained_policy import AGREEMENT

_UNASKED = Verification(None, "unparsed", "not asked: its evidence is beyond the model's context")


@dataclass(frozen=True, slots=True)
class Task:
    """The procedure of a system, and the names it is recorded under.

    ``prompt`` is the method's prompt file, ``revision`` the number of its code, ``settings`` other
    settings that decide its answers, as JSON. ``decomposes``: its cycles are kept as a trace.
    ``seed`` is of sampling. ``samples`` change no answer and are not part of the prompt's hash.
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
    def store_name(self) -> str:
        """The name that its finished claims are stored under."""
        return f"{self.system} samples={self.samples}" if self.samples else self.system

    @property
    def names(self) -> dict[str, str | int]:
        """The columns of ``PREDICTIONS`` that are equal for all its claims."""
        columns = ("system", "method", "model", "protocol", "seed")
        return {name: getattr(self, name) for name in columns}

    def prompt_hash(self, caller: MethodCaller) -> str:
        """64 hex digits of SHA-256 over the prompt files, the code's revisions and all settings."""
        files = caller.prompt_hash(self.prompt)
        parts = [files, self.protocol, self.revision, self.settings, self.seed, READING]
        return hashlib.sha256(json.dumps(parts).encode()).hexdigest()


@dataclass(frozen=True, slots=True)
class Generated:
    """``PREDICTIONS`` and ``CALLS`` in the order of the claims.

    ``asked`` counts new claims, ``stored`` those that were known; others were not asked at all.
    """

    predictions: pl.DataFrame
    calls: pl.DataFrame
    asked: int
    stored: int


def predict(  # noqa: PLR0913 - what to run, on what, how and where it is stored
    task: Task,
    benchmark: str,
    claims: pl.DataFrame,
    caller: MethodCaller,
    shards: Path,
    *,
    limits: FailureLimit | None = None,
    progress: Progress | None = None,
    calibration: Calibration | None = None,
    guard: ContextGuard | None = None,
) -> Generated:
    """Predict ``claims`` (``BENCHMARK_CLAIMS``); those finished in ``shards`` cost no call.

    ``guard`` decides what is read of claims beyond the model's context; those without a call get
    no verdict.

    Raises:
        EngineError: more claims failed than the limit allows, or no call can be answered; finished
            claims are kept in ``shards``.
        EvaluationError: the calibration was fitted to another model or prompt.
    """
    prompt_hash = task.prompt_hash(caller)
    if calibration is not None:  # refuse a wrong one before any call is paid
        calibration.apply(np.empty(0), model=caller.engine, prompt_hash=prompt_hash)
    answered = answer_claims(
        task,
        _claims(claims),
        caller,
        shards / benchmark,
        limits=limits,
        progress=progress,
        guard=guard,
    )
    asked = {"benchmark": benchmark, "engine": caller.engine, "prompt_hash": prompt_hash}
    predictions = _predictions(answered.predictions, task, asked)
    if calibration is not None:
        predictions = _calibrated(predictions, calibration, caller.engine, prompt_hash)
    return Generated(predictions, _calls(answered.predictions), answered.asked, answered.stored)


@dataclass(frozen=True, slots=True)
class Answered:
    """The result of each claim, in the order of the claims.

    ``asked`` counts new claims, ``stored`` those that were known; others were not asked at all.
    """

    predictions: list[Prediction]
    asked: int
    stored: int


def answer_claims(  # noqa: PLR0913 - as predict
    task: Task,
    claims: Sequence[ClaimToVerify],
    caller: MethodCaller,
    folder: Path,
    *,
    limits: FailureLimit | None = None,
    progress: Progress | None = None,
    guard: ContextGuard | None = None,
    finished: Finished = lambda _: None,
    at_once: int = 0,
) -> Answered:
    """Answer ``claims`` with distinct ids; what is stored below ``folder`` is reused.

    ``finished`` receives each result as soon as it is there; those without a call come last.
    ``at_once`` is as for ``run_claims``.

    Raises:
        EngineError: as ``predict``.
    """
    guarded = _guarded(claims, guard)
    questions = {one.claim_id: _digest(one.question) for one in guarded.asked}
    names = (caller.engine, task.store_name, task.prompt_hash(caller))
    store = PredictionStore(folder, *names, questions)
    known = len(store.read(list(questions)))
    answered = run_claims(
        task.procedure,
        task.prompt,
        guarded.asked,
        caller,
        store,
        limits=limits,
        progress=progress,
        finished=lambda one: finished(guarded.noted(one.claim_id, one)),
        at_once=at_once,
    )
    every = guarded.all_noted(answered, [one.claim_id for one in claims])
    for one in (one for one in every if one.claim_id not in questions):
        finished(one)
    return Answered(every, len(questions) - known, known)


@dataclass(frozen=True, slots=True)
class _Guarded:
    """The claims to ask, as they are read, and what was done with those beyond the context."""

    asked: list[ClaimToVerify]
    beyond: Mapping[str, BeyondContext]

    def noted(self, claim_id: str, answered: Prediction | None) -> Prediction:
        """A claim's prediction, with a note where it was beyond the context."""
        one = answered or Prediction(claim_id, _UNASKED, None, ())
        if claim_id not in self.beyond:
            return one
        notes = {BEYOND_CONTEXT: self.beyond[claim_id]} | dict(one.verification.notes)
        return replace(one, verification=replace(one.verification, notes=notes))

    def all_noted(self, answered: Sequence[Prediction], order: Sequence[str]) -> list[Prediction]:
        """All predictions in ``order``, those without a call included."""
        found = {one.claim_id: one for one in answered}
        return [self.noted(claim_id, found.get(claim_id)) for claim_id in order]


def _guarded(claims: Sequence[ClaimToVerify], guard: ContextGuard | None) -> _Guarded:
    asked: list[ClaimToVerify] = []
    beyond: dict[str, BeyondContext] = {}
    for one in claims:
        question, done = guard.fitted(one.question) if guard else (one.question, None)
        if question is not None:
            asked.append(replace(one, question=question))
        if done is not None:
            beyond[one.claim_id] = done
    return _Guarded(asked, beyond)


def _claims(claims: pl.DataFrame) -> list[ClaimToVerify]:
    columns = claims.select("claim_id", "claim", "evidence", "passages")
    return [
        ClaimToVerify(claim_id, ClaimInput(claim, evidence, tuple(passages)))
        for claim_id, claim, evidence, passages in columns.iter_rows()
    ]


def _digest(question: ClaimInput) -> str:
    """SHA-256 of everything that a method sees of a claim, evidence and its passages included."""
    return hashlib.sha256(json.dumps(asdict(question)).encode()).hexdigest()


def _predictions(
    finished: Sequence[Prediction], task: Task, same: Mapping[str, str]
) -> pl.DataFrame:
    """``PREDICTIONS``; ``same`` are the columns besides the task's that all rows share."""
    head = {**task.names, **same}
    rows = [head | _row(one, decomposes=task.decomposes) for one in finished]
    return PREDICTIONS.conform(pl.DataFrame(rows, PREDICTIONS.schema))


def _row(one: Prediction, *, decomposes: bool) -> dict[str, Any]:
    verification, confidence = one.verification, one.confidence
    cycles = [asdict(cycle) for cycle in verification.cycles]
    trace = {"opening": verification.opening, "cycles": cycles, "verdict": verification.verdict}
    return {
        "claim_id": one.claim_id,
        "verdict": verification.verdict,
        "parse_status": verification.status,
        "support_score": verification.notes.get(SUPPORT),
        "confidence_raw": None if confidence is None else confidence.raw,
        "confidence_normalised": None if confidence is None else confidence.normalised,
        "confidence_bound": None if confidence is None else confidence.lower_bound,
        "confidence_calibrated": None,
        "agreement": verification.notes.get(AGREEMENT),
        "questions": len(verification.cycles),
        "abstentions": sum(abstains(cycle.answer) for cycle in verification.cycles),
        "calls": len(one.calls),
        "trace": trace if decomposes else None,
        "notes": json.dumps(dict(verification.notes), sort_keys=True),
        "reply": verification.reply,
    }


def _calls(finished: Sequence[Prediction]) -> pl.DataFrame:
    rows = [
        {"claim_id": one.claim_id, "call": number, **asdict(call)}
        for one in finished
        for number, call in enumerate(one.calls)
    ]
    return CALLS.conform(pl.DataFrame(rows, CALLS.schema))


def _calibrated(
    predictions: pl.DataFrame, calibration: Calibration, model: str, prompt_hash: str
) -> pl.DataFrame:
    raw = predictions["confidence_normalised"].fill_null(float("nan")).to_numpy()
    calibrated = calibration.apply(raw, model=model, prompt_hash=prompt_hash)
    return predictions.with_columns(pl.Series("confidence_calibrated", calibrated).fill_nan(None))
