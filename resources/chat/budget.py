"""Spending limits of a run: estimates before a call, accounting after it.

Calls in flight are reserved at their largest possible size, so a ceiling in tokens or money
is not exceeded unless a prompt has more tokens than estimated. Reported usage counts where it
is plausible for the request, else the estimate does.
"""

import asyncio
from dataclasses import dataclass

from decomposerl.chat import ChatRequest, Price
from resources.chat.counts import Counts
from resources.chat.settings import Ceilings

_CHARACTERS_A_TOKEN = 3.0  # English has about four; three leaves room for tables and names
_TOKENS_A_MESSAGE = 8
_TEMPLATE_TOKENS = 1_024  # the most that chat templates add: a system prompt, a schema's frame


@dataclass(frozen=True, slots=True)
class TokenEstimate:
    """The most tokens that a call is expected to use."""

    prompt_tokens: int
    completion_tokens: int

    @property
    def tokens(self) -> int:
        """Both together."""
        return self.prompt_tokens + self.completion_tokens

    @classmethod
    def of(cls, request: ChatRequest) -> "TokenEstimate":
        """Prompt tokens from its characters, completion tokens from its budget."""
        characters = sum(len(turn.content) for turn in request.messages)
        prompt = characters / _CHARACTERS_A_TOKEN + _TOKENS_A_MESSAGE * len(request.messages)
        return cls(int(prompt) + 1, request.sampling.max_tokens)


@dataclass(frozen=True, slots=True)
class Usage:
    """Tokens that a call is accounted with; ``estimated`` where not as reported."""

    prompt_tokens: int
    completion_tokens: int
    estimated: bool = False
    implausible: bool = False
    """Whether the reply reported something that the request cannot have used."""

    @classmethod
    def of(cls, reported: object, request: ChatRequest, text: str) -> "Usage":
        """The ``usage`` of a reply with this text; an estimate where a number is implausible."""
        # A prompt has from one token to one per byte, and at most 1,024 for the template; a
        # reply has from one token, if it has text, to ``max_tokens``.
        usage = reported if isinstance(reported, dict) else {}
        size = sum(len(turn.content.encode("utf-8", "replace")) for turn in request.messages)
        most = size + len(request.schema or "") + _TEMPLATE_TOKENS
        most += _TOKENS_A_MESSAGE * len(request.messages)
        budget = request.sampling.max_tokens
        prompt = _within(usage.get("prompt_tokens"), 1, most)
        completion = _within(usage.get("completion_tokens"), int(bool(text)), budget)
        if prompt is not None and completion is not None:
            return cls(prompt, completion)
        guess = TokenEstimate.of(request)
        return cls(guess.prompt_tokens, guess.completion_tokens, True, bool(reported))


def _within(reported: object, least: int, most: int) -> int | None:
    """The number, None where it is not an integer in this range."""
    if not isinstance(reported, int) or isinstance(reported, bool):
        return None
    return reported if least <= reported <= most else None


class Budget:
    """Reservations against ceilings, inside one event loop."""

    def __init__(self, ceilings: Ceilings, price: Price, counts: Counts) -> None:
        """``counts`` accounts usage and is what the ceilings are compared with."""
        self._ceilings, self._price, self._counts = ceilings, price, counts
        self._reserved: dict[int, TokenEstimate] = {}
        self._reserved_tokens, self._reserved_money = 0, 0.0
        self._next, self._settled = 0, asyncio.Event()
        self.spent_at = ""
        """The ceiling that stopped the run, empty while none has."""

    async def reserve(self, estimate: TokenEstimate) -> int | None:
        """A number to settle the call with, None where a ceiling does not allow the call.

        Waits while calls in flight may leave room. After the first refusal every later call
        is refused at once.
        """
        while not self.spent_at and (reached := self._reached(estimate)):
            if not self._reserved:
                self.spent_at = reached
                break
            self._settled.clear()
            await self._settled.wait()
        if self.spent_at:
            return None
        self._next += 1
        self._reserved[self._next] = estimate
        self._book(estimate, 1)
        self._counts.add(calls=1)
        return self._next

    def settle(self, number: int, prompt_tokens: int, completion_tokens: int) -> None:
        """Account what the call used and free its reservation."""
        self._book(self._reserved.pop(number), -1)
        self._counts.add(
            prompt_tokens=prompt_tokens,
            completion_tokens=completion_tokens,
            money=self._price.dollars(prompt_tokens, completion_tokens),
        )
        self._settled.set()

    def release(self, number: int) -> None:
        """Free the reservation of a call that was not sent."""
        self._book(self._reserved.pop(number), -1)
        self._counts.add(calls=-1)
        self._settled.set()

    def _book(self, estimate: TokenEstimate, sign: int) -> None:
        self._reserved_tokens += sign * estimate.tokens
        self._reserved_money += sign * self._money(estimate)

    def _money(self, estimate: TokenEstimate) -> float:
        return self._price.dollars(estimate.prompt_tokens, estimate.completion_tokens)

    def _reached(self, estimate: TokenEstimate) -> str:
        """The ceiling that the call would exceed if all in flight use their estimates."""
        most, used = self._ceilings, self._counts
        tokens = used.tokens + self._reserved_tokens + estimate.tokens
        money = used.money + self._reserved_money + self._money(estimate)
        if most.calls is not None and used.calls + 1 > most.calls:
            return f"ceiling of {most.calls:,} calls"
        if most.tokens is not None and tokens > most.tokens:
            return f"ceiling of {most.tokens:,} tokens"
        if most.money is not None and money > most.money:
            return f"ceiling of {most.money:,.2f} US dollars"
        return ""
