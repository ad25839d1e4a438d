"""Runs many claims through one method: concurrent, resumable, stopped when too many fail.

Finished claims are stored as they end, so a killed run loses only the claims in progress. Retries
and request limits are those of the caller.
"""

import threading
import time
from collections.abc import Callable, Generator, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import closing
from dataclasses import dataclass, field
from itertools import islice

from decomposerl.baselines.method import (
    CallFailedError,
    ClaimInput,
    ModelCall,
    Procedure,
    Steps,
    Verification,
)
from decomposerl.errors import EngineError
from decomposerl.evaluation.scored_claims import BEYOND_CONTEXT
from resources.evaluation.caller import TOO_LONG, MethodCaller, Reply
from resources.evaluation.prediction_store import (
    CallRecord,
    Prediction,
    PredictionStore,
    finish,
    record_of,
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
