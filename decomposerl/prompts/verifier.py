"""How a verifier is asked whether evidence supports a claim, and how its reply is read.

A user's own says in its own words whether it does: yes and no, or words such as attributable.
``VerifierForm`` holds them with the text around evidence and claim, or no text where the model's
chat template takes the evidence as a document (Granite Guardian). Evidence and claim are escaped,
so that they cannot forge a token of a chat template.

Each MiniCheck model was trained on one fixed form. That text is its publisher's and is not part of
this project: it is read where the engine runs. ``minicheck.md`` is this project's own text for the
same contract; answers to it carry ``prompt=own`` in the engine's name. A MiniCheck form is sent and
read to the letter, as its publisher's code does.
"""

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from decomposerl.chat import ChatReply, ChatRequest, Message, Sampling, Template, Token
from decomposerl.errors import ConfigError
from decomposerl.prompts.escape import escaped
from decomposerl.prompts.template import PromptFile

NAME = "minicheck"
TOP_LOGPROBS = 5
MINICHECK_SAMPLING = Sampling(temperature=0.0, seed=2024, max_tokens=1, top_logprobs=TOP_LOGPROBS)
Origin = Literal["published", "file", "own"]
"""The publisher's installed package, the user's ``minicheck.md``, or this project's text."""
Use = Literal["chat", "pair"]
"""``chat``: the messages to the 7B model; ``pair``: the text for Flan-T5."""
OWN_NOTE = (
    "prompt=own: MiniCheck was asked in this project's words, not in the form that it was trained "
    "on; its scores are not those of the published model."
)
_OWN = "prompt=own@"
_PAIR = "{document}{separator}{claim}"
_BEFORE_A_WORD = " \N{LOWER ONE EIGHTH BLOCK}"  # what tokenizers write for a space
ONE_TOKEN = Sampling(max_tokens=1, top_logprobs=TOP_LOGPROBS)
_THOUGHT = "</think>"
_EDGES = " \t\n\r\N{LOWER ONE EIGHTH BLOCK}\N{LATIN CAPITAL LETTER G WITH DOT ABOVE}\"'*[(<>.,:;!)]"
_LEAST = 3  # letters of a token that may stand for a longer word


def own_prompt_note(engines: str) -> str:
    """``OWN_NOTE`` where one of the engine names has this project's text, else empty."""
    return OWN_NOTE if _OWN in engines else ""


@dataclass(frozen=True, slots=True)
class VerifierForm:
    """How a verifier is asked and read.

    ``prompt`` has the section ``user`` and may have ``system``; None sends the evidence as a
    document and the claim as the assistant's message, with ``template`` (JSON) for the chat
    template. ``supported`` and ``refuted`` are its words in any case, ``label`` names the prompt in
    the engine's name. ``origin`` is that of a MiniCheck form: its words are read as they stand,
    among the top five first tokens, where a space (also written ``▁``) may come before them.
    """

    prompt: PromptFile | None
    supported: tuple[str, ...] = ("yes",)
    refuted: tuple[str, ...] = ("no",)
    read: Literal["logprobs", "text"] = "logprobs"
    sampling: Sampling = ONE_TOKEN
    template: str = ""
    label: str = ""
    origin: Origin | None = None

    def request(self, document: str, claim: str) -> ChatRequest:
        """The request about a chunk and a claim.

        Raises:
            ConfigError: the prompt lacks a section or a placeholder.
        """
        if self.origin is None:
            document, claim = escaped(document), escaped(claim)
        if self.prompt is None:
            return ChatRequest(
                (Message("assistant", claim),),
                self.sampling,
                Template("documents", ""),
                documents=(document,),
                template_arguments=self.template,
            )
        system = self.prompt.sections.get("system")
        if self.origin is not None:
            system = self.prompt.filled("system")
        user = Message("user", self.prompt.filled("user", document=document, claim=claim))
        messages = (user,) if system is None else (Message("system", system), user)
        return ChatRequest(messages, self.sampling, self.prompt.template)

    def support(self, reply: ChatReply[object]) -> tuple[float, float]:
        """Probability of support and of its denial; from the text alone 1 and 0, or 0 and 1.

        Raises:
            ValueError: the reply has neither a word of support nor of denial, or no log
                probabilities where they are read.
        """
        if self.read == "text":
            return self._spelled(reply.text)
        if not reply.tokens or not reply.tokens[0].alternatives:
            raise ValueError("the reply carries no log probabilities")
        token = self._verdict_token(reply.tokens)
        masses = [self._mass(token, words) for words in (self.supported, self.refuted)]
        if not any(masses):
            words = ", ".join((*self.supported, *self.refuted))
            raise ValueError(f"none of {words} is among the likeliest tokens")
        return masses[0], masses[1]

    def _spelled(self, text: str) -> tuple[float, float]:
        """By the last of its words in the text; the longest where one holds another."""
        words = sorted((*self.supported, *self.refuted), key=len, reverse=True)
        pattern = "|".join(rf"(?<!\w){re.escape(word)}(?!\w)" for word in words)
        said = re.findall(pattern, text.rpartition(_THOUGHT)[2], re.IGNORECASE)
        if not said:
            raise ValueError(f"the reply holds none of {', '.join(words)}")
        supported = said[-1].casefold() in {word.casefold() for word in self.supported}
        return (1.0, 0.0) if supported else (0.0, 1.0)

    def _verdict_token(self, tokens: Sequence[Token]) -> Token:
        """The first token behind a thought that spells one of its words, else the first of all."""
        said = "".join(token.text for token in tokens)
        place, start = 0, said.rfind(_THOUGHT) + len(_THOUGHT) if _THOUGHT in said else 0
        for token in tokens:
            if place >= start and _begins(token.text, (*self.supported, *self.refuted)):
                return token
            place += len(token.text)
        return tokens[0]

    def _mass(self, token: Token, words: Sequence[str]) -> float:
        if self.origin is None:
            likely = [chance for text, chance in token.alternatives if _begins(text, words)]
        else:
            listed = token.alternatives[:TOP_LOGPROBS]
            likely = [c for text, c in listed if text.lstrip(_BEFORE_A_WORD).lower() in words]
        return min(sum(map(math.exp, likely), 0.0), 1.0)


def minicheck(origin: Origin, prompt: PromptFile) -> VerifierForm:
    """MiniCheck's form: sections ``system`` and ``user`` for the 7B model, ``pair`` for Flan-T5."""
    label = f"prompt={origin}@{prompt.digest[:12]}"
    return VerifierForm(prompt, sampling=MINICHECK_SAMPLING, label=label, origin=origin)


def pair_prefix(prompt: PromptFile | None) -> str:
    """What stands before the document in the section ``pair`` of a MiniCheck form.

    Raises:
        ConfigError: there is no such section, or more than a prefix is in it.
    """
    names = ("document", "separator", "claim")
    text = prompt.filled("pair", **{k: f"{{{k}}}" for k in names}) if prompt else ""
    if not text.endswith(_PAIR):
        raise ConfigError(f"prompt '{NAME}', section 'pair': it must end with {_PAIR}")
    return text.removesuffix(_PAIR)


def _begins(token: str, words: Sequence[str]) -> bool:
    """Whether a token is one of the words, or a beginning of at least three letters."""
    text = token.strip(_EDGES).casefold()
    alike = [word.casefold() for word in words]
    return text in alike or (len(text) >= _LEAST and any(one.startswith(text) for one in alike))
