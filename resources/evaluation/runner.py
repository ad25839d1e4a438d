"""Many claims through one method at once: asked, resumed, stored, and stopped where too many fail.

Takes a method's procedure, a caller and claims, gives what came of each claim, in order. Claims
that the shelf holds are not asked again; the others are stored as they end, so that a killed
run loses those in progress and nothing else. There are no waves: as soon as a claim ends the
next one takes its place, and no claim waits for another one's last answer.

Left out deliberately: retries and limits of requests (``resources.chat``), and the tables
(``resources.evaluation.generation``).
"""

import threading
import time
from collections.abc import Callable, Generator, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import closing
from dataclasses import dataclass, field

from decomposerl.baselines.method import (
    Call,
    CallFailedError,
    Procedure,
    Question,
    Steps,
    Verification,
)
from decomposerl.errors import EngineError
from resources.evaluation.caller import MethodCaller, Reply
from resources.evaluation.prediction_store import (
    CallRecord,
    Prediction,
    PredictionStore,
    finish,
    record_of,
)

Progress = Callable[[int, int], None]
"""Told how many claims are done, and how many there are."""
_STORE_ROWS, _STORE_S = 64, 5.0
"""Claims that are stored together at most; seconds after which those that ended are stored with
the next one that ends."""


@dataclass(frozen=True, slots=True)
class Case:
    """A claim to be verified."""

    claim_id: str
    question: Question


@dataclass(frozen=True, slots=True)
class Limits:
    """When a run is not worth finishing: share of claims, 0..1, that may end as ``failed``."""

    most_failed: float = 0.02


def run_claims(  # noqa: PLR0913 - each is one thing that a run is told
    procedure: Procedure,
    prompt: str,
    cases: Sequence[Case],
    caller: MethodCaller,
    shelf: PredictionStore,
    *,
    limits: Limits | None = None,
    progress: Progress | None = None,
) -> list[Prediction]:
    """What came of each case, in order; what the shelf holds is asked no more.

    Raises:
        EngineError: more claims failed than the limit allows, or the caller says that no
            claim can be answered; what ended before is stored.
    """
    book = _Book(cases, shelf, limits or Limits(), progress)
    rest = [case for case in cases if case.claim_id not in book.done]
    drive = _concurrently if caller.concurrent else _together
    try:
        with closing(drive(procedure, prompt, rest, caller)) as ended:
            for one in ended:
                book.note(one)
    finally:
        book.store()
    shelf.compact()
    return [book.done[case.claim_id] for case in cases]


class _Book:
    """What ended so far: stored in shards, counted, and held against the limit."""

    def __init__(
        self,
        cases: Sequence[Case],
        shelf: PredictionStore,
        limits: Limits,
        progress: Progress | None,
    ) -> None:
        self._shelf, self._limits, self._progress = shelf, limits, progress
        self._total, self._failed = len(cases), 0
        self._waiting: list[Prediction] = []
        self._since = time.monotonic()
        self.done = shelf.read([case.claim_id for case in cases])
        self._tell()

    def note(self, one: Prediction) -> None:
        """One more claim ended."""
        self.done[one.claim_id] = one
        self._waiting.append(one)
        if len(self._waiting) >= _STORE_ROWS or time.monotonic() - self._since > _STORE_S:
            self.store()
        self._tell()
        self._failed += one.failed
        if self._failed > self._limits.most_failed * self._total:
            raise EngineError(
                f"{self._failed:,} of {self._total:,} claims failed, more than the share of "
                f"{self._limits.most_failed:g} that is allowed; the last one: "
                f"{one.verification.reply}. What was answered is kept, and the next run asks for "
                "the rest alone"
            )

    def store(self) -> None:
        """Write what waits."""
        waiting, self._waiting, self._since = self._waiting, [], time.monotonic()
        self._shelf.add(waiting)

    def _tell(self) -> None:
        if self._progress is not None:
            self._progress(len(self.done), self._total)


@dataclass(slots=True)
class _Claim:
    """A claim in progress: its generator, what it waits for, and what it asked so far."""

    case: Case
    steps: Steps
    wants: tuple[Call, ...] = ()
    records: list[CallRecord] = field(default_factory=list)
    finished: Prediction | None = None

    def begin(self) -> None:
        """Run up to the first calls."""
        self._go(lambda: next(self.steps))

    def hand(self, replies: Sequence[Reply]) -> None:
        """Hand in the answers to ``wants`` and run up to the next calls, or to the end."""
        pairs = zip(self.wants, replies, strict=True)
        self.records += [record_of(call, reply) for call, reply in pairs]
        answers = tuple(reply.answer for reply in replies)
        self._go(lambda: self.steps.send(answers))

    def _go(self, on: Callable[[], tuple[Call, ...]]) -> None:
        try:
            self.wants = on()
        except StopIteration as end:
            self._end(end.value)
        except CallFailedError as failure:
            self._end(Verification(None, "failed", str(failure)))

    def _end(self, found: Verification) -> None:
        self.wants = ()
        self.finished = finish(self.case.claim_id, found, self.records)


def _begun(case: Case, procedure: Procedure) -> _Claim:
    claim = _Claim(case, procedure(case.question))
    claim.begin()
    return claim


def _concurrently(
    procedure: Procedure, prompt: str, cases: Sequence[Case], caller: MethodCaller
) -> Generator[Prediction, None, None]:
    """A thread a claim in progress; each asks for its own claim alone.

    Where the run ends early, a claim in progress asks no further.
    """
    stopped = threading.Event()

    def verified(case: Case) -> Prediction:
        claim = _begun(case, procedure)
        while claim.finished is None:
            if stopped.is_set():
                raise EngineError("the run ended early")
            claim.hand(caller.answer(prompt, claim.wants))
        return claim.finished

    pool = ThreadPoolExecutor(caller.claims_at_once, thread_name_prefix="claims")
    rest = iter(cases)
    running: set[Future[Prediction]] = set()
    try:
        while True:
            for case in _next(rest, caller.claims_at_once - len(running)):
                running.add(pool.submit(verified, case))
            if not running:
                return
            ended, running = wait(running, return_when=FIRST_COMPLETED)
            yield from _results(ended)
    finally:
        stopped.set()
        pool.shutdown(cancel_futures=True)


def _results(ended: set[Future[Prediction]]) -> Iterator[Prediction]:
    """What ended well, then the first error, so that it costs no claim beside it."""
    errors = [future.exception() for future in ended]
    yield from (future.result() for future in ended if future.exception() is None)
    for error in errors:
        if error is not None:
            raise error


def _together(
    procedure: Procedure, prompt: str, cases: Sequence[Case], caller: MethodCaller
) -> Generator[Prediction, None, None]:
    """All claims in progress ask in one batch; as each ends the next one takes its place."""
    rest = iter(cases)
    running: list[_Claim] = []
    while True:
        free = caller.claims_at_once - len(running)
        running += [_begun(case, procedure) for case in _next(rest, free)]
        if not running:
            return
        wants = [call for claim in running for call in claim.wants]
        replies = iter(caller.answer(prompt, wants) if wants else [])
        for claim in running:
            if claim.finished is None:
                claim.hand([next(replies) for _ in claim.wants])
        yield from (claim.finished for claim in running if claim.finished is not None)
        running = [claim for claim in running if claim.finished is None]


def _next(cases: Iterator[Case], count: int) -> Iterator[Case]:
    """Up to ``count`` further cases; takes none that it does not give."""
    for _ in range(count):
        case = next(cases, None)
        if case is None:
            return
        yield case
