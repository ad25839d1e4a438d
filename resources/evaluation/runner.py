"""Runs many claims through one method, and stores what they gave.

Concurrent, resumable, stopped when too many claims fail. Finished claims are stored as they end, so
a killed run loses only the claims in progress; claims that failed or were too long for the model
are not stored, so the next run asks again. Retries and request limits are those of the caller.
"""

import json
import threading
import time
from collections.abc import Callable, Generator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import closing
from dataclasses import asdict, dataclass
from itertools import islice
from pathlib import Path

from decomposerl.baselines.method import (
    CallFailedError,
    ClaimInput,
    ModelCall,
    Procedure,
    Verification,
)
from decomposerl.errors import EngineError
from decomposerl.evaluation.calibration import Confidence, read_confidence
from decomposerl.evaluation.scored_claims import BEYOND_CONTEXT
from decomposerl.traces.trace import Cycle
from resources.evaluation.caller import TOO_LONG, MethodCaller, Reply
from resources.store.result_store import ResultStore, key_of, slug

Progress = Callable[[int, int], None]
"""Called with the number of finished claims and the number of all claims."""
_STORE_ROWS, _STORE_S = 64, 5.0
"""Finished claims are stored when there are this many, or when the next one finishes after this
many seconds."""
_USED = ("prompt_tokens", "completion_tokens", "latency_s", "cached", "dollars")
_STORED = ("verdict", "status", "reply", "opening", "cycles")


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

    def as_json(self) -> str:
        """As it is stored; the reply that spells the verdict is read before, and left out."""
        ended = self.verification
        plain = {"claim_id": self.claim_id, **{name: getattr(ended, name) for name in _STORED}}
        plain |= {"notes": dict(ended.notes), "confidence": self.confidence, "calls": self.calls}
        return json.dumps(plain, ensure_ascii=True, default=asdict)

    @classmethod
    def from_json(cls, text: str) -> "Prediction":
        """What was stored."""
        plain = json.loads(text)
        plain["cycles"] = tuple(Cycle(**cycle) for cycle in plain["cycles"])
        claim_id, confidence, calls = (plain.pop(n) for n in ("claim_id", "confidence", "calls"))
        known = None if confidence is None else Confidence(**confidence)
        records = tuple(CallRecord(**call) for call in calls)
        return cls(claim_id, Verification(**plain), known, records)


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
        return {
            claim_ids[position]: Prediction.from_json(value)
            for positions, values in self._store.read(keys)
            for position, value in zip(positions, values.to_pylist(), strict=True)
        }

    def add(self, predictions: Sequence[Prediction]) -> None:
        """Store predictions as one shard; those that are not ``kept`` are left out."""
        import pyarrow as pa

        kept = [one for one in predictions if one.kept]
        texts = pa.array([one.as_json() for one in kept], pa.large_string())
        self._store.write([self._key(one.claim_id) for one in kept], texts)

    def compact(self) -> None:
        """Merge small shards where there are many."""
        self._store.compact()

    def _key(self, claim_id: str) -> str:
        digest = self._digests.get(claim_id, "")
        return key_of(claim_id, digest, self._system, self._prompt_hash)


@dataclass(frozen=True, slots=True)
class ClaimToVerify:
    """A claim with the question that a method answers about it."""

    claim_id: str
    question: ClaimInput


def run_claims(  # noqa: PLR0913 - what to run, on what, how and where it is stored
    procedure: Procedure,
    prompt: str,
    claims: Sequence[ClaimToVerify],
    caller: MethodCaller,
    store: PredictionStore,
    *,
    most_failed: float = 0.02,
    progress: Progress = lambda done, total: None,  # noqa: ARG005 - of those who do not look
    finished: Callable[[Prediction], None] = lambda _: None,
    at_once: int = 0,
) -> list[Prediction]:
    """The result of each claim, in order; claims in ``store`` cost no call.

    ``prompt`` names the prompt file. ``most_failed`` is the share of claims, 0..1, that may fail
    before the run is stopped. ``finished`` receives each claim's result as soon as it is there,
    stored ones first. ``at_once`` claims are in progress at most, where the caller batches them; 0:
    as many as it takes. Fewer give the first result sooner.

    Raises:
        EngineError: more claims failed than the limit allows, or the caller reports that no claim
            can be answered; finished claims are stored.
    """
    done = store.read([claim.claim_id for claim in claims])
    for one in done.values():
        finished(one)
    progress(len(done), len(claims))
    waiting, since, failed = list[Prediction](), time.monotonic(), 0
    rest = [claim for claim in claims if claim.claim_id not in done]
    if caller.concurrent:
        ended = _concurrently(procedure, prompt, rest, caller)
    else:
        most = min(caller.claims_at_once, at_once or caller.claims_at_once)
        ended = _together(procedure, prompt, rest, caller, most)
    try:
        with closing(ended) as results:
            for one in results:
                done[one.claim_id] = one
                waiting.append(one)
                if len(waiting) >= _STORE_ROWS or time.monotonic() - since > _STORE_S:
                    ready, waiting, since = waiting, [], time.monotonic()
                    store.add(ready)
                finished(one)
                progress(len(done), len(claims))
                failed += one.failed
                if failed > most_failed * len(claims):
                    raise EngineError(
                        f"{failed:,} of {len(claims):,} claims failed, more than the share of "
                        f"{most_failed:g} that is allowed; the last one: {one.verification.reply}. "
                        "Finished claims are kept; the next run continues with the rest"
                    )
    finally:
        store.add(waiting)
    store.compact()
    return [done[claim.claim_id] for claim in claims]


class _ClaimInProgress:
    """A claim in progress: its generator, the calls it waits for, and its calls so far."""

    def __init__(self, claim: ClaimToVerify, procedure: Procedure) -> None:
        self._claim_id, self._steps = claim.claim_id, procedure(claim.question)
        self._records: list[CallRecord] = []
        self.pending: tuple[ModelCall, ...] = ()
        self.finished: Prediction | None = None
        self._advance(lambda: next(self._steps))

    def resume(self, replies: Sequence[Reply]) -> None:
        """Pass in the replies to ``pending`` and run up to the next calls, or to the end."""
        for call, reply in zip(self.pending, replies, strict=True):
            used = {name: getattr(reply, name) for name in _USED}
            failure = reply.answer.failure or None
            record = CallRecord(call.operation, call.template, **used, failure=failure)
            self._records.append(record)
        answers = tuple(reply.answer for reply in replies)
        self._advance(lambda: self._steps.send(answers))

    def _advance(self, step: Callable[[], tuple[ModelCall, ...]]) -> None:
        try:
            self.pending = step()
        except StopIteration as end:
            self._finish(end.value)
        except CallFailedError as failure:
            said = str(failure)
            ended = Verification(None, "failed", said)
            if said.startswith(TOO_LONG):
                ended = Verification(None, "unparsed", said, notes={BEYOND_CONTEXT: "wrong"})
            self._finish(ended)

    def _finish(self, ended: Verification) -> None:
        spoken = ended.spoken
        confidence = read_confidence(spoken.tokens) if spoken and spoken.tokens else None
        if confidence is not None and confidence.verdict != ended.verdict:
            confidence = None  # the tokens spell another verdict than was read
        self.pending = ()
        self.finished = Prediction(self._claim_id, ended, confidence, tuple(self._records))


def _concurrently(
    procedure: Procedure, prompt: str, claims: Sequence[ClaimToVerify], caller: MethodCaller
) -> Generator[Prediction, None, None]:
    """One thread per claim in progress."""
    stopped = threading.Event()

    def verified(claim: ClaimToVerify) -> Prediction:
        running = _ClaimInProgress(claim, procedure)
        while running.finished is None:
            if stopped.is_set():  # the run failed: make no further call
                raise EngineError("the run ended early")
            running.resume(caller.answer(prompt, running.pending))
        return running.finished

    pool = ThreadPoolExecutor(caller.claims_at_once, thread_name_prefix="claims")
    rest, running = iter(claims), set[Future[Prediction]]()
    try:
        while True:
            # No waves: the next claim starts as soon as one ends.
            for claim in islice(rest, caller.claims_at_once - len(running)):
                running.add(pool.submit(verified, claim))
            if not running:
                return
            ended, running = wait(running, return_when=FIRST_COMPLETED)
            # First the finished claims, then the first error: none that ended with it is lost.
            yield from (one.result() for one in ended if one.exception() is None)
            for failed in (one for one in ended if one.exception() is not None):
                failed.result()
    except (Exception, GeneratorExit):
        stopped.set()
        pool.shutdown(cancel_futures=True)
        raise
    finally:
        # An interrupt does not wait for calls, nor for a server that is starting: what closes the
        # caller ends both.
        stopped.set()
        pool.shutdown(wait=False, cancel_futures=True)


def _together(
    procedure: Procedure,
    prompt: str,
    claims: Sequence[ClaimToVerify],
    caller: MethodCaller,
    at_once: int,
) -> Generator[Prediction, None, None]:
    """The calls of all claims in progress in one batch; as one ends the next takes its place."""
    rest, running = iter(claims), list[_ClaimInProgress]()
    while True:
        started = islice(rest, at_once - len(running))
        running += [_ClaimInProgress(claim, procedure) for claim in started]
        if not running:
            return
        calls = [call for claim in running for call in claim.pending]
        replies = iter(caller.answer(prompt, calls) if calls else [])
        for claim in running:
            if claim.finished is None:
                claim.resume(list(islice(replies, len(claim.pending))))
        yield from (claim.finished for claim in running if claim.finished is not None)
        running = [claim for claim in running if claim.finished is None]
