"""The client of a chat model that one can ask a million questions.

Takes requests, gives replies or typed failures in the same order. Each distinct question is
looked up in the cache, else asked once, however often it stands in a batch or in batches of
other threads; what came is on disk before it is handed back.

Left out deliberately: one attempt and its limits (``resources.chat.calls``), frames
(``resources.chat.frames``), and prompts.
"""

import asyncio
import json
import logging
from collections import Counter, deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Self

from pydantic import SecretStr

from decomposerl.chat import ChatFailure, ChatReply, ChatRequest
from resources.chat.budget import Usage
from resources.chat.cache import ChatCache, Entry, key_of
from resources.chat.calls import Caller, Outcome
from resources.chat.connection import clean_key
from resources.chat.counts import Counts
from resources.chat.export import CACHE_FILE
from resources.chat.loop import LoopThread
from resources.chat.pace import Timing
from resources.chat.progress import Progress
from resources.chat.settings import ChatSettings
from resources.chat.wire import UNSTORABLE, as_utf8, lacks_logprobs

_LOG = logging.getLogger(__name__)
_ASKED_AT_MOST = 2  # a reply that does not parse is asked once more
Parse = Callable[[str], Any]


@dataclass(frozen=True, slots=True)
class _Question:
    """A request with its key, and the parser that decides whether a reply is usable."""

    key: str
    request: ChatRequest
    parse: Parse | None
    needs_logprobs: bool

    def complaint(self, reply: ChatReply) -> str | None:
        """Why the reply is not to be used, None where it is.

        What the parser makes of it must be text that UTF-8, and so every table, can hold.
        """
        if self.needs_logprobs and lacks_logprobs(reply, self.request):
            return "the reply carries no log probabilities"
        try:
            read = self.parse(reply.text) if self.parse is not None else None
            json.dumps(read, ensure_ascii=False, default=repr).encode()
        except UnicodeEncodeError:
            return UNSTORABLE
        except (ValueError, RecursionError) as error:  # the latter from nesting without end
            return as_utf8(str(error)) or type(error).__name__
        return None

    def priced(self, reply: ChatReply) -> ChatReply:
        """A stored reply with the usage that its request can have had."""
        stored = {name: getattr(reply, name) for name in ("prompt_tokens", "completion_tokens")}
        used = Usage.of(stored, self.request, reply.text)
        if not used.estimated:
            return reply
        tokens = {name: getattr(used, name) for name in stored}
        return replace(reply, **tokens)


class ChatClient:
    """A ``Chat`` over OpenAI-compatible endpoints. Threads may share one."""

    def __init__(
        self,
        settings: ChatSettings,
        data: Path | None,
        key: SecretStr | None = None,
        timing: Timing | None = None,
    ) -> None:
        """Open ``<data>/chat_cache.sqlite`` (None: no cache); nothing is sent yet.

        ``key`` stays in memory and is cut out of whatever endpoints say.

        Raises:
            ChatCacheError: the cache file cannot be used.
            ConfigError: no header can carry the key.
        """
        key = clean_key(key)
        self._settings = settings
        self.counts = Counts()
        """What was done since this object was made."""
        self.cache = (
            None
            if data is None
            else ChatCache(data / CACHE_FILE, settings.model, settings.revision)
        )
        self._loop = LoopThread("chat-client")
        self._caller = Caller(settings, key, self.counts, timing or Timing())
        self._flights: dict[str, asyncio.Future[Outcome]] = {}

    def __enter__(self) -> Self:
        """The client itself."""
        return self

    def __exit__(self, *_: object) -> None:
        """Close."""
        self.close()

    @property
    def engine(self) -> str:
        """``chat:<model>``, with the revision where one is set."""
        revision = f"@{self._settings.revision}" if self._settings.revision else ""
        return f"chat:{self._settings.model}{revision}"

    def close(self) -> None:
        """Close connections, then the cache; a second time does nothing."""
        if not self._loop.closed:
            try:
                self._loop.run(self._caller.close())
            finally:
                self._loop.close()
        if self.cache is not None:
            self.cache.close()

    def complete(
        self, requests: Sequence[ChatRequest], parse: Parse | None = None
    ) -> list[ChatReply | ChatFailure]:
        """One outcome a request, in order; no request raises.

        ``parse`` is tried on each reply's text; where it raises ``ValueError`` the request
        is asked once more, a second failure is ``unparsable``. A batch with failures is told
        in one warning.

        Raises:
            ConfigError: how to switch the model's thinking off is not known.
            ChatCacheError: replies can be neither read nor stored; nothing more is sent.
            RuntimeError: the client was closed.
        """
        if self._loop.closed:
            raise RuntimeError("the chat client was closed")
        questions = self._questions(requests, parse)
        distinct = {question.key: question for question in questions}
        self.counts.add(asked=len(questions), shared=len(questions) - len(distinct))
        outcomes = self._remembered(distinct)
        rest = [question for key, question in distinct.items() if key not in outcomes]
        left = deque(rest)
        with Progress(len(distinct), len(outcomes), self.counts) as progress:
            outcomes |= self._loop.run(self._ask_all(left, progress), left.clear)
        if self.cache is not None:
            outcomes |= _usable(distinct, self.cache.flush())
        found = [outcomes[question.key] for question in questions]
        failed = [one for one in found if isinstance(one, ChatFailure)]
        self.counts.fail(failed)
        if failed:
            _LOG.warning("%s: %s", self.engine, _told(failed, len(found)))
        return found

    def _questions(self, requests: Sequence[ChatRequest], parse: Parse | None) -> list[_Question]:
        model, revision = self._settings.model, self._settings.revision
        needs = self._settings.needs_logprobs
        asked = [self._settings.as_asked(request) for request in requests]
        return [_Question(key_of(one, model, revision), one, parse, needs) for one in asked]

    def _remembered(self, questions: dict[str, _Question]) -> dict[str, Outcome]:
        """Stored replies that their question's parser takes."""
        if self.cache is None:
            return {}
        found = _usable(questions, self.cache.get(list(questions)))
        self.counts.add(hits=len(found))
        return found

    async def _ask_all(self, left: "deque[_Question]", progress: Progress) -> dict[str, Outcome]:
        """As many workers as calls may be in flight take one question after the other.

        Emptying ``left`` stops them from beginning new ones.
        """
        outcomes: dict[str, Outcome] = {}
        questions = tuple(left)

        async def work() -> None:
            while left:
                question = left.popleft()
                outcomes[question.key] = await self._answer(question)
                progress.step()

        deadline_s = self._settings.batch_deadline_s
        try:
            async with asyncio.timeout(deadline_s), asyncio.TaskGroup() as group:
                for _ in range(min(self._settings.concurrency, len(questions))):
                    group.create_task(work())
        except TimeoutError:
            late = ChatFailure("timeout", f"the batch's deadline of {deadline_s:g} s passed", 0)
            return {question.key: late for question in questions} | outcomes
        except ExceptionGroup as several:  # the cache broke: one worker's word will do
            raise several.exceptions[0] from None
        return outcomes

    async def _answer(self, question: _Question) -> Outcome:
        """The outcome of an equal question in flight, else of asking."""
        while (flight := self._flights.get(question.key)) is not None:
            await asyncio.wait([flight])
            if flight.cancelled():
                continue  # its batch was given up; this one was not
            outcome = flight.result()
            if isinstance(outcome, ChatFailure) or question.complaint(outcome) is None:
                self.counts.add(shared=1)
                return outcome
        flight = self._flights[question.key] = asyncio.get_running_loop().create_future()
        try:
            outcome = await self._ask(question)
            flight.set_result(outcome)
        finally:
            del self._flights[question.key]
            flight.cancel()
        return outcome

    async def _ask(self, question: _Question) -> Outcome:
        """Ask until the parser takes a reply, twice at most, and store it.

        A stored reply counts as the first asking: another thread or process may have stored
        one since the batch began, or a new parser may refuse what an old one took.
        """
        reply = self.cache.get([question.key]).get(question.key) if self.cache else None
        stored = reply.text if reply is not None else None
        outcome: Outcome | None = reply
        for _ in range(_ASKED_AT_MOST):
            outcome = outcome or await self._caller.ask(question.request)
            if isinstance(outcome, ChatReply):
                complaint = question.complaint(outcome)
                if complaint is None:
                    return self._kept(question, outcome, stored)
                failure = ChatFailure("unparsable", complaint, _ASKED_AT_MOST, outcome.text)
            elif outcome.reason == "unparsable":
                failure = replace(outcome, attempts=_ASKED_AT_MOST)
            else:
                return outcome
            outcome = None
        return failure

    def _kept(self, question: _Question, reply: ChatReply, stored: str | None) -> ChatReply:
        if reply.cached:
            self.counts.add(hits=1)
            return question.priced(reply)
        if self.cache is not None:
            self.cache.put(Entry(question.key, reply, question.request.template, stored))
        return reply


def _told(failed: Sequence[ChatFailure], asked: int) -> str:
    """How many requests of a batch failed, why, and what the first of each kind said."""
    times = Counter(one.reason for one in failed)
    said = {one.reason: one.detail for one in reversed(failed)}
    parts = "; ".join(f"{reason} {n} ({said[reason]})" for reason, n in times.most_common())
    return f"{len(failed):,} of {asked:,} requests got no reply: {parts}"


def _usable(questions: dict[str, _Question], stored: dict[str, ChatReply]) -> dict[str, Outcome]:
    """The stored replies that answer one of these questions."""
    ours = ((questions[key], reply) for key, reply in stored.items() if key in questions)
    return {one.key: one.priced(reply) for one, reply in ours if one.complaint(reply) is None}
