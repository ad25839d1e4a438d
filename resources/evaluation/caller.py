"""The port behind every method: calls in, one ``Reply`` per call out, in order.

A call without an answer is a ``ModelReply`` with a ``failure``. Only an error that stops
every claim (a wrong key, a spending limit) is raised.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from decomposerl.baselines.method import ModelCall, ModelReply

TOO_LONG = "too_long"
"""How the failure of a call begins that does not fit the model's context."""
_LENGTH = re.compile(r"maximum context length|context_length_exceeded")  # vLLM's, OpenAI's


def call_failure(reason: str, detail: str) -> str:
    """A call's failure; the reason is ``TOO_LONG`` where the endpoint says that it is."""
    return f"{TOO_LONG if _LENGTH.search(detail) else reason}: {detail}"


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
    them).
    """

    @property
    def engine(self) -> str:
        """Name of the program and model that answer; written into every row."""
        ...

    @property
    def concurrent(self) -> bool:
        """Whether several threads may call ``answer`` at the same time."""
        ...

    @property
    def claims_at_once(self) -> int:
        """Number of claims in progress that keeps it busy."""
        ...

    def prompt_hash(self, prompt: str) -> str:
        """64 hex digits of SHA-256 over the prompt file of that name and all settings.

        Raises:
            ConfigError: there is no such prompt file, or it is malformed.
        """
        ...

    def answer(self, prompt: str, calls: Sequence[ModelCall]) -> list[Reply]:
        """One reply per call, in order. ``prompt`` names the method's prompt file.

        Raises:
            ConfigError: the prompt file lacks a call's section or one of its variables.
            EngineError: no claim can be answered; earlier answers are kept.
        """
        ...
