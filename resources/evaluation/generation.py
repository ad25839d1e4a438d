"""A system with its engine: its predictions on test sets, and every call that they took.

Gives the frames ``PREDICTIONS`` and ``CALLS``; a resumed run gives the same frames as a whole one.
A confidence is null where the verdict's tokens have no top log probabilities; it is calibrated
where a calibration fits the model and prompt. Labels are never used.

What is read of a claim beyond the model's context is decided before any call. A claim fits where
the prompt around the evidence, the evidence, what later calls add and the longest reply have room
in the context. What is not decided here (a later call that became too long after all) ends as wrong
when the model refuses it, never as a failed call.
"""

import hashlib
import json
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any
from typing import Protocol as Port

import numpy as np
import polars as pl
from numpy.typing import NDArray
from pydantic import ValidationError

from decomposerl.baselines.catalogue import ENTRY_METHODS
from decomposerl.baselines.method import (
    ClaimInput,
    Method,
    Procedure,
    Protocol,
    Verification,
    offering,
)
from decomposerl.baselines.minicheck import SUPPORT
from decomposerl.errors import ConfigError, EngineMissing, EvaluationError
from decomposerl.evaluation.calibration import READING, Calibration
from decomposerl.evaluation.entries import TRACE, VERIFIER, SystemEntry
from decomposerl.evaluation.scored_claims import (
    BEYOND_CONTEXT,
    DROPPED,
    MOST_WORDS,
    BeyondContext,
)
from decomposerl.evaluation.systems import System
from decomposerl.progress import Bar, bar
from decomposerl.prompts.template import THREE_WAY, PromptFile, VerdictRule
from decomposerl.replies.abstention import abstains
from decomposerl.schemas import CALIBRATIONS, CALLS, LABELS, PREDICTIONS, Verdict
from decomposerl.traces.basis import basis_of
from decomposerl.training.evidence_view import best_sentences, evidence_view
from decomposerl.training.experiment import EvidenceView
from decomposerl.training.experiments import experiment
from resources.evaluation.caller import MethodCaller, scored
from resources.evaluation.runner import (
    ClaimToVerify,
    FailureLimit,
    Finished,
    Prediction,
    PredictionStore,
    Progress,
    run_claims,
)
from resources.evaluation.trained_policy import AGREEMENT
from resources.store.temporary import replace_file
from resources.tokens.model_tokens import ModelTokens, tokenizer_file
from resources.tokens.word_tokens import CautiousTokens

SHARDS = "prediction_shards"
VERIFIED = "verify"
"""The folder of shards of claims that belong to no test set."""
_AT_ONCE = 16  # claims in progress in this process: more would delay the first result
_REPORTS = 20  # most progress messages of a run
# Each is an event in Dagster's storage, which costs more than a claim by rules.
_REPORT_EVERY_S = 5.0
Details = Callable[[], Mapping[str, int | float | str]]
_MARGIN = 512  # the chat template, the line of a repeated call, tokens at the joints of texts
_CLAIMS = 3  # times that a prompt may repeat the claim or parts of it
_NUMBER = 6  # tokens of a passage's number and line break


class Counts(Port):
    """The part of a ``TokenCounter`` that a guard needs."""

    def count(self, texts: Sequence[str]) -> NDArray[np.int64]:
        """Tokens of each text, shape (n,)."""
        ...


@dataclass(frozen=True, slots=True)
class Room:
    """Tokens of the longest reply, and of what later calls of a claim add to the prompt."""

    reply: int
    later: int = 0


NO_ROOM = Room(0)
ROOMS = {"single_call": Room(3_072), "faithful": Room(2_048, later=2_048)}
"""By the protocol of a baseline."""


@dataclass(frozen=True)
class ContextGuard:
    """A rule for claims that do not fit ``context`` tokens; 0 is no limit, or none is known.

    Where a policy reads a ``view`` of the evidence, the view has to fit.
    """

    rule: BeyondContext
    context: int = 0
    file: PromptFile | None = None
    room: Room = NO_ROOM
    counter: Counts = field(default_factory=CautiousTokens)
    view: EvidenceView | None = None

    def fitted(self, question: ClaimInput) -> tuple[ClaimInput | None, BeyondContext | None]:
        """The question to ask, None for no call, and what was done; the same where it fits."""
        if self.rule == DROPPED and len(question.evidence.split()) > MOST_WORDS:
            return None, DROPPED
        whole = question
        if self.view is not None:
            question = replace(
                question, evidence=evidence_view(question.claim, question.evidence, self.view)
            )
        left = self._left(question)
        if left is None:
            return whole, None
        if self.rule != "best_sentences":
            return None, "wrong"
        each = _NUMBER if self._numbers and question.passages else 1

        def cost(texts: Sequence[str]) -> list[int]:
            return [int(tokens) + each for tokens in self.counter.count(texts)]

        lines = best_sentences(question.claim, question.evidence, left, cost)
        if not lines:
            return None, "wrong"
        passages = tuple(lines) if question.passages else ()
        return ClaimInput(question.claim, "\n".join(lines), passages), "best_sentences"

    def _left(self, question: ClaimInput) -> int | None:
        """Tokens for evidence where the whole of it does not fit; None where it fits."""
        if not self.context:
            return None
        passages = question.passages if self._numbers else ()
        numbers = _NUMBER * len(passages)
        # A token has at least one byte, so most claims need not be counted.
        most = len(question.claim.encode()) * _CLAIMS + numbers
        whole = max(len(question.evidence.encode()), sum(len(one.encode()) for one in passages))
        if self._fixed + most + whole <= self.context:
            return None
        claim, evidence, apart = self.counter.count(
            [question.claim, question.evidence, "\n".join(passages)]
        )
        left = self.context - self._fixed - _CLAIMS * int(claim)
        return left if max(int(evidence), int(apart)) + numbers > left else None

    @cached_property
    def _numbers(self) -> bool:
        """Whether a prompt shows passages with numbers."""
        return any("{passages}" in text for text in self._sections)

    @cached_property
    def _sections(self) -> list[str]:
        return [] if self.file is None else list(self.file.sections.values())

    @cached_property
    def _fixed(self) -> int:
        """Tokens besides claim and evidence."""
        longest = max((int(one) for one in self.counter.count(self._sections)), default=0)
        return longest + self.room.reply + self.room.later + _MARGIN


def counter_of(model: str, revision: str = "") -> Counts:
    """The model's own tokenizer where it is on this machine, else a cautious estimate."""
    wanted = revision or "main"
    try:
        found = tokenizer_file(model, wanted)
    except EngineMissing:
        found = None
    return CautiousTokens() if found is None else ModelTokens(model, wanted)


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


def task_of(
    system: System,
    procedure: Procedure,
    prompt: str,
    seed: int,
    **fields: Any,  # noqa: ANN401 - of a task
) -> Task:
    """A task under the names of ``system``; ``fields`` are further ones of ``Task``."""
    names = (system.key, system.method, system.model.key, system.protocol)
    return Task(*names, procedure, prompt, seed=seed, **fields)


def method_task(system: System, seed: int = 42, labels: tuple[Verdict, ...] = LABELS) -> Task:
    """The task of a method with a chat model, whose prompts offer ``labels``.

    Raises:
        ConfigError: there is no such method, or it has no such protocol.
    """
    method = _method(system)
    return task_of(
        system,
        offering(labels, method.procedures[_protocol(system, method)]),
        method.prompt,
        seed,
        decomposes=method.decomposes,
        revision=method.revision,
    )


def answers_third(system: System) -> bool:
    """Whether a system may end with the third verdict where it is asked for it."""
    entry, port = system.entry, system.model.port
    if entry is not None and entry.method in {TRACE, VERIFIER}:
        return rule_of(entry) == THREE_WAY
    if port == "policy":
        return experiment(system.model.key).verdict_rule == THREE_WAY
    return port != "verifier" and _method(system).three_way


def rule_of(entry: SystemEntry) -> VerdictRule:
    """The entry's verdict rule, else its recipe's."""
    given = "verdict_rule" in entry.model_fields_set or not entry.recipe
    return entry.verdict_rule if given else experiment(entry.recipe).verdict_rule


def verifier_task(system: System, seed: int = 42) -> Task:
    """The task of a method whose verdicts are a verifier's."""
    revision = _method(system).revision
    return task_of(system, scored, system.method, seed, decomposes=False, revision=revision)


def _method(system: System) -> Method:
    for method in ENTRY_METHODS:
        if method.name == system.method:
            return method
    raise ConfigError(f"there is no method '{system.method}' for system '{system.key}'")


def _protocol(system: System, method: Method) -> Protocol:
    for protocol in method.procedures:
        if protocol == system.protocol:
            return protocol
    raise ConfigError(f"{method.title} has no protocol '{system.protocol}'")


@dataclass(frozen=True, slots=True)
class Generated:
    """``PREDICTIONS`` and ``CALLS`` in the order of the claims.

    ``asked`` counts new claims, ``stored`` those that were known; others were not asked at all.
    """

    predictions: pl.DataFrame
    calls: pl.DataFrame
    asked: int
    stored: int


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
        "basis": basis_of(cycle.answer for cycle in verification.cycles) if decomposes else None,
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


@dataclass
class OpenedSystem:
    """A system ready to predict test sets; what is stored below ``folder`` is reused.

    ``calls`` counts claims that were predicted, ``hits`` claims that were stored already; others
    were not asked at all.
    """

    task: Task
    caller: MethodCaller
    folder: Path
    details: Details = dict
    guard: ContextGuard | None = None
    calls: int = field(default=0, init=False)
    hits: int = field(default=0, init=False)

    @property
    def engine(self) -> str:
        """Name of the program and model that answer."""
        return self.caller.engine

    def predict(
        self,
        benchmark: str,
        claims: pl.DataFrame,
        most_failed: float,
        log: Callable[[str], None],
        *,
        calibrated: bool = True,
    ) -> Generated:
        """Predictions of ``claims`` (``BENCHMARK_CLAIMS``); ``log`` receives progress messages.

        ``calibrated``: apply the system's calibration, if one was fitted.

        Raises:
            EngineError: too many claims failed, or no call can be answered; finished claims are
                kept.
            EvaluationError: the calibration was fitted to another model or prompt.
        """
        prompt_hash = self.task.prompt_hash(self.caller)
        # A wrong calibration is refused before any call is paid.
        calibration = self.calibration() if calibrated else None
        title, before = f"{self.task.system}, {benchmark}", (self.calls, self.hits)
        with bar(title, claims.height, "claims") as shown:
            progress, limits = _reported(_moves(shown), title, log), FailureLimit(most_failed)
            answered = self._answered(_claims(claims), benchmark, limits, progress)
        same = {"benchmark": benchmark, "engine": self.engine, "prompt_hash": prompt_hash}
        predictions = _predictions(answered, self.task, same)
        if calibration is not None:
            predictions = _calibrated(predictions, calibration, self.engine, prompt_hash)
        counts = (self.calls - before[0], self.hits - before[1])
        return Generated(predictions, _calls(answered), *counts)

    def verify(self, claims: Sequence[ClaimToVerify], finished: Finished) -> None:
        """Answer claims with distinct ids that belong to no test set.

        ``finished`` receives each claim's result as soon as it is there, in any order; those
        without a call come last. A claim whose call got no answer has none, and is asked again by
        the next call; the others are stored.

        Raises:
            EngineError: no call can be answered.
        """
        with bar(self.task.system, len(claims), "claims") as shown:
            moved = _moves(shown)
            self._answered(
                claims,
                VERIFIED,
                FailureLimit(1.0),
                lambda done, _: moved(done),
                finished,
                at_once=_AT_ONCE,
            )

    def _answered(
        self,
        claims: Sequence[ClaimToVerify],
        name: str,
        limits: FailureLimit,
        progress: Progress,
        finished: Finished = lambda _: None,
        at_once: int = 0,
    ) -> list[Prediction]:
        """The result of each claim, in order; they are stored in the folder ``name``."""
        task, guarded = self.task, _guarded(claims, self.guard)
        questions = {one.claim_id: _digest(one.question) for one in guarded.asked}
        names = (self.engine, task.store_name, task.prompt_hash(self.caller))
        store = PredictionStore(self.folder / SHARDS / name, *names, questions)
        known = len(store.read(list(questions)))
        answered = run_claims(
            task.procedure,
            task.prompt,
            guarded.asked,
            self.caller,
            store,
            limits=limits,
            progress=progress,
            finished=lambda one: finished(guarded.noted(one.claim_id, one)),
            at_once=at_once,
        )
        every = guarded.all_noted(answered, [one.claim_id for one in claims])
        for one in (one for one in every if one.claim_id not in questions):
            finished(one)
        self.calls += len(questions) - known
        self.hits += known
        return every

    def calibration(self) -> Calibration | None:
        """The system's calibration, None where none was fitted.

        Raises:
            EvaluationError: it was fitted to another model or prompt.
        """
        prompt_hash = self.task.prompt_hash(self.caller)
        return usable_calibration(
            self.folder, self.task.system, model=self.engine, prompt_hash=prompt_hash
        )


def _moves(shown: Bar) -> Callable[[int], None]:
    """Moves the bar; the first report is of what was stored, and says nothing of the rate."""
    reports = 0

    def moved(done: int) -> None:
        nonlocal reports
        shown.known = done if reports == 0 else shown.known
        reports += 1
        shown.move(done)

    return moved


def _reported(
    moved: Callable[[int], None], what: str, log: Callable[[str], None]
) -> Callable[[int, int], None]:
    """Moves the bar and logs ``what`` at the end, and at each part where that takes long."""
    said = time.monotonic()

    def progress(done: int, total: int) -> None:
        nonlocal said
        moved(done)
        part = total and done * _REPORTS // total != (done - 1) * _REPORTS // total
        if done and (done == total or (part and time.monotonic() - said > _REPORT_EVERY_S)):
            said = time.monotonic()
            log(f"{what}: {done:,} of {total:,} claims")

    return progress


def calibration_path(data: Path, system: str) -> Path:
    """The file of a system's calibration, next to its table."""
    return data / CALIBRATIONS.name / f"{system}.json"


def write_calibration(data: Path, system: str, calibration: Calibration) -> Path:
    """Write it for the system's next predictions; returns its path."""
    path, text = calibration_path(data, system), calibration.model_dump_json(indent=2)
    replace_file(path, lambda aside: aside.write_text(text, "utf-8"))
    return path


def usable_calibration(
    data: Path, system: str, *, model: str, prompt_hash: str
) -> Calibration | None:
    """The system's calibration, None where there is none.

    Raises:
        EvaluationError: it is damaged, or was fitted to another model or prompt; says what to do.
    """
    path = calibration_path(data, system)
    if not path.is_file():
        return None
    remedy = (
        "dagster asset materialize -m dagster_project.definitions --select "
        f"'key:\"{CALIBRATIONS.name}\"' --partition {system}, "
        f"or remove {path.name} to predict without one"
    )
    try:
        calibration = Calibration.model_validate_json(path.read_text("utf-8"))
        calibration.refuse_others(model=model, prompt_hash=prompt_hash)
    except (ValidationError, UnicodeDecodeError) as error:
        raise EvaluationError(f"{path} is not a calibration; {remedy}") from error
    except EvaluationError as error:
        raise EvaluationError(f"{path}: {error}; {remedy}") from error
    return calibration
