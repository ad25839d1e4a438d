"""Silver sub-questions from a chat model (paper, "Silver Decomposition").

Takes a ``Chat`` and a prompt file, gives a ``Decomposer``. A request that failed, for
whatever reason, is a null answer; the reasons are counted.

Left out deliberately: calls, retries, caches and money (``resources.chat``).
"""

from collections import Counter
from collections.abc import Sequence

from decomposerl.chat import Chat, ChatFailure, Sampling
from decomposerl.prompts.silver import read_questions, silver_request
from decomposerl.prompts.template import PromptFile

_SHOWN = 12


class ChatDecomposer:
    """A ``Decomposer`` that asks a chat model once a pair."""

    def __init__(
        self,
        chat: Chat,
        prompt: PromptFile,
        sampling: Sampling,
        *,
        structured: bool = False,
        thinking: bool | None = None,
    ) -> None:
        """``structured`` asks for JSON by schema; ``thinking`` switches a reasoning model's."""
        self._chat, self._prompt, self._sampling = chat, prompt, sampling
        self._structured, self._thinking = structured, thinking
        self.failures: Counter[str] = Counter()
        """How many pairs got no answer, by reason, since this object was made."""

    @property
    def engine(self) -> str:
        """Model, prompt and settings: answers under different ones never mix."""
        form = "json" if self._structured else "tags"
        thinking = {None: "default", True: "on", False: "off"}[self._thinking]
        return (
            f"{self._chat.engine} silver:{self._prompt.digest[:_SHOWN]} {form} "
            f"temperature={self._sampling.temperature:g} seed={self._sampling.seed} "
            f"max_tokens={self._sampling.max_tokens} thinking={thinking}"
        )

    def decompose(self, pairs: Sequence[tuple[str, str]]) -> list[list[str] | None]:
        """Sub-questions of each ``(evidence, claim)`` pair; null where no answer came."""
        requests = [
            silver_request(
                self._prompt,
                pair,
                self._sampling,
                structured=self._structured,
                thinking=self._thinking,
            )
            for pair in pairs
        ]
        answers: list[list[str] | None] = []
        for outcome in self._chat.complete(requests, parse=read_questions):
            if isinstance(outcome, ChatFailure):
                self.failures[outcome.reason] += 1
                answers.append(None)
            else:
                answers.append(read_questions(outcome.text))
        return answers
