"""Silver sub-questions from a chat model (paper, "Silver Decomposition").

Takes a ``Chat`` and a prompt file, gives a ``Decomposer``. A request that failed is a null
answer, its reason counted, as long as few of them fail: claims are dropped for what a model
answers, never for a wrong key, an outage, or a ceiling in money (``chat.failure_policy``).

Left out deliberately: calls, retries, caches and money (``resources.chat``).
"""

from collections import Counter
from collections.abc import Callable, Sequence

from decomposerl.chat import Chat, ChatFailure, Sampling
from decomposerl.errors import ConfigError
from decomposerl.prompts.silver import read_questions, silver_request
from decomposerl.prompts.template import PromptFile
from resources.chat.failure_policy import FailurePolicy

MOST_UNANSWERED = 0.05
_SHOWN = 12


class ChatDecomposer:
    """A ``Decomposer`` that asks a chat model once a pair."""

    def __init__(  # noqa: PLR0913 - each is a setting of the stage
        self,
        chat: Chat,
        prompt: PromptFile,
        sampling: Sampling,
        *,
        structured: bool = False,
        thinking: bool | None = None,
        most_unanswered: float = MOST_UNANSWERED,
        sends_temperature: bool = True,
    ) -> None:
        """``structured`` asks for JSON by schema; ``thinking`` switches a reasoning model's.

        ``most_unanswered`` is the share of pairs, 0..1, that may stay without an answer; 1
        lets any share pass. ``sends_temperature`` is false where the model takes none.
        """
        if not 0 <= most_unanswered <= 1:
            raise ConfigError(f"most_unanswered is {most_unanswered:g}; it is a share, 0..1")
        self._chat, self._prompt, self._sampling = chat, prompt, sampling
        self._structured, self._thinking = structured, thinking
        self._sends_temperature = sends_temperature
        self._verdict = FailurePolicy(most_unanswered)
        self.answered_before: Callable[[], int] = int
        """How many pairs of the stage were answered without this object; the share is of all."""

    @property
    def failures(self) -> Counter[str]:
        """How many pairs got no answer, by reason, since this object was made."""
        return self._verdict.failures

    @property
    def engine(self) -> str:
        """Model, prompt and settings: answers under different ones never mix."""
        form = "json" if self._structured else "tags"
        thinking = {None: "default", True: "on", False: "off"}[self._thinking]
        warmth = f"{self._sampling.temperature:g}" if self._sends_temperature else "default"
        return (
            f"{self._chat.engine} silver:{self._prompt.digest[:_SHOWN]} {form} "
            f"temperature={warmth} seed={self._sampling.seed} "
            f"max_tokens={self._sampling.max_tokens} thinking={thinking}"
        )

    def decompose(self, pairs: Sequence[tuple[str, str]]) -> list[list[str] | None]:
        """Sub-questions of each ``(evidence, claim)`` pair; null where no answer came.

        Raises:
            EngineError: a ceiling was reached, no endpoint answers, or more than
                ``most_unanswered`` of the pairs so far got no answer. What was answered is
                in the client's cache, and costs nothing when it is asked for again.
        """
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
        outcomes = self._chat.complete(requests, parse=read_questions)
        self._verdict.note(outcomes)
        self._verdict.refuse(f"decomposer '{self.engine}'", self.answered_before())
        return [
            None if isinstance(outcome, ChatFailure) else read_questions(outcome.text)
            for outcome in outcomes
        ]
