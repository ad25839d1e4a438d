"""A system with its engine: its predictions on test sets, and every call that they took.

A resumed run gives the same frames as a whole one. A confidence is null where the verdict's tokens
have no top log probabilities. Labels are never used.

What is read of a claim beyond the model's context is decided before any call. A claim fits where
the prompt around the evidence, the evidence, what later calls add and the longest reply have room
in the context. A later call that became too long after all ends as wrong when the model refuses it.
"""

import hashlib
import json
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, suppress
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import polars as pl
from pydantic import ValidationError

from decomposerl.baselines.catalogue import ENTRY_METHODS
from decomposerl.baselines.method import ClaimInput, Procedure, Verification, offering
from decomposerl.baselines.minicheck import SUPPORT
from decomposerl.endpoint import Endpoint
from decomposerl.errors import EngineMissing, EvaluationError
from decomposerl.evaluation.calibration import READING, Calibration
from decomposerl.evaluation.scored_claims import (
    BEYOND_CONTEXT,
    DROPPED,
    MOST_WORDS,
    BeyondContext,
)
from decomposerl.evaluation.systems import System
from decomposerl.progress import bar
from decomposerl.prompts.template import PromptFile
from decomposerl.replies.abstention import abstains
from decomposerl.schemas import CALIBRATIONS, CALLS, LABELS, PREDICTIONS, Verdict
from decomposerl.traces.basis import basis_of
from decomposerl.training.evidence_view import best_sentences, evidence_view
from decomposerl.training.experiment import EvidenceView
from resources.evaluation.local_model import context_of
from resources.evaluation.runner import (
    Details,
    MethodCaller,
    Prediction,
    PredictionStore,
    run_claims,
    scored,
)
from resources.hub.locks import MAIN
from resources.store.temporary import replace_file
from resources.tokens.model_tokens import ModelTokens, tokenizer_file
from resources.tokens.word_tokens import CautiousTokens

SHARDS = "prediction_shards"
VERIFIED = "verify"
"""The folder of shards of claims that belong to no test set."""
_AT_ONCE = 16  # claims in progress in this process: more would delay the first result
_LOG_EVERY_S = 30.0  # a message is an event in Dagster's storage, which costs more than a claim
_MARGIN = 512  # the chat template, the line of a repeated call, tokens at the joints of texts
_CLAIMS = 3  # times that a prompt may repeat the claim or parts of it
_NUMBER = 6  # tokens of a passage's number and line break
_UNASKED = "not asked: its evidence is beyond the model's context"
METHODS = {method.name: method for method in ENTRY_METHODS}


@dataclass(frozen=True)
class ContextGuard:
    """A rule for claims that do not fit the context of a ``model``, where that is known.

    ``room`` is for the longest reply, and for what later calls of a claim add to the prompt. Where
    a policy reads a ``view`` of the evidence, the view has to fit. Tokens are those of the model
    where its tokenizer is on this machine, else a cautious estimate.
    """

    rule: BeyondContext = "best_sentences"
    model: Endpoint = field(default_factory=Endpoint)
    file: PromptFile | None = None
    room: int = 0
    view: EvidenceView | None = None

    def fitted(self, question: ClaimInput) -> tuple[ClaimInput | None, BeyondContext | None]:
        """The question to ask, None for no call, and what was done; the same where it fits."""
        claim, evidence = question.claim, question.evidence
        if self.rule == DROPPED and len(evidence.split()) > MOST_WORDS:
            return None, DROPPED
        context, shows_passages, count, fixed = self._known
        if not context:
            return question, None
        if self.view is not None:
            evidence = evidence_view(claim, evidence, self.view)
        numbered = question.passages if shows_passages else ()
        texts, numbers = [claim, evidence, "\n".join(numbered)], _NUMBER * len(numbered)
        # A token has at least one byte, so most claims need not be counted.
        said, *shown = (len(text.encode()) for text in texts)
        if fixed + _CLAIMS * said + max(shown) + numbers > context:
            said, *shown = map(int, count(texts))
        left = context - fixed - _CLAIMS * said
        if max(shown) + numbers <= left:
            return question, None

        def cost(lines: Sequence[str]) -> list[int]:
            return [int(tokens) + (_NUMBER if numbered else 1) for tokens in count(lines)]

        read = self.rule == "best_sentences"
        lines = tuple(best_sentences(claim, evidence, left, cost)) if read else ()
        if not lines:
            return None, "wrong"
        passages = lines if question.passages else ()
        return ClaimInput(claim, "\n".join(lines), passages), "best_sentences"

    @cached_property
    def _known(self) -> tuple[int, bool, Callable[[Sequence[str]], Iterable[int]], int]:
        """Its context, whether prompts number passages, what counts tokens, all other tokens."""
        count, model = CautiousTokens().count, self.model
        if not (context := context_of(model)):
            return 0, False, count, 0
        with suppress(EngineMissing):
            if model.model and tokenizer_file(model.model, model.revision or MAIN) is not None:
                count = ModelTokens(model.model, model.revision or MAIN).count
        sections = [] if self.file is None else list(self.file.sections.values())
        longest = max(map(int, count(sections)), default=0)
        thought = 0 if model.place == "in_process" else model.thought_tokens
        shows_passages = any("{passages}" in section for section in sections)
        return context, shows_passages, count, longest + self.room + thought + _MARGIN


@dataclass
class OpenedSystem:
    """A system ready to predict test sets; what is stored below ``folder`` is reused.

    ``prompt`` names the prompt file of its ``procedure``, ``revision`` is the number of their code,
    ``settings`` other settings that decide its answers, as JSON, ``seed`` that of sampling.
    ``decomposes``: its cycles are kept as a trace. ``calls`` counts claims that were predicted,
    ``hits`` claims that were stored already; others were not asked at all.
    """

    system: System
    procedure: Procedure
    prompt: str
    caller: MethodCaller
    folder: Path
    guard: ContextGuard = field(default_factory=ContextGuard)
    seed: int = 42
    decomposes: bool = True
    settings: str = "{}"
    revision: int = 1
    calls: int = field(default=0, init=False)
    hits: int = field(default=0, init=False)

    @property
    def engine(self) -> str:
        """Name of the program and model that answer."""
        return self.caller.engine

    def details(self) -> Details:
        """What its engine records of a run."""
        return self.caller.details()

    @property
    def prompt_hash(self) -> str:
        """64 hex digits of SHA-256 over the prompt files, the code's revisions and all settings."""
        files, protocol = self.caller.prompt_hash(self.prompt), self.system.protocol
        parts = [files, protocol, self.revision, self.settings, self.seed, READING]
        return hashlib.sha256(json.dumps(parts).encode()).hexdigest()

    def predict(
        self,
        benchmark: str,
        claims: pl.DataFrame,
        most_failed: float,
        log: Callable[[str], None],
        *,
        calibrated: bool = True,
    ) -> tuple[pl.DataFrame, pl.DataFrame]:
        """``PREDICTIONS`` and ``CALLS`` of ``claims`` (``BENCHMARK_CLAIMS``), in their order.

        ``log`` receives progress messages. ``calibrated``: apply the system's calibration, if one
        was fitted; ``EvaluationError`` where it was fitted to another model or prompt.
        ``EngineError``: too many claims failed, or no call can be answered; others are kept.
        """
        # A wrong calibration is refused before any call is paid.
        calibration = self.calibration() if calibrated else None
        columns = claims.select("claim_id", "claim", "evidence", "passages")
        asked = {
            claim_id: ClaimInput(claim, evidence, tuple(passages))
            for claim_id, claim, evidence, passages in columns.iter_rows()
        }
        results = self.results(asked, benchmark, log=log, most_failed=most_failed, at_once=0)
        by_claim = {result.claim_id: result for result in results}
        answered, system = [by_claim[claim_id] for claim_id in asked], self.system
        same = {
            "benchmark": benchmark,
            "system": system.key,
            "method": system.method,
            "model": system.model.key,
            "protocol": system.protocol,
            "engine": self.engine,
            "prompt_hash": self.prompt_hash,
            "seed": self.seed,
        }
        rows = [same | _row(result, decomposes=self.decomposes) for result in answered]
        predictions = PREDICTIONS.conform(pl.DataFrame(rows, PREDICTIONS.schema))
        if calibration is not None:
            known = predictions["confidence_normalised"].fill_null(float("nan")).to_numpy()
            applied = pl.Series("confidence_calibrated", calibration.apply(known)).fill_nan(None)
            predictions = predictions.with_columns(applied)
        calls = [
            {"claim_id": result.claim_id, "call": number, **call}
            for result in answered
            for number, call in enumerate(result.calls)
        ]
        return predictions, CALLS.conform(pl.DataFrame(calls, CALLS.schema))

    def results(
        self,
        claims: Mapping[str, ClaimInput],
        name: str = VERIFIED,
        *,
        log: Callable[[str], None] = lambda _: None,
        most_failed: float = 1.0,
        at_once: int = _AT_ONCE,
    ) -> Iterator[Prediction]:
        """Each claim's result as soon as it is there, in any order; those without a call come last.

        ``claims`` are by id; their results are stored in the folder ``name``. A claim whose call
        got no answer has none, and is asked again by the next call. ``log``, ``most_failed`` and
        ``at_once`` are as for ``predict`` and ``run_claims``; ``EngineError`` as for these.
        """
        fitted = {claim_id: self.guard.fitted(claim) for claim_id, claim in claims.items()}
        asked = {claim_id: claim for claim_id, (claim, _) in fitted.items() if claim}
        digests = {  # of everything that a method sees of a claim
            claim_id: hashlib.sha256(json.dumps(asdict(claim)).encode()).hexdigest()
            for claim_id, claim in asked.items()
        }
        names = (self.engine, self.system.key, self.prompt_hash)
        run = run_claims(
            self.procedure,
            self.prompt,
            asked,
            self.caller,
            PredictionStore(self.folder / SHARDS / name, *names, digests),
            most_failed=most_failed,
            at_once=at_once,
        )
        title, logged = f"{self.system.key}, {name}", time.monotonic()
        with bar(title, len(claims), "claims") as shown, closing(run) as answered:
            for count, result in enumerate(answered, 1):
                self.calls, self.hits = self.calls + (not result.stored), self.hits + result.stored
                shown.known += result.stored  # which say nothing of the rate
                shown.advance()
                if count == len(asked) or time.monotonic() - logged > _LOG_EVERY_S:
                    logged = time.monotonic()
                    log(f"{title}: {count:,} of {len(asked):,} claims")
                yield _noted(result, fitted[result.claim_id][1])
        unasked = Verification(None, "unparsed", _UNASKED)
        for claim_id in (claim_id for claim_id in fitted if claim_id not in asked):
            yield _noted(Prediction(claim_id, unasked, None, ()), fitted[claim_id][1])

    def calibration(self) -> Calibration | None:
        """The system's calibration, None where none was fitted.

        ``EvaluationError``: it is damaged, or of another model or prompt; says what to do.
        """
        path = _calibration_file(self.folder, self.system.key)
        if not path.is_file():
            return None
        try:
            calibration = Calibration.model_validate_json(path.read_text("utf-8"))
            problem = calibration.misfit(self.engine, self.prompt_hash)
        except (ValidationError, UnicodeDecodeError):
            problem = "is no calibration by temperature"
        if problem:
            raise EvaluationError(
                f"{path} {problem}; dagster asset materialize -m dagster_project.definitions "
                f"--select 'key:\"{CALIBRATIONS.name}\"' --partition {self.system.key}, or remove "
                f"{path.name} to predict without one"
            )
        return calibration


def opened_method(
    system: System,
    caller: MethodCaller,
    folder: Path,
    guard: ContextGuard = ContextGuard(),
    seed: int = 42,
    labels: tuple[Verdict, ...] = LABELS,
) -> OpenedSystem:
    """A system of a published method; a chat model's prompts offer ``labels``."""
    method = METHODS[system.method]
    # A verifier has neither procedures nor a prompt file.
    procedures = {str(name): procedure for name, procedure in method.procedures.items()}
    return OpenedSystem(
        system,
        offering(labels, procedures[system.protocol]) if procedures else scored,
        method.prompt or method.name,
        caller,
        folder,
        guard,
        seed,
        method.decomposes,
        revision=method.revision,
    )


def _noted(one: Prediction, done: BeyondContext | None) -> Prediction:
    """With a note of what was done where the claim was beyond the context."""
    notes = {} if done is None else {BEYOND_CONTEXT: done}
    noted = replace(one.verification, notes={**notes, **one.verification.notes})
    return replace(one, verification=noted)


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
        "questions": len(verification.cycles),
        "abstentions": sum(abstains(cycle.answer) for cycle in verification.cycles),
        "basis": basis_of(cycle.answer for cycle in verification.cycles) if decomposes else None,
        "calls": len(one.calls),
        "trace": trace if decomposes else None,
        "notes": json.dumps(dict(verification.notes), sort_keys=True),
        "reply": verification.reply,
    }


def _calibration_file(data: Path, system: str) -> Path:
    return data / CALIBRATIONS.name / f"{system}.json"


def write_calibration(data: Path, system: str, calibration: Calibration) -> Path:
    """Write it for the system's next predictions, next to its table; returns its path."""
    path, text = _calibration_file(data, system), calibration.model_dump_json(indent=2)
    replace_file(path, lambda aside: aside.write_text(text, "utf-8"))
    return path
