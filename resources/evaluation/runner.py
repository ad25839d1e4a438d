"""Runs claims through a method: what answers its calls, the loop over claims, and what is stored.

A call without an answer is a ``ModelReply`` with a ``failure``. Only an error that stops every
claim (a wrong key, a spending limit) is raised. A verifier, the profile's or an entry's, takes one
call a claim; a chat model fills a section of the method's prompt file for each call.

Values of variables cannot forge a prompt's tags or a token of a chat template. Calls that may spell
a verdict request log probabilities; an endpoint without them is fine. A call that continues a
transcript (``ModelCall.continues``) sends it as the assistant's unfinished turn where the endpoint
supports that (vLLM: ``continue_final_message``), elsewhere in the user's message with a request to
continue it (``continuation.md``). A truncated or empty reply is an answer; what kept the model from
answering is a failure.

The loop is resumable, and stopped when too many claims fail. Finished claims are stored as they
end, so a killed run loses only the claims in progress; claims that failed or were too long for the
model are not stored, so the next run asks again.
"""

import hashlib
import json
import re
import threading
import time
from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import closing
from dataclasses import asdict, dataclass
from functools import cache
from itertools import islice
from math import isnan
from pathlib import Path
from typing import Any, Protocol

from decomposerl.baselines.method import (
    CallFailedError,
    ClaimInput,
    ModelCall,
    ModelReply,
    Procedure,
    Steps,
    Verification,
    ask,
)
from decomposerl.baselines.minicheck import THRESHOLD, from_probability
from decomposerl.chat import (
    REPEATED,
    Chat,
    ChatFailure,
    ChatReply,
    ChatRequest,
    Message,
    Price,
    Sampling,
)
from decomposerl.endpoint import Endpoint
from decomposerl.errors import EngineError
from decomposerl.evaluation.calibration import Confidence, read_confidence
from decomposerl.evaluation.scored_claims import BEYOND_CONTEXT
from decomposerl.prompts.escape import escaped
from decomposerl.prompts.template import PromptFile, PromptSettings
from decomposerl.traces.trace import Cycle
from resources.store.prompts import AGAIN, load_prompt
from resources.store.result_store import ResultStore, key_of, slug
from resources.store.stored_ports import StoredVerifier
from resources.verifier.hosted import HostedVerifier, VerifierAnswer

TOO_LONG = "too_long"
"""How the failure of a call begins that does not fit the model's context."""
_LENGTH = re.compile(r"maximum context length|context_length_exceeded")  # vLLM's, OpenAI's
CONTINUATION = "continuation"
"""The prompt file that asks a model to continue a transcript."""
_KEPT = "What was answered is kept, and the next run asks for the rest alone"
Details = Mapping[str, int | float | str]
AnyVerifier = StoredVerifier | HostedVerifier
_STORE_ROWS, _STORE_S = 64, 5.0
"""Finished claims are stored when there are this many, or when the next one finishes after this
many seconds."""
_USED = ("prompt_tokens", "completion_tokens", "latency_s", "cached", "dollars")
_STORED = ("verdict", "status", "reply", "opening", "cycles", "notes")


@dataclass(frozen=True, slots=True)
class Reply:
    """An answer and its cost. Tokens are counted by the engine, 0 where it does not count.

    ``latency_s`` is the time from request to reply when the call was made; ``cached``: it was made
    by an earlier run. ``dollars`` is None where no price is known.
    """

    answer: ModelReply
    prompt_tokens: int = 0
    completion_tokens: int = 0
    latency_s: float = 0.0
    cached: bool = False
    dollars: float | None = None


class MethodCaller(Protocol):
    """Answers the calls of methods.

    If ``concurrent``, up to ``claims_at_once`` threads may call ``answer`` at the same time, each
    for one claim (an endpoint, which has its own queue). Otherwise one thread passes the calls of
    up to ``claims_at_once`` claims in one ``answer`` (an engine in this process, which batches
    them). ``engine`` names the program and model that answer and is written into every row.
    """

    @property
    def engine(self) -> str: ...  # noqa: D102 - as above

    @property
    def concurrent(self) -> bool: ...  # noqa: D102

    @property
    def claims_at_once(self) -> int: ...  # noqa: D102

    def details(self) -> Details:
        """Counts and settings that a run records, by name."""

    def prompt_hash(self, prompt: str) -> str:
        """64 hex digits of SHA-256 over the prompt file of that name and all settings.

        Raises:
            ConfigError: there is no such prompt file, or it is malformed.
        """

    def answer(self, prompt: str, calls: Sequence[ModelCall]) -> list[Reply]:
        """One reply per call, in order. ``prompt`` names the method's prompt file.

        Raises:
            ConfigError: the prompt file lacks a call's section or one of its variables.
            EngineError: no claim can be answered; earlier answers are kept.
        """


class VerifierCaller:
    """A ``MethodCaller`` that answers with support probabilities, written without rounding.

    One at an endpoint gives tokens and costs too, and fails by claim.
    """

    concurrent = False

    def __init__(
        self,
        verifier: AnyVerifier,
        threshold: float = THRESHOLD,
        price: Price | None = None,
    ) -> None:
        """``verifier`` sees each claim's evidence in full; ``price`` None: not known."""
        self._verifier, self._threshold, self._price = verifier, threshold, price
        self.claims_at_once = 256 if isinstance(verifier, HostedVerifier) else 1_024
        self.details = verifier.details

    @property
    def engine(self) -> str:
        """The verifier's engine."""
        return self._verifier.engine

    def prompt_hash(self, prompt: str) -> str:
        """Over the threshold; a verifier's own prompt is part of its engine's name."""
        return hashlib.sha256(f"{prompt} {self._threshold}".encode()).hexdigest()

    def answer(self, prompt: str, calls: Sequence[ModelCall]) -> list[Reply]:  # noqa: ARG002 - the port's
        """One probability per call; an empty text where an endpoint's reply could not be read.

        Raises:
            EngineError: the verifier cannot answer, or a ceiling was reached.
        """
        pairs = [(call.variables["evidence"], call.variables["claim"]) for call in calls]
        if not pairs:
            return []
        if not isinstance(self._verifier, HostedVerifier):
            scores = self._verifier.support_probability(pairs).tolist()
            return [Reply(ModelReply(repr(score))) for score in scores]
        replies = []
        for answer in self._verifier.answers(pairs):
            text = "" if isnan(answer.probability) else repr(answer.probability)
            failure = _failure(*answer.failure.split(": ", 1)) if answer.failure else ""
            replies.append(_reply(ModelReply(text, failure=failure), answer, self._price))
        return replies


def _failure(reason: str, detail: str = "") -> str:
    """A call's failure; the reason is ``TOO_LONG`` where the endpoint says that it is."""
    return f"{TOO_LONG if _LENGTH.search(detail) else reason}: {detail}"


def _reply(
    answer: ModelReply, used: VerifierAnswer | ChatReply[None], price: Price | None
) -> Reply:
    tokens = used.prompt_tokens, used.completion_tokens
    dollars = None if price is None else price.dollars(*tokens)
    return Reply(answer, *tokens, used.latency_s, used.cached, dollars)


def scored(question: ClaimInput, threshold: float = THRESHOLD) -> Steps:
    """The procedure of a verifier: one score, cut at its threshold; unparsed where none was read.

    Raises:
        CallFailedError: the call got no answer, or an answer that is no probability.
    """
    (answer,) = yield from ask(ModelCall("verify", "pair", question.variables))
    if not answer.text:
        return Verification(None, "unparsed", "the verifier's reply could not be read")
    return from_probability(float(answer.text), threshold)


class MethodPrompts:
    """Prompt files of a folder, or of the package where it has none; each is read once."""

    def __init__(
        self,
        folder: str = "",
        given: Mapping[str, PromptFile] | None = None,
        settings: PromptSettings | None = None,
    ) -> None:
        """``folder`` may have your own prompt files; ``given`` ones take precedence."""
        wording = settings or PromptSettings()
        self.file = cache(
            lambda name: (given or {}).get(name) or load_prompt(name, folder, wording)
        )

    def filled(self, prompt: str, call: ModelCall) -> str:
        """The call's section with its variables filled in; tags in their values are escaped.

        A repeated call ends with the line that names its form.

        Raises:
            ConfigError: there is no such section, or values and variables do not match.
        """
        values = {name: escaped(value) for name, value in call.variables.items()}
        text = str(self.file(prompt).filled(call.template, **values))
        return f"{text}\n\n{self.file(AGAIN).filled(call.form)}" if call.form else text

    def hash(self, prompt: str, settings: object) -> str:
        """SHA-256 over the prompt file, the prompts that all methods share, and the settings."""
        digests = [self.file(name).digest for name in (prompt, CONTINUATION, AGAIN)]
        text = json.dumps([prompt, digests, settings], sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()


class ChatCaller:
    """A ``MethodCaller`` over a chat client."""

    concurrent = True

    def __init__(
        self,
        chat: Chat,
        model: Endpoint,
        prompts: MethodPrompts | None = None,
        *,
        seed: int = 42,
        top_logprobs: int = 5,
        continues: bool = False,
    ) -> None:
        """``model`` says how ``chat`` is asked: thinking, claims at once, price.

        ``prompts`` default to the package's. ``top_logprobs`` are requested per token of a call
        that may spell a verdict, 0 for none. ``continues``: whether an endpoint that does not say
        continues an assistant's turn.
        """
        self._chat, self._model, self._prompts = chat, model, prompts or MethodPrompts()
        self.details, self.claims_at_once = chat.details, model.concurrency
        self._seed, self._top_logprobs = seed, 0 if model.style == "openai" else top_logprobs
        self._continues = continues if model.continues is None else model.continues
        self._thinking = None if model.style == "none" else model.thinks
        self.engine = chat.engine + (" continued" if self._continues else "")
        self._answered, self._lock = 0, threading.Lock()

    def prompt_hash(self, prompt: str) -> str:
        """Over the prompt file and all that decides the answers, besides the model and the call."""
        settings = {
            "seed": self._seed,
            "likeliest": self._top_logprobs,
            "continues": self._continues,
            "thinking": self._thinking,
            "thinking_style": self._model.style,
            "thinking_tokens": self._model.thinking_tokens,
        }
        return self._prompts.hash(prompt, settings)

    def answer(self, prompt: str, calls: Sequence[ModelCall]) -> list[Reply]:
        """One reply per call, in order.

        Raises:
            ConfigError: the prompt file lacks a call's section or one of its variables.
            EngineError: a ceiling was reached, or the endpoint answers no request.
        """
        requests = [self._request(prompt, call) for call in calls]
        outcomes: list[ChatReply[None] | ChatFailure] = self._chat.complete(requests)
        with self._lock:
            self._answered += sum(isinstance(one, ChatReply) for one in outcomes)
        for one in outcomes:
            if not isinstance(one, ChatFailure):
                continue
            if one.reason == "budget":
                raise EngineError(f"{self.engine}: stopped at the {one.detail}. {_KEPT}")
            if one.lasting and (one.reason == "circuit_open" or not self._answered):
                raise EngineError(f"{self.engine}: {one.reason}: {one.detail}. {_KEPT}")
        return [self._reply(call, one) for call, one in zip(calls, outcomes, strict=True)]

    def _request(self, prompt: str, call: ModelCall) -> ChatRequest:
        text, transcript = self._prompts.filled(prompt, call), escaped(call.continues)
        messages: tuple[Message, ...] = (Message("user", text),)
        if transcript and self._continues:
            messages = (*messages, Message("assistant", transcript))
        elif transcript:
            continuation = self._prompts.file(CONTINUATION)
            whole = continuation.filled("prompt", prompt=text, transcript=transcript)
            messages = (Message("user", whole),)
        may_conclude = call.concludes or call.operation in {"verify", "procedure"}
        sampling = Sampling(
            temperature=call.temperature,
            # Samples of one call, and its repetition, differ in the seed.
            seed=self._seed + call.sample + (REPEATED if call.form else 0),
            max_tokens=call.max_tokens + self._model.thought_tokens,
            stop=call.stop,
            top_logprobs=self._top_logprobs if may_conclude else 0,
        )
        return ChatRequest(messages, sampling, self._prompts.file(prompt).template, self._thinking)

    def _reply(self, call: ModelCall, outcome: ChatReply[None] | ChatFailure) -> Reply:
        if isinstance(outcome, ChatFailure):
            if outcome.reason == "truncated":
                return Reply(ModelReply(_after(call.continues, outcome.text), truncated=True))
            if outcome.reason == "empty":
                return Reply(ModelReply(""))
            return Reply(ModelReply("", failure=_failure(outcome.reason, outcome.detail)))
        answer = ModelReply(_after(call.continues, outcome.text), tokens=outcome.tokens)
        return _reply(answer, outcome, self._model.price)


class WithDecomposer:
    """A ``MethodCaller`` whose calls that write questions have a model of their own."""

    def __init__(self, rest: MethodCaller, decomposer: MethodCaller) -> None:
        """``decomposer`` answers the operation ``decompose``, ``rest`` all others."""
        self._rest, self._decomposer = rest, decomposer
        self.engine = f"{rest.engine} questions={decomposer.engine}"
        self.concurrent = rest.concurrent and decomposer.concurrent
        self.claims_at_once = min(rest.claims_at_once, decomposer.claims_at_once)

    def details(self) -> Details:
        """The counts of both."""
        own = self._decomposer.details()
        return {**self._rest.details(), **{f"decomposer: {name}": n for name, n in own.items()}}

    def prompt_hash(self, prompt: str) -> str:
        """Over the hashes of both."""
        hashes = f"{self._rest.prompt_hash(prompt)} {self._decomposer.prompt_hash(prompt)}"
        return hashlib.sha256(hashes.encode()).hexdigest()

    def answer(self, prompt: str, calls: Sequence[ModelCall]) -> list[Reply]:
        """One reply per call, in order; errors as those of the two."""
        replies: dict[int, Reply] = {}
        for caller, decomposes in ((self._decomposer, True), (self._rest, False)):
            own = {n: c for n, c in enumerate(calls) if (c.operation == "decompose") == decomposes}
            answers = caller.answer(prompt, list(own.values())) if own else []
            replies |= zip(own, answers, strict=True)
        return [replies[place] for place in range(len(calls))]


def _after(transcript: str, text: str) -> str:
    """The reply's text without the transcript, where it repeats that from the start."""
    stripped, known = text.lstrip(), escaped(transcript).strip()
    return stripped[len(known) :] if known and stripped.startswith(known) else text


@dataclass(frozen=True, slots=True)
class Prediction:
    """The result for one claim. ``confidence`` is None where it cannot be read.

    ``calls`` have the columns of ``CALLS`` but for the claim and the number. ``stored``: an earlier
    run made it.
    """

    claim_id: str
    verification: Verification
    confidence: Confidence | None
    calls: tuple[Mapping[str, Any], ...]
    stored: bool = False

    @property
    def failed(self) -> bool:
        """Whether a call got no answer."""
        return self.verification.status == "failed"


class PredictionStore:
    """The predictions of one engine, system and prompt; those of others may share the folder."""

    def __init__(
        self,
        folder: Path,
        engine: str,
        system: str,
        prompt_hash: str,
        digests: Mapping[str, str] | None = None,
    ) -> None:
        """``digests``: what the system reads about a claim, by claim id."""
        name, self._digests = f"{engine} {system} {prompt_hash}", digests or {}
        self._store, self._about = ResultStore(folder / slug(name), name), (system, prompt_hash)
        self.compact = self._store.compact

    def _key(self, claim_id: str) -> str:
        return key_of(claim_id, self._digests.get(claim_id, ""), *self._about)

    def read(self, claim_ids: Iterable[str]) -> dict[str, Prediction]:
        """The stored predictions of these claims, by claim id."""
        keys = {self._key(claim_id): row for row, claim_id in enumerate(claim_ids)}
        texts = (text for _, values in self._store.read(keys) for text in values.to_pylist())
        return {one.claim_id: one for one in map(_read, texts)}

    def add(self, predictions: Sequence[Prediction]) -> None:
        """Store one shard, without what is asked again: failed, or too long for the model.

        The reply that spells the verdict was read for its confidence, and is left out.
        """
        import pyarrow as pa

        texts = {}
        for one in predictions:
            ended = one.verification
            if one.failed or BEYOND_CONTEXT in ended.notes:
                continue
            plain = {"claim_id": one.claim_id, "confidence": one.confidence, "calls": one.calls}
            plain |= {name: getattr(ended, name) for name in _STORED}
            # ASCII: a reply may hold half a surrogate pair, which is no UTF-8.
            texts[self._key(one.claim_id)] = json.dumps(plain, ensure_ascii=True, default=asdict)
        self._store.write([*texts], pa.array(texts.values(), pa.large_string()))


def _read(text: str) -> Prediction:
    plain = json.loads(text)
    plain["cycles"] = tuple(Cycle(**cycle) for cycle in plain["cycles"])
    confidence = plain["confidence"] and Confidence(**plain["confidence"])
    ended = Verification(**{name: plain[name] for name in _STORED})
    return Prediction(plain["claim_id"], ended, confidence, tuple(plain["calls"]), stored=True)


def run_claims(
    procedure: Procedure,
    prompt: str,
    claims: Mapping[str, ClaimInput],
    caller: MethodCaller,
    store: PredictionStore,
    *,
    most_failed: float = 0.02,
    at_once: int = 0,
) -> Generator[Prediction, None, None]:
    """Each claim's result as soon as it is there; first those in ``store``, which cost no call.

    ``prompt`` names the prompt file; ``claims`` are by id. ``most_failed`` is the share of claims,
    0..1, that may fail before the run is stopped. ``at_once`` claims are in progress at most, where
    the caller batches them; 0: as many as it takes. Fewer give the first result sooner.

    Raises:
        EngineError: more claims failed than the limit allows, or the caller reports that no claim
            can be answered; finished claims are stored.
    """
    known = store.read(claims)
    yield from known.values()
    waiting, since, failed = list[Prediction](), time.monotonic(), 0
    rest = {claim_id: claim for claim_id, claim in claims.items() if claim_id not in known}
    width = caller.claims_at_once
    if at_once and not caller.concurrent:
        width = min(width, at_once)
    try:
        with closing(_ended(procedure, prompt, rest, caller, width)) as results:
            for one in results:
                waiting.append(one)
                if len(waiting) >= _STORE_ROWS or time.monotonic() - since > _STORE_S:
                    ready, waiting, since = waiting, [], time.monotonic()
                    store.add(ready)
                yield one
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


_Driven = Generator[tuple[ModelCall, ...] | Prediction, Sequence[Reply] | None, None]
_Waiting = list[tuple[_Driven, tuple[ModelCall, ...]]]


def _driven(procedure: Procedure, claim_id: str, claim: ClaimInput) -> _Driven:
    """Yields the calls that a claim waits for, is sent their replies; at last, its prediction."""
    steps, answers = procedure(claim), None
    records, ended = list[Mapping[str, Any]](), None
    while ended is None:
        try:
            calls = next(steps) if answers is None else steps.send(answers)
        except StopIteration as end:
            ended = end.value
        except CallFailedError as failure:
            ended = Verification(None, "failed", str(failure))
            if ended.reply.startswith(TOO_LONG):
                ended = Verification(None, "unparsed", ended.reply, notes={BEYOND_CONTEXT: "wrong"})
        else:
            replies = yield calls
            answers = tuple(reply.answer for reply in replies or ())
            for call, reply in zip(calls, replies or (), strict=True):
                used = {name: getattr(reply, name) for name in _USED}
                named = {"operation": call.operation, "template": call.template}
                records.append({**named, **used, "failure": reply.answer.failure or None})
    spoken = ended.spoken
    confidence = read_confidence(spoken.tokens) if spoken and spoken.tokens else None
    if confidence is not None and confidence.verdict != ended.verdict:
        confidence = None  # the tokens spell another verdict than was read
    yield Prediction(claim_id, ended, confidence, tuple(records))


def _advanced(
    claim: _Driven, replies: Sequence[Reply] | None, waiting: _Waiting
) -> Iterator[Prediction]:
    """Its result; none where it is added to those that wait for further calls."""
    state = claim.send(replies)
    if isinstance(state, Prediction):
        yield state
    else:
        waiting.append((claim, state))


def _ended(
    procedure: Procedure,
    prompt: str,
    claims: Mapping[str, ClaimInput],
    caller: MethodCaller,
    width: int,
) -> Generator[Prediction, None, None]:
    """Each result as it is there, of ``width`` claims in progress: no waves, one follows another.

    A concurrent caller has a thread for each of them, another one the calls of all in one batch.
    """
    pool = ThreadPoolExecutor(width, thread_name_prefix="claims")
    rest = iter(claims.items())
    ready, running = _Waiting(), dict[Future[list[Reply]], _Waiting]()

    def answered(batch: _Waiting) -> list[Reply]:
        return caller.answer(prompt, [call for _, calls in batch for call in calls])

    try:
        while True:
            while len(ready) + len(running) < width and (given := next(rest, None)):
                yield from _advanced(_driven(procedure, *given), None, ready)
            if caller.concurrent:
                running |= {pool.submit(answered, [claim]): [claim] for claim in ready}
            elif ready:  # in this thread, where an interrupt ends it
                replied = Future[list[Reply]]()
                replied.set_result(answered(ready))
                running = {replied: ready}
            if not running:
                return
            ready = _Waiting()
            # First what was answered, then the first error: no claim that ended with it is lost.
            over = wait(running, return_when=FIRST_COMPLETED).done
            for future in sorted(over, key=lambda future: future.exception() is not None):
                batch = running.pop(future)
                replies = iter(future.result())
                for claim, calls in batch:
                    yield from _advanced(claim, [*islice(replies, len(calls))], ready)
    except (Exception, GeneratorExit):
        pool.shutdown(cancel_futures=True)
        raise
    finally:
        # An interrupt does not wait for calls, nor for a server that is starting: what closes the
        # caller ends both.
        pool.shutdown(wait=False, cancel_futures=True)
