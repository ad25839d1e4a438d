"""The port behind every method: calls go in, answers and what they cost come out.

Takes the calls of one or many claims that may be asked at once, gives one ``Reply`` a call in
order. A call that got no answer is an ``ModelReply`` with a ``failure``; only what no claim could
get past (a wrong key, a ceiling in money) is raised.

Left out deliberately: methods (``decomposerl.baselines``), which call comes next
(``resources.evaluation.runner``), and the engines themselves.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from decomposerl.baselines.method import ModelCall, ModelReply


@dataclass(frozen=True, slots=True)
class Reply:
    """An answer and what it cost. Tokens are as the engine counted, 0 where it does not.

    ``latency_s`` is from request to reply, when it was asked; ``cached`` says that it was asked
    earlier. ``dollars`` is None where no price is known.
    """

    answer: ModelReply
    prompt_tokens: int = 0
    completion_tokens: int = 0
    latency_s: float = 0.0
    cached: bool = False
    dollars: float | None = None


class MethodCaller(Protocol):
    """Answers the calls of methods.

    ``concurrent`` tells how it is kept busy. Where it is true, up to ``claims_at_once`` threads
    may call ``answer`` at the same time, each for one claim (an endpoint, which has its own
    queue). Where it is false, one thread asks for up to ``claims_at_once`` claims in one
    ``answer`` (an engine in this process, which makes batches of them).
    """

    @property
    def engine(self) -> str:
        """Program and model that answer; written into every row."""
        ...

    @property
    def concurrent(self) -> bool:
        """Whether threads may ask at the same time."""
        ...

    @property
    def claims_at_once(self) -> int:
        """How many claims in progress keep it busy."""
        ...

    def prompt_hash(self, prompt: str) -> str:
        """64 hex digits of SHA-256 over the prompt file of that name and all settings.

        Raises:
            ConfigError: there is no such prompt file, or it is malformed.
        """
        ...

    def answer(self, prompt: str, calls: Sequence[ModelCall]) -> list[Reply]:
        """One reply a call, in order. ``prompt`` names the method's prompt file.

        Raises:
            ConfigError: the prompt file lacks a call's section, or a place of it.
            EngineError: no claim can be answered; what was answered is kept.
        """
        ...
