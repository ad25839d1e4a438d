"""What calls cost: counters, estimates of tokens, and ceilings.

Calls in flight are reserved at their largest possible size, so a ceiling in tokens or money
is not exceeded unless a prompt has more tokens than estimated. Reported usage counts where it
is plausible for the request, else the estimate does.
"""

import asyncio
from threading import Lock

from decomposerl.chat import ChatRequest, Price
from decomposerl.endpoint import Endpoint

Tokens = tuple[int, int]
"""Of a prompt and of its reply."""
COUNTERS = (
    "asked",  # requests received
    "hits",  # distinct requests answered from the store
    "shared",  # requests answered by an equal one of the same batch or in flight
    "calls",  # HTTP requests, the package's retries included
    "retries",  # calls that repeated a failed one
    "estimated",  # calls without plausible reported usage, accounted with an estimate
    "prompt_tokens",  # as the replies report them, else estimated
    "completion_tokens",
    "money_usd",  # by the endpoint's prices
    "busy_s",  # wall time in which at least one request was waited for
)
_CHARACTERS_A_TOKEN = 3.0  # English has about four; three leaves room for tables and names
_TOKENS_A_MESSAGE = 8
_TEMPLATE_TOKENS = 1_024  # the most that chat templates add: a system prompt, a schema's frame


def estimated_tokens(request: ChatRequest) -> Tokens:
    """The most that a call may use: its prompt's characters and its token budget say it."""
    characters = sum(len(turn.content) for turn in request.messages)
    prompt = characters / _CHARACTERS_A_TOKEN + _TOKENS_A_MESSAGE * len(request.messages)
    return int(prompt) + 1, request.sampling.max_tokens


def plausible_tokens(reported: object, request: ChatRequest, text: str) -> Tokens | None:
    """The ``usage`` of a reply with this text; None where the request cannot have used that.

    A prompt has from one token to one per byte and those of the template; a reply has from one,
    if it has text, to ``max_tokens``.
    """
    usage = reported if isinstance(reported, dict) else {}
    prompt, completion = usage.get("prompt_tokens"), usage.get("completion_tokens")
    if type(prompt) is not int or type(completion) is not int:  # True is no number of tokens
        return None
    most = len(request.canonical("", "").encode("utf-8", "replace")) + _TEMPLATE_TOKENS
    fits = 1 <= prompt <= most and bool(text) <= completion <= request.sampling.max_tokens
    return (prompt, completion) if fits else None


class Counts(dict[str, float]):
    """Counters of one client by name, with failures as ``failed_<reason>``; threads share them."""

    def __init__(self) -> None:
        """All of ``COUNTERS`` are 0."""
        super().__init__(dict.fromkeys(COUNTERS, 0))
        self._lock = Lock()

    def add(self, **amounts: float) -> None:
        """Add to the counters of these names."""
        with self._lock:
            for name, amount in amounts.items():
                self[name] = self.get(name, 0) + amount


class Budget:
    """Reservations against the ceilings of an endpoint, inside one event loop."""

    def __init__(self, endpoint: Endpoint, counts: Counts) -> None:
        """``counts`` accounts usage and is what the ceilings are compared with."""
        self._ceilings, self._price, self._counts = endpoint, endpoint.price or Price(), counts
        self._in_flight, self._reserved = 0, (0, 0)
        self._settled = asyncio.Event()
        self.spent_at = ""
        """The ceiling that stopped the run, empty while none has."""

    async def reserve(self, expected: Tokens) -> bool:
        """Whether the ceilings allow a request, which is then counted, and to be released.

        Waits while requests in flight may leave room. After the first refusal every later request
        is refused at once.
        """
        while not self.spent_at and (reached := self._reached(expected)):
            if not self._in_flight:
                self.spent_at = reached
                break
            self._settled.clear()
            await self._settled.wait()
        if not self.spent_at:
            self._book(expected, 1)
            self._counts.add(calls=1)
        return not self.spent_at

    def release(self, expected: Tokens) -> None:
        """Free the reservation of a request."""
        self._book(expected, -1)
        self._settled.set()

    def spend(self, used: Tokens, *, estimated: bool, retries: int = 0) -> None:
        """Account what a request used, and its calls but the first."""
        prompt, completion = used
        self._counts.add(
            calls=retries,
            retries=retries,
            prompt_tokens=prompt,
            completion_tokens=completion,
            money_usd=self._price.dollars(prompt, completion),
            estimated=estimated,
        )

    def _reached(self, expected: Tokens) -> str:
        """The ceiling that a further request would exceed if all in flight use their estimates."""
        most, counts = self._ceilings, self._counts
        prompt, completion = (sum(both) for both in zip(self._reserved, expected, strict=True))
        tokens = counts["prompt_tokens"] + counts["completion_tokens"] + prompt + completion
        if most.calls and counts["calls"] + 1 > most.calls:
            return f"ceiling of {most.calls:,} calls"
        if most.tokens and tokens > most.tokens:
            return f"ceiling of {most.tokens:,} tokens"
        dollars = counts["money_usd"] + self._price.dollars(prompt, completion)
        if most.dollars and dollars > most.dollars:
            return f"ceiling of {most.dollars:,.2f} US dollars"
        return ""

    def _book(self, expected: Tokens, sign: int) -> None:
        prompt, completion = self._reserved
        self._reserved = prompt + sign * expected[0], completion + sign * expected[1]
        self._in_flight += sign
