"""The question put to Bespoke-MiniCheck-7B and its one-token reply.

Takes a prompt file, a chunk and a claim, gives the request; takes a reply, gives the
probability masses of yes and no among the five likeliest first tokens.

The words of ``minicheck.md`` are this project's, written to the public model's contract (a
system message that asks for Yes or No, a user message of a document line and a claim line).
The model was trained under its publisher's words: a user who wants exactly those puts them
into a ``minicheck.md`` of their own.

Left out deliberately: chunks and how their scores are combined (``resources.verifier``).
"""

import math

from decomposerl.chat import ChatReply, ChatRequest, Message, Sampling
from decomposerl.prompts.template import PromptFile

NAME = "minicheck"
LIKELIEST = 5
SAMPLING = Sampling(temperature=0.0, seed=2024, max_tokens=1, top_logprobs=LIKELIEST)


def minicheck_request(prompt: PromptFile, document: str, claim: str) -> ChatRequest:
    """One token about one chunk and one claim, with the five likeliest.

    Raises:
        ConfigError: the prompt file lacks a section or a place.
    """
    messages = (
        Message("system", prompt.filled("system")),
        Message("user", prompt.filled("user", document=document, claim=claim)),
    )
    return ChatRequest(messages, SAMPLING, prompt.template)


def yes_and_no(reply: ChatReply[object]) -> tuple[float, float]:
    """Probability mass of the first tokens that are exactly "yes", and exactly "no".

    Letter case does not count and white space does: " Yes" is another token, as in the
    public code. A word that is not among the five has mass 0.

    Raises:
        ValueError: the reply carries no alternatives to its first token.
    """
    if not reply.tokens or not reply.tokens[0].alternatives:
        raise ValueError("the reply carries no log probabilities of its first token")
    mass = {"yes": 0.0, "no": 0.0}
    for text, logprob in reply.tokens[0].alternatives[:LIKELIEST]:
        if text.lower() in mass:
            mass[text.lower()] += math.exp(logprob)
    return min(mass["yes"], 1.0), min(mass["no"], 1.0)
