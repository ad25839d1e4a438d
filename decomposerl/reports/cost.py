"""Estimates what a run of the funnel will cost: calls, tokens, money and GPU-hours by port.

Prices and speeds are settings; what a run really used is recorded by the engines.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from decomposerl.chat import Price

Port = Literal["entities", "verifier", "embedder", "decomposer", "judge"]
Amount = Literal["dollars", "gpu_hours"]
PER_PRICE = 1_000_000
_UNKNOWN = "–"
SECONDS_AN_HOUR = 3_600


@dataclass(frozen=True, slots=True)
class CostLine:
    """The estimate for one port; ``dollars`` and ``gpu_hours`` are None where it has none.

    The one in ``unknown``, if any, is None as no published figure gives it.
    """

    port: Port
    engine: str
    calls: int
    prompt_tokens: int
    completion_tokens: int
    dollars: float | None
    gpu_hours: float | None
    unknown: Amount | None = None
    cards: int = 1

    @property
    def hours(self) -> float | None:
        """Hours on the clock, with all of its cards at work."""
        return None if self.gpu_hours is None else self.gpu_hours / self.cards


@dataclass(frozen=True, slots=True)
class Rate:
    """What the tokens of an engine cost.

    ``price`` is None for an engine that costs no money, ``tokens_per_s`` (prompt and completion
    together, of one card) for one that uses no GPU of yours; ``cards`` work side by side.
    ``unknown`` is an amount that it has and that no published figure gives.
    """

    price: Price | None = None
    tokens_per_s: float | None = None
    unknown: Amount | None = None
    cards: int = 1

    def line(
        self, port: Port, engine: str, calls: int, prompt: float, completion: float
    ) -> CostLine:
        """The line of a port, for this many calls and tokens of prompts and completions."""
        tokens, speed = prompt + completion, self.tokens_per_s
        return CostLine(
            port,
            engine,
            calls,
            round(prompt),
            round(completion),
            None if self.price is None else self.price.dollars(prompt, completion),
            None if speed is None else tokens / speed / SECONDS_AN_HOUR,
            self.unknown,
            self.cards,
        )


FREE = Rate()


@dataclass(frozen=True, slots=True)
class Workload:
    """Rows that reach each port, and mean lengths in tokens.

    ``embedder`` includes the claims of the test sets, which decontamination embeds too.
    ``measured``: rows and lengths were counted, not assumed.
    """

    entities: int
    verifier: int
    embedder: int
    decomposer: int
    claim_tokens: float
    evidence_tokens: float
    measured: bool

    def items(self, port: Port) -> int:
        """Number of rows of a port."""
        return int(getattr(self, port))

    def tokens(self, port: Port) -> float:
        """Mean tokens of one row: the claim, and for verifier and decomposer its evidence."""
        with_evidence = port in {"verifier", "decomposer"}
        return self.claim_tokens + (self.evidence_tokens if with_evidence else 0.0)

    def line(
        self, port: Port, engine: str, rate: Rate, overhead: float = 0.0, completion: float = 0.0
    ) -> CostLine:
        """The estimate for a port, whose rows have ``overhead`` more tokens and such a mean reply.

        Calls are an upper bound: no stored result and no repeated row is assumed.
        """
        calls = self.items(port)
        prompt = calls * (self.tokens(port) + overhead)
        return rate.line(port, engine, calls, prompt, calls * completion)


BENCHMARK_CLAIMS = 50_000
"""Claims of the eleven test sets, embedded too. Assumed: the paper does not give the number."""
_BAND = 24_355
PAPER = Workload(155_506, 76_347, _BAND + BENCHMARK_CLAIMS, _BAND, 30.0, 1_000.0, measured=False)
"""The paper's pool (section "Data Curation"): 155,506 claims read; 24,355 in the band, which is
31.9 % of what the verifier saw. The number after deduplication is not given, so the band is an
upper bound. Mean lengths are assumed."""


def cost_totals(lines: Sequence[CostLine]) -> tuple[int, int, float, float]:
    """Calls, tokens, dollars and GPU-hours of all lines, as far as they are known."""
    return (
        sum(line.calls for line in lines),
        sum(line.prompt_tokens + line.completion_tokens for line in lines),
        sum(line.dollars or 0.0 for line in lines),
        sum(line.gpu_hours or 0.0 for line in lines),
    )


def clock_hours(lines: Sequence[CostLine], *, at_once: bool) -> float:
    """Hours on the clock: of ports that work at once the longest, of others the sum."""
    hours = [line.hours or 0.0 for line in lines]
    return max(hours, default=0.0) if at_once else sum(hours)


def cost_rows(lines: Sequence[CostLine], *, at_once: bool = False) -> list[tuple[str, ...]]:
    """The lines and their total: port, engine, calls, tokens, dollars, GPU-hours, clock hours.

    An unknown amount is a dash; a total with one is "≥" what is known, a dash where nothing is.
    """
    rows = [
        (
            line.port,
            line.engine,
            f"{line.calls:,}",
            _millions(line.prompt_tokens + line.completion_tokens),
            _amount(line.dollars, 2, unknown=line.unknown == "dollars"),
            _amount(line.gpu_hours, 1, unknown=line.unknown == "gpu_hours"),
            _amount(line.hours, 1, unknown=line.unknown == "gpu_hours"),
        )
        for line in lines
    ]
    calls, tokens, dollars, hours = cost_totals(lines)
    missing = at_least(lines)
    money = _total(dollars, 2, partial="dollars" in missing)
    times = (hours, clock_hours(lines, at_once=at_once))
    spent = (_total(one, 1, partial="gpu_hours" in missing) for one in times)
    return [*rows, ("total", "", f"{calls:,}", _millions(tokens), money, *spent)]


def at_least(lines: Sequence[CostLine]) -> list[Amount]:
    """The totals that lack an unknown part."""
    return sorted({line.unknown for line in lines if line.unknown and _lacks(line, line.unknown)})


def _lacks(line: CostLine, name: Amount) -> bool:
    return (line.dollars if name == "dollars" else line.gpu_hours) is None


def _amount(known: float | None, decimals: int, *, unknown: bool) -> str:
    if known is None:
        return _UNKNOWN * unknown
    return f"{known:,.{decimals}f}"


def _total(amount: float, decimals: int, *, partial: bool) -> str:
    shown = f"{amount:,.{decimals}f}"
    return shown if not partial else f"≥ {shown}" if amount else _UNKNOWN


def _millions(tokens: int) -> str:
    return f"{tokens / PER_PRICE:,.1f} M"
