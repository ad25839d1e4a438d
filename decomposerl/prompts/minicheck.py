"""The request to Bespoke-MiniCheck-7B and its one-token reply.

The wording of ``minicheck.md`` is this project's, for the public model's contract: a system
message that requests Yes or No, a user message of a document line and a claim line. The model was
trained with its publisher's wording; to use exactly that, provide your own ``minicheck.md``.
"""

import math

from decomposerl.chat import ChatReply, ChatRequest, Message, Sampling
from decomposerl.prompts.template import PromptFile

NAME = "minicheck"
TOP_LOGPROBS = 5
SAMPLING = Sampling(temperature=0.0, seed=2024, max_tokens=1, top_logprobs=TOP_LOGPROBS)


def minicheck_request(prompt: PromptFile, document: str, claim: str) -> ChatRequest:
    """The request for one token about a chunk and a claim, with its top log-probabilities.

    Raises:
        ConfigError: the prompt file lacks a section or a placeholder.
    """
    messages = (
        Message("system", prompt.filled("system")),
        Message("user", prompt.filled("user", document=document, claim=claim)),
    )
    return ChatRequest(messages, SAMPLING, prompt.template)


def yes_and_no(reply: ChatReply[object]) -> tuple[float, float]:
    """Probability mass of the first tokens that are exactly "yes", and exactly "no".

    Case-insensitive, but white space counts: " Yes" is another token, as in the public code. A
    word that is not among the top five has mass 0.

    Raises:
        ValueError: the reply has no log probabilities of its first token.
    """
    if not reply.tokens or not reply.tokens[0].alternatives:
        raise ValueError("the reply carries no log probabilities of its first token")
    mass = {"yes": 0.0, "no": 0.0}
    for text, logprob in reply.tokens[0].alternatives[:TOP_LOGPROBS]:
        if text.lower() in mass:
            mass[text.lower()] += math.exp(logprob)
    return min(mass["yes"], 1.0), min(mass["no"], 1.0)
