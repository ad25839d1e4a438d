"""Runs many claims through one method, and stores what they gave.

Concurrent, resumable, stopped when too many claims fail. Finished claims are stored as they end, so
a killed run loses only the claims in progress; claims that failed or were too long for the model
are not stored, so the next run asks again. Retries and request limits are those of the caller.
"""

import json
import threading
import time
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import closing
from dataclasses import asdict, dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any

from decomposerl.baselines.method import (
    CallFailedError,
    ClaimInput,
    ModelCall,
    Procedure,
    Steps,
    Verification,
)
from decomposerl.errors import EngineError
from decomposerl.evaluation.calibration import Confidence, read_confidence
from decomposerl.evaluation.scored_claims import BEYOND_CONTEXT
from decomposerl.traces.trace import Cycle
from resources.evaluation.caller import TOO_LONG, MethodCaller, Reply
from resources.store.result_store import ResultStore, key_of, slug


@dataclass(frozen=True, slots=True)
class CallRecord:
    """One call of a claim: the columns of ``CALLS`` but for the claim and the number."""

    operation: str
    template: str
    prompt_tokens: int
    completion_tokens: int
    latency_s: float
    cached: bool
    dollars: float | None
    failure: str | None


def record_of(call: ModelCall, reply: Reply) -> CallRecord:
    """The record of a call and its reply."""
    return CallRecord(
        call.operation,
        call.template,
        reply.prompt_tokens,
        reply.completion_tokens,
        reply.latency_s,
        reply.cached,
        reply.dollars,
        reply.answer.failure or None,
    )


@dataclass(frozen=True, slots=True)
class Prediction:
    """The result for one claim. ``confidence`` is None where it cannot be read."""

    claim_id: str
    verification: Verification
    confidence: Confidence | None
    calls: tuple[CallRecord, ...]

    @property
    def failed(self) -> bool:
        """Whether a call got no answer."""
        return self.verification.status == "failed"

    @property
    def kept(self) -> bool:
        """Whether it is stored: not where a call failed, or was too long for the model."""
        return not self.failed and BEYOND_CONTEXT not in self.verification.notes


def finish(claim_id: str, verification: Verification, calls: Sequence[CallRecord]) -> Prediction:
    """A prediction, with confidence where the tokens spell the verdict that was read."""
    spoken = verification.spoken
    confidence = read_confidence(spoken.tokens) if spoken is not None and spoken.tokens else None
    if confidence is not None and confidence.verdict != verification.verdict:
        confidence = None
    return Prediction(claim_id, verification, confidence, tuple(calls))


class PredictionStore:
    """The predictions of one engine, system and prompt."""

    def __init__(
        self,
        folder: Path,
        engine: str,
        system: str,
        prompt_hash: str,
        digests: Mapping[str, str] | None = None,
    ) -> None:
        """Stores of other engines, systems and prompts may share the folder.

        ``digests``: what the system reads about a claim, by claim id.
        """
        name = f"{engine} {system} {prompt_hash}"
        self._store = ResultStore(folder / slug(name), name)
        self._system, self._prompt_hash, self._digests = system, prompt_hash, digests or {}

    def read(self, claim_ids: Sequence[str]) -> dict[str, Prediction]:
        """The stored predictions of these claims, by claim id."""
        keys = {self._key(claim_id): row for row, claim_id in enumerate(claim_ids)}
        predictions: dict[str, Prediction] = {}
        for positions, values in self._store.read(keys):
            for position, value in zip(positions, values.to_pylist(), strict=True):
                predictions[claim_ids[position]] = _from_plain(json.loads(value))
        return predictions

    def add(self, predictions: Sequence[Prediction]) -> None:
        """Store predictions as one shard; those that are not ``kept`` are left out."""
        import pyarrow as pa

        kept = [one for one in predictions if one.kept]
        texts = [json.dumps(_plain(one), ensure_ascii=True) for one in kept]
        keys = [self._key(one.claim_id) for one in kept]
        self._store.write(keys, pa.array(texts, pa.large_string()))

    def compact(self) -> None:
        """Merge small shards where there are many."""
        self._store.compact()

    def _key(self, claim_id: str) -> str:
        digest = self._digests.get(claim_id, "")
        return key_of(claim_id, digest, self._system, self._prompt_hash)


def _plain(prediction: Prediction) -> dict[str, Any]:
    verification = prediction.verification
    return {
        "claim_id": prediction.claim_id,
        "verdict": verification.verdict,
        "status": verification.status,
        "reply": verification.reply,
        "opening": verification.opening,
        "cycles": [asdict(cycle) for cycle in verification.cycles],
        "notes": dict(verification.notes),
        "confidence": None if prediction.confidence is None else asdict(prediction.confidence),
        "calls": [asdict(call) for call in prediction.calls],
    }


def _from_plain(plain: Mapping[str, Any]) -> Prediction:
    confidence = plain["confidence"]
    return Prediction(
        plain["claim_id"],
        Verification(
            verdict=plain["verdict"],
            status=plain["status"],
            reply=plain["reply"],
            opening=plain["opening"],
            cycles=tuple(Cycle(**cycle) for cycle in plain["cycles"]),
            notes=plain["notes"],
        ),
        None if confidence is None else Confidence(**confidence),
        tuple(CallRecord(**call) for call in plain["calls"]),
    )


Progress = Callable[[int, int], None]
"""Called with the number of finished claims and the number of all claims."""
Finished = Callable[[Prediction], None]
"""Called with each claim's result as soon as it is there, stored ones first."""
_STORE_ROWS, _STORE_S = 64, 5.0
"""Finished claims are stored when there are this many, or when the next one finishes after this
many seconds."""


@dataclass(frozen=True, slots=True)
class ClaimToVerify:
    """A claim with the question that a method answers about it."""

    claim_id: str
    question: ClaimInput


@dataclass(frozen=True, slots=True)
class FailureLimit:
    """Share of claims, 0..1, that may end as ``failed`` before the run is stopped."""

    most_failed: float = 0.02


def run_claims(  # noqa: PLR0913 - what to run, on what, how and where it is stored
    procedure: Procedure,
    prompt: str,
    claims: Sequence[ClaimToVerify],
    caller: MethodCaller,
    store: PredictionStore,
    *,
    limits: FailureLimit | None = None,
    progress: Progress | None = None,
    finished: Finished | None = None,
    at_once: int = 0,
) -> list[Prediction]:
    """The result of each claim, in order; claims in ``store`` cost no call.

    ``at_once`` claims are in progress at most, where the caller batches them; 0: as many as it
    takes. Fewer give the first result sooner.

    Raises:
        EngineError: more claims failed than the limit allows, or the caller reports that no claim
            can be answered; finished claims are stored.
    """
    results = _Results(claims, store, limits or FailureLimit(), progress, finished)
    rest = [claim for claim in claims if claim.claim_id not in results.done]
    if caller.concurrent:
        ended = _concurrently(procedure, prompt, rest, caller)
    else:
        most = min(caller.claims_at_once, at_once or caller.claims_at_once)
        ended = _together(procedure, prompt, rest, caller, most)
    try:
        with closing(ended):
            for one in ended:
                results.add(one)
    finally:
        results.flush()
    store.compact()
    return [results.done[claim.claim_id] for claim in claims]


class _Results:
    """Finished claims: stored in shards, counted, and checked against the limit."""

    def __init__(
        self,
        claims: Sequence[ClaimToVerify],
        store: PredictionStore,
        limits: FailureLimit,
        progress: Progress | None,
        finished: Finished | None,
    ) -> None:
        self._store, self._limits, self._progress = store, limits, progress
        self._finished = finished or (lambda _: None)
        self._total, self._failed = len(claims), 0
        self._waiting: list[Prediction] = []
        self._since = time.monotonic()
        self.done = store.read([claim.claim_id for claim in claims])
        for one in self.done.values():
            self._finished(one)
        self._report()

    def add(self, one: Prediction) -> None:
        """Take another finished claim."""
        self.done[one.claim_id] = one
        self._waiting.append(one)
        if len(self._waiting) >= _STORE_ROWS or time.monotonic() - self._since > _STORE_S:
            self.flush()
        self._finished(one)
        self._report()
        self._failed += one.failed
        if self._failed > self._limits.most_failed * self._total:
            raise EngineError(
                f"{self._failed:,} of {self._total:,} claims failed, more than the share of "
                f"{self._limits.most_failed:g} that is allowed; the last one: "
                f"{one.verification.reply}. Finished claims are kept; the next run continues with "
                "the rest"
            )

    def flush(self) -> None:
        """Write the claims that are not stored yet."""
        waiting, self._waiting, self._since = self._waiting, [], time.monotonic()
        self._store.add(waiting)

    def _report(self) -> None:
        if self._progress is not None:
            self._progress(len(self.done), self._total)


@dataclass(slots=True)
class _ClaimInProgress:
    """A claim in progress: its generator, the calls it waits for, and its calls so far."""

    claim: ClaimToVerify
    steps: Steps
    pending: tuple[ModelCall, ...] = ()
    records: list[CallRecord] = field(default_factory=list)
    finished: Prediction | None = None

    def start(self) -> None:
        """Run up to the first calls."""
        self._advance(lambda: next(self.steps))

    def resume(self, replies: Sequence[Reply]) -> None:
        """Pass in the replies to ``pending`` and run up to the next calls, or to the end."""
        pairs = zip(self.pending, replies, strict=True)
        self.records += [record_of(call, reply) for call, reply in pairs]
        answers = tuple(reply.answer for reply in replies)
        self._advance(lambda: self.steps.send(answers))

    def _advance(self, step: Callable[[], tuple[ModelCall, ...]]) -> None:
        try:
            self.pending = step()
        except StopIteration as end:
            self._finish(end.value)
        except CallFailedError as failure:
            self._finish(_unanswered(str(failure)))

    def _finish(self, verification: Verification) -> None:
        self.pending = ()
        self.finished = finish(self.claim.claim_id, verification, self.records)


def _unanswered(failure: str) -> Verification:
    """The end of a claim with a call that got no reply; one that was too long has no verdict."""
    if failure.startswith(TOO_LONG):
        return Verification(None, "unparsed", failure, notes={BEYOND_CONTEXT: "wrong"})
    return Verification(None, "failed", failure)


def _started(claim: ClaimToVerify, procedure: Procedure) -> _ClaimInProgress:
    started = _ClaimInProgress(claim, procedure(claim.question))
    started.start()
    return started


def _concurrently(
    procedure: Procedure, prompt: str, claims: Sequence[ClaimToVerify], caller: MethodCaller
) -> Generator[Prediction, None, None]:
    """One thread per claim in progress."""
    stopped = threading.Event()

    def verified(claim: ClaimToVerify) -> Prediction:
        running = _started(claim, procedure)
        while running.finished is None:
            if stopped.is_set():  # the run failed: make no further call
                raise EngineError("the run ended early")
            running.resume(caller.answer(prompt, running.pending))
        return running.finished

    pool = ThreadPoolExecutor(caller.claims_at_once, thread_name_prefix="claims")
    rest = iter(claims)
    running: set[Future[Prediction]] = set()
    try:
        while True:
            # No waves: the next claim starts as soon as one ends.
            for claim in islice(rest, caller.claims_at_once - len(running)):
                running.add(pool.submit(verified, claim))
            if not running:
                return
            ended, running = wait(running, return_when=FIRST_COMPLETED)
            yield from _results(ended)
    except (Exception, GeneratorExit):
        stopped.set()
        pool.shutdown(cancel_futures=True)
        raise
    finally:
        # An interrupt does not wait for calls, nor for a server that is starting: what closes the
        # caller ends both.
        stopped.set()
        pool.shutdown(wait=False, cancel_futures=True)


def _results(ended: set[Future[Prediction]]) -> Iterator[Prediction]:
    """The finished claims, then the first error: claims that ended with it are not lost."""
    errors = [future.exception() for future in ended]
    yield from (future.result() for future in ended if future.exception() is None)
    for error in errors:
        if error is not None:
            raise error


def _together(
    procedure: Procedure,
    prompt: str,
    claims: Sequence[ClaimToVerify],
    caller: MethodCaller,
    at_once: int,
) -> Generator[Prediction, None, None]:
    """The calls of all claims in progress in one batch; as one ends the next takes its place."""
    rest = iter(claims)
    running: list[_ClaimInProgress] = []
    while True:
        free = at_once - len(running)
        running += [_started(claim, procedure) for claim in islice(rest, free)]
        if not running:
            return
        calls = [call for claim in running for call in claim.pending]
        replies = iter(caller.answer(prompt, calls) if calls else [])
        for claim in running:
            if claim.finished is None:
                claim.resume(list(islice(replies, len(claim.pending))))
        yield from (claim.finished for claim in running if claim.finished is not None)
        running = [claim for claim in running if claim.finished is None]
