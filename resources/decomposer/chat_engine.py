"""Silver sub-questions from a chat model (paper, "Silver Decomposition").

A failed request is a null answer, as long as few fail: claims are dropped for what a model
answers, never for a wrong key, an outage or a spent budget (``resources.chat.engine``).
"""

from collections.abc import Sequence
from dataclasses import replace

from decomposerl.chat import Chat, ChatFailure, ChatRequest, Sampling
from decomposerl.errors import ConfigError
from decomposerl.prompts.silver import read_questions, silver_request
from decomposerl.prompts.template import PromptFile
from resources.chat.engine import ChatEngine
from resources.store.prompts import AGAIN, load_prompt
from resources.store.stored_engine import Pair

MOST_UNANSWERED = 0.05
_DIGEST_DIGITS = 12


class ChatDecomposer(ChatEngine[Pair]):
    """A ``Decomposer`` that sends one chat request per pair."""

    _port = "decomposer"

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
        again: PromptFile | None = None,
        batch_size: int = 1024,
    ) -> None:
        """``structured`` requests JSON by schema; ``thinking`` switches a reasoning model's.

        ``most_unanswered`` is the share of pairs, 0..1, that may stay without an answer; 1
        allows any share. ``sends_temperature`` is false for models that accept none. ``again``
        has the lines of repeated requests (None: the package's ``again.md``).
        """
        if not 0 <= most_unanswered <= 1:
            raise ConfigError(f"most_unanswered is {most_unanswered:g}; it is a share, 0..1")
        super().__init__(chat, batch_size, most_unanswered)
        self._prompt, self._sampling = prompt, sampling
        self._structured, self._thinking = structured, thinking
        self._sends_temperature = sends_temperature
        form = "json" if structured else "silver"
        self._again = (again or load_prompt(AGAIN)).filled(form)

    @property
    def engine(self) -> str:
        """Model, prompt and settings: answers under different ones are never mixed."""
        form = "json" if self._structured else "tags"
        thinking = {None: "default", True: "on", False: "off"}[self._thinking]
        temperature = f"{self._sampling.temperature:g}" if self._sends_temperature else "default"
        return (
            f"{self._chat.engine} silver:{self._prompt.digest[:_DIGEST_DIGITS]} {form} "
            f"temperature={temperature} seed={self._sampling.seed} "
            f"max_tokens={self._sampling.max_tokens} thinking={thinking}"
        )

    def decompose(self, pairs: Sequence[Pair]) -> list[list[str] | None]:
        """Sub-questions of each ``(evidence, claim)`` pair; null where no answer came.

        Raises:
            EngineError: a ceiling was reached, no endpoint answers, or more than
                ``most_unanswered`` of the pairs so far got no answer. What was answered is
                stored, and costs nothing when it is needed again.
        """
        answers = self._answers(
            pairs, lambda pair: [self._request(pair)], lambda reply: read_questions(reply.text)
        )
        return [None if isinstance(answer, ChatFailure) else list(answer) for (answer,) in answers]

    def _request(self, pair: Pair) -> ChatRequest:
        asked = silver_request(
            self._prompt,
            pair,
            self._sampling,
            structured=self._structured,
            thinking=self._thinking,
        )
        return replace(asked, again=self._again)
