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

import polars as pl
from pydantic import ValidationError

from decomposerl.baselines.catalogue import ENTRY_METHODS
from decomposerl.baselines.method import ClaimInput, Procedure, Verification, offering
from decomposerl.baselines.minicheck import SUPPORT
from decomposerl.errors import EngineMissing, EvaluationError
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
from resources.evaluation.runner import (
    ClaimToVerify,
    MethodCaller,
    Prediction,
    PredictionStore,
    Progress,
    run_claims,
    scored,
)
from resources.store.temporary import replace_file
from resources.tokens.model_tokens import ModelTokens, tokenizer_file
from resources.tokens.word_tokens import CautiousTokens

AGREEMENT = "agreement"
"""The note with the share of samples whose verdict is that of the greedy trace."""
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
_METHODS = {method.name: method for method in ENTRY_METHODS}


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
    counter: CautiousTokens | ModelTokens = field(default_factory=CautiousTokens)
    view: EvidenceView | None = None

    def fitted(self, question: ClaimInput) -> tuple[ClaimInput | None, BeyondContext | None]:
        """The question to ask, None for no call, and what was done; the same where it fits."""
        if self.rule == DROPPED and len(question.evidence.split()) > MOST_WORDS:
            return None, DROPPED
        claim, read = question.claim, question
        if self.view is not None:
            read = replace(question, evidence=evidence_view(claim, question.evidence, self.view))
        left = self._left(read)
        if left is None:
            return question, None
        if self.rule != "best_sentences":
            return None, "wrong"
        each = _NUMBER if self._numbers and question.passages else 1

        def cost(texts: Sequence[str]) -> list[int]:
            return [int(tokens) + each for tokens in self.counter.count(texts)]

        lines = best_sentences(claim, read.evidence, left, cost)
        if not lines:
            return None, "wrong"
        passages = tuple(lines) if question.passages else ()
        return ClaimInput(claim, "\n".join(lines), passages), "best_sentences"

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
        texts = [question.claim, question.evidence, "\n".join(passages)]
        claim, *each = map(int, self.counter.count(texts))
        left = self.context - self._fixed - _CLAIMS * claim
        return left if max(each) + numbers > left else None

    @cached_property
    def _numbers(self) -> bool:
        """Whether a prompt shows passages with numbers."""
        return self.file is not None and any("{passages}" in s for s in self.file.sections.values())

    @cached_property
    def _fixed(self) -> int:
        """Tokens besides claim and evidence."""
        sections = [] if self.file is None else list(self.file.sections.values())
        longest = max(map(int, self.counter.count(sections)), default=0)
        return longest + self.room.reply + self.room.later + _MARGIN


def counter_of(model: str, revision: str = "") -> CautiousTokens | ModelTokens:
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
    """The procedure of a system, under whose names its predictions are recorded.

    ``prompt`` is the method's prompt file, ``revision`` the number of its code, ``settings`` other
    settings that decide its answers, as JSON. ``decomposes``: its cycles are kept as a trace.
    ``seed`` is of sampling. ``samples`` change no answer and are not part of the prompt's hash.
    """

    system: System
    procedure: Procedure
    prompt: str
    decomposes: bool = True
    settings: str = "{}"
    seed: int = 42
    samples: int = 0
    revision: int = 1

    def prompt_hash(self, caller: MethodCaller) -> str:
        """64 hex digits of SHA-256 over the prompt files, the code's revisions and all settings."""
        files, protocol = caller.prompt_hash(self.prompt), self.system.protocol
        parts = [files, protocol, self.revision, self.settings, self.seed, READING]
        return hashlib.sha256(json.dumps(parts).encode()).hexdigest()


def method_task(system: System, seed: int = 42, labels: tuple[Verdict, ...] = LABELS) -> Task:
    """The task of a method with a chat model, whose prompts offer ``labels``."""
    method = _METHODS[system.method]
    procedures = {str(name): procedure for name, procedure in method.procedures.items()}
    return Task(
        system,
        offering(labels, procedures[system.protocol]),
        method.prompt,
        method.decomposes,
        seed=seed,
        revision=method.revision,
    )


def answers_third(system: System) -> bool:
    """Whether a system may end with the third verdict where it is asked for it."""
    entry, port = system.entry, system.model.port
    if entry is not None and entry.method in {TRACE, VERIFIER}:
        return rule_of(entry) == THREE_WAY
    if port == "policy":
        return experiment(system.model.key).verdict_rule == THREE_WAY
    return port != "verifier" and _METHODS[system.method].three_way


def rule_of(entry: SystemEntry) -> VerdictRule:
    """The entry's verdict rule, else its recipe's."""
    given = "verdict_rule" in entry.model_fields_set or not entry.recipe
    return entry.verdict_rule if given else experiment(entry.recipe).verdict_rule


def verifier_task(system: System, seed: int = 42) -> Task:
    """The task of a method whose verdicts are a verifier's."""
    revision = _METHODS[system.method].revision
    return Task(system, scored, system.method, decomposes=False, seed=seed, revision=revision)


@dataclass(frozen=True, slots=True)
class Generated:
    """``PREDICTIONS`` and ``CALLS`` in the order of the claims."""

    predictions: pl.DataFrame
    calls: pl.DataFrame


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
    guard: ContextGuard = ContextGuard("best_sentences")
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
        # A wrong calibration is refused before any call is paid.
        calibration = self.calibration() if calibrated else None
        system = self.task.system
        title, columns = f"{system.key}, {benchmark}", ("claim_id", "claim", "evidence", "passages")
        asked = [
            ClaimToVerify(claim_id, ClaimInput(claim, evidence, tuple(passages)))
            for claim_id, claim, evidence, passages in claims.select(columns).iter_rows()
        ]
        with bar(title, claims.height, "claims") as shown:
            progress = _reported(shown, title, log)
            answered = self._answered(asked, benchmark, progress, most_failed=most_failed)
        same = {
            "benchmark": benchmark,
            "system": system.key,
            "method": system.method,
            "model": system.model.key,
            "protocol": system.protocol,
            "engine": self.engine,
            "prompt_hash": self.task.prompt_hash(self.caller),
            "seed": self.task.seed,
        }
        rows = [same | _row(one, decomposes=self.task.decomposes) for one in answered]
        predictions = PREDICTIONS.conform(pl.DataFrame(rows, PREDICTIONS.schema))
        if calibration is not None:
            known = predictions["confidence_normalised"].fill_null(float("nan")).to_numpy()
            applied = pl.Series("confidence_calibrated", calibration.apply(known)).fill_nan(None)
            predictions = predictions.with_columns(applied)
        calls = [
            {"claim_id": one.claim_id, "call": number, **asdict(call)}
            for one in answered
            for number, call in enumerate(one.calls)
        ]
        return Generated(predictions, CALLS.conform(pl.DataFrame(calls, CALLS.schema)))

    def verify(
        self, claims: Sequence[ClaimToVerify], finished: Callable[[Prediction], None]
    ) -> None:
        """Answer claims with distinct ids that belong to no test set.

        ``finished`` receives each claim's result as soon as it is there, in any order; those
        without a call come last. A claim whose call got no answer has none, and is asked again by
        the next call; the others are stored.

        Raises:
            EngineError: no call can be answered.
        """
        with bar(self.task.system.key, len(claims), "claims") as shown:
            progress = _reported(shown)
            self._answered(claims, VERIFIED, progress, finished, at_once=_AT_ONCE)

    def _answered(
        self,
        claims: Sequence[ClaimToVerify],
        name: str,
        progress: Progress,
        finished: Callable[[Prediction], None] = lambda _: None,
        *,
        most_failed: float = 1.0,
        at_once: int = 0,
    ) -> list[Prediction]:
        """The result of each claim, in order; they are stored in the folder ``name``."""
        task = self.task
        fitted = {one.claim_id: self.guard.fitted(one.question) for one in claims}
        asked = [ClaimToVerify(one, question) for one, (question, _) in fitted.items() if question]
        digests = {  # of everything that a method sees of a claim
            one.claim_id: hashlib.sha256(json.dumps(asdict(one.question)).encode()).hexdigest()
            for one in asked
        }
        # Samples are further traces of the same prompt: their claims are stored apart.
        stored_as = task.system.key + (f" samples={task.samples}" if task.samples else "")
        names = (self.engine, stored_as, task.prompt_hash(self.caller))
        store = PredictionStore(self.folder / SHARDS / name, *names, digests)
        known = len(store.read(list(digests)))

        def noted(one: Prediction) -> Prediction:
            """With a note where the claim was beyond the context."""
            done, ended = fitted[one.claim_id][1], one.verification
            if done is None:
                return one
            return replace(
                one, verification=replace(ended, notes={BEYOND_CONTEXT: done, **ended.notes})
            )

        answered = run_claims(
            task.procedure,
            task.prompt,
            asked,
            self.caller,
            store,
            most_failed=most_failed,
            progress=progress,
            finished=lambda one: finished(noted(one)),
            at_once=at_once,
        )
        every = {one.claim_id: noted(one) for one in answered}
        for claim_id in fitted.keys() - digests.keys():
            every[claim_id] = noted(Prediction(claim_id, _UNASKED, None, ()))
        for claim in (claim for claim in claims if claim.claim_id not in digests):
            finished(every[claim.claim_id])
        self.calls += len(digests) - known
        self.hits += known
        return [every[claim.claim_id] for claim in claims]

    def calibration(self) -> Calibration | None:
        """The system's calibration, None where none was fitted.

        Raises:
            EvaluationError: it is damaged, or was fitted to another model or prompt; says what to
                do.
        """
        system = self.task.system.key
        path = _calibration_file(self.folder, system)
        if not path.is_file():
            return None
        try:
            calibration = Calibration.model_validate_json(path.read_text("utf-8"))
            problem = calibration.misfit(self.engine, self.task.prompt_hash(self.caller))
        except (ValidationError, UnicodeDecodeError):
            problem = "is not a calibration"
        if problem:
            raise EvaluationError(
                f"{path} {problem}; dagster asset materialize -m dagster_project.definitions "
                f"--select 'key:\"{CALIBRATIONS.name}\"' --partition {system}, or remove "
                f"{path.name} to predict without one"
            )
        return calibration


def _reported(shown: Bar, what: str = "", log: Callable[[str], None] = lambda _: None) -> Progress:
    """Moves the bar and logs ``what`` at the end, and at each part where that takes long."""
    said, first = time.monotonic(), True

    def progress(done: int, total: int) -> None:
        nonlocal said, first
        if first:  # what was stored, which says nothing of the rate
            shown.known, first = done, False
        shown.move(done)
        part = total and done * _REPORTS // total != (done - 1) * _REPORTS // total
        if done and (done == total or (part and time.monotonic() - said > _REPORT_EVERY_S)):
            said = time.monotonic()
            log(f"{what}: {done:,} of {total:,} claims")

    return progress


def _calibration_file(data: Path, system: str) -> Path:
    return data / CALIBRATIONS.name / f"{system}.json"


def write_calibration(data: Path, system: str, calibration: Calibration) -> Path:
    """Write it for the system's next predictions, next to its table; returns its path."""
    path, text = _calibration_file(data, system), calibration.model_dump_json(indent=2)
    replace_file(path, lambda aside: aside.write_text(text, "utf-8"))
    return path
