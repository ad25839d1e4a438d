"""MiniCheck's input form, the request to its 7B model, and that model's one-token reply.

Each MiniCheck model was trained on one fixed form. That text is its publisher's and is not part of
this project: it is read where the engine runs. ``minicheck.md`` is this project's own text for the
same contract; answers to it carry ``prompt=own`` in the engine's name.
"""

import math
from dataclasses import dataclass
from typing import Literal

from decomposerl.chat import ChatReply, ChatRequest, Message, Sampling
from decomposerl.errors import ConfigError
from decomposerl.prompts.template import PromptFile

NAME = "minicheck"
TOP_LOGPROBS = 5
SAMPLING = Sampling(temperature=0.0, seed=2024, max_tokens=1, top_logprobs=TOP_LOGPROBS)
Origin = Literal["published", "file", "own"]
"""The publisher's installed package, the user's ``minicheck.md``, or this project's text."""
Use = Literal["chat", "pair"]
"""``chat``: the messages to the 7B model; ``pair``: the text for Flan-T5."""
OWN_NOTE = (
    "prompt=own: MiniCheck was asked in this project's words, not in the form that it was trained "
    "on; its scores are not those of the published model."
)
_OWN = "prompt=own@"
_DIGEST_DIGITS = 12
_PAIR = "{document}{separator}{claim}"
_BEFORE_A_WORD = " \N{LOWER ONE EIGHTH BLOCK}"  # what tokenizers write for a space


@dataclass(frozen=True, slots=True)
class MiniCheckForm:
    """The text around document and claim, and where it came from.

    Sections ``system`` and ``user`` are for the 7B model, ``pair`` for Flan-T5.
    """

    origin: Origin
    prompt: PromptFile

    @property
    def label(self) -> str:
        """``prompt=<origin>@<digest>``, a part of the engine's name."""
        return f"prompt={self.origin}@{self.prompt.digest[:_DIGEST_DIGITS]}"

    @property
    def prefix(self) -> str:
        """What stands before the document in the section ``pair``.

        Raises:
            ConfigError: there is no such section, or more than a prefix is in it.
        """
        text = self.prompt.filled(
            "pair", **{k: f"{{{k}}}" for k in ("document", "separator", "claim")}
        )
        if not text.endswith(_PAIR):
            raise ConfigError(
                f"prompt '{self.prompt.name}', section 'pair': it must end with {_PAIR}"
            )
        return text.removesuffix(_PAIR)

    def request(self, document: str, claim: str) -> ChatRequest:
        """The request for one token about a chunk and a claim, with its top log-probabilities.

        Raises:
            ConfigError: the prompt file lacks a section or a placeholder.
        """
        messages = (
            Message("system", self.prompt.filled("system")),
            Message("user", self.prompt.filled("user", document=document, claim=claim)),
        )
        return ChatRequest(messages, SAMPLING, self.prompt.template)

    @staticmethod
    def support(reply: ChatReply[object]) -> tuple[float, float]:
        """Probability mass of the first tokens that are the word "yes", and the word "no".

        Letter case does not count, and neither does a space (also written ``▁``) before the word.
        One word that is not among the top five has mass 0.

        Raises:
            ValueError: the reply has no log probabilities of its first token, or neither word is
                among the top five: then nothing is known about the claim.
        """
        if not reply.tokens or not reply.tokens[0].alternatives:
            raise ValueError("the reply carries no log probabilities of its first token")
        mass = {"yes": 0.0, "no": 0.0}
        listed = reply.tokens[0].alternatives[:TOP_LOGPROBS]
        words = [(text.lstrip(_BEFORE_A_WORD).lower(), chance) for text, chance in listed]
        if not mass.keys() & {word for word, _ in words}:
            raise ValueError("neither yes nor no is among the likeliest first tokens")
        for word, chance in words:
            if word in mass:
                mass[word] += math.exp(chance)
        return min(mass["yes"], 1.0), min(mass["no"], 1.0)

    def check(self, use: Use) -> None:
        """Raise where the form has not what ``use`` needs.

        Raises:
            ConfigError: it lacks a section or a placeholder.
        """
        _ = self.prefix if use == "pair" else self.request("", "")


def own_prompt_note(engines: str) -> str:
    """``OWN_NOTE`` where one of the engine names has this project's text, else empty."""
    return OWN_NOTE if _OWN in engines else ""
