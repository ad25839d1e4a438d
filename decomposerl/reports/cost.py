"""Estimates what a run of the funnel will cost: calls, tokens, money and GPU-hours by port.

Prices and speeds are settings; what a run really used is recorded by the engines.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

from decomposerl.chat import Price

Port = Literal["entities", "verifier", "embedder", "decomposer", "judge"]
Amount = Literal["dollars", "gpu_hours"]
PER_PRICE = 1_000_000
_UNKNOWN = "–"
SECONDS_AN_HOUR = 3_600


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


BENCHMARK_CLAIMS = 50_000
"""Claims of the eleven test sets, embedded too. Assumed: the paper does not give the number."""
_BAND = 24_355
PAPER = Workload(155_506, 76_347, _BAND + BENCHMARK_CLAIMS, _BAND, 30.0, 1_000.0, measured=False)
"""The paper's pool (section "Data Curation"): 155,506 claims read; 24,355 in the band, which is
31.9 % of what the verifier saw. The number after deduplication is not given, so the band is an
upper bound. Mean lengths are assumed."""


@dataclass(frozen=True, slots=True)
class EngineCost:
    """Tokens that an engine adds to each row, and what its tokens cost.

    ``prompt_overhead`` is the prompt around a row and ``completion`` a mean reply, in tokens.
    ``price`` is None for an engine that costs no money, ``tokens_per_s`` (prompt and completion
    together, of one card) for one that uses no GPU of yours. ``unknown`` is an amount that it has
    and that no published figure gives.
    """

    port: Port
    engine: str
    prompt_overhead: float = 0.0
    completion: float = 0.0
    price: Price | None = None
    tokens_per_s: float | None = None
    unknown: Amount | None = None


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


def estimate(work: Workload, engines: Iterable[EngineCost]) -> list[CostLine]:
    """One line per engine, in the order given.

    Calls are an upper bound: no stored result and no repeated row is assumed.
    """
    return [_line(work, engine) for engine in engines]


def _line(work: Workload, engine: EngineCost) -> CostLine:
    calls = work.items(engine.port)
    prompt = calls * (work.tokens(engine.port) + engine.prompt_overhead)
    completion = calls * engine.completion
    return CostLine(
        engine.port,
        engine.engine,
        calls,
        round(prompt),
        round(completion),
        _dollars(prompt, completion, engine.price),
        _gpu_hours(prompt + completion, engine.tokens_per_s),
        engine.unknown,
    )


def judge_cost(
    calls: int,
    tokens: tuple[int, int],
    engine: str,
    price: Price | None,
    tokens_per_s: float | None,
) -> CostLine:
    """The judge's line for known ``tokens``: those of prompts and of completions."""
    dollars, hours = _dollars(*tokens, price), _gpu_hours(sum(tokens), tokens_per_s)
    return CostLine("judge", engine, calls, *tokens, dollars, hours)


def _dollars(prompt: float, completion: float, price: Price | None) -> float | None:
    return None if price is None else price.dollars(prompt, completion)


def _gpu_hours(tokens: float, tokens_per_s: float | None) -> float | None:
    return None if tokens_per_s is None else tokens / tokens_per_s / SECONDS_AN_HOUR


def cost_totals(lines: Sequence[CostLine]) -> tuple[int, int, float, float]:
    """Calls, tokens, dollars and GPU-hours of all lines, as far as they are known."""
    return (
        sum(line.calls for line in lines),
        sum(line.prompt_tokens + line.completion_tokens for line in lines),
        sum(line.dollars or 0.0 for line in lines),
        sum(line.gpu_hours or 0.0 for line in lines),
    )


def cost_rows(lines: Sequence[CostLine]) -> list[tuple[str, ...]]:
    """The lines and their total as cells: port, engine, calls, tokens, dollars, GPU-hours.

    An unknown amount is a dash; a total with one is "≥" what is known, a dash where nothing is.
    """
    rows = [
        (
            line.port,
            line.engine,
            f"{line.calls:,}",
            _millions(line.prompt_tokens + line.completion_tokens),
            _amount(line, "dollars", 2),
            _amount(line, "gpu_hours", 1),
        )
        for line in lines
    ]
    calls, tokens, dollars, hours = cost_totals(lines)
    missing = at_least(lines)
    money = _total(dollars, 2, partial="dollars" in missing)
    time = _total(hours, 1, partial="gpu_hours" in missing)
    return [*rows, ("total", "", f"{calls:,}", _millions(tokens), money, time)]


def at_least(lines: Sequence[CostLine]) -> list[Amount]:
    """The totals that lack an unknown part."""
    return sorted(
        {one.unknown for one in lines if one.unknown and _known(one, one.unknown) is None}
    )


def _known(line: CostLine, name: Amount) -> float | None:
    return line.dollars if name == "dollars" else line.gpu_hours


def _amount(line: CostLine, name: Amount, decimals: int) -> str:
    known = _known(line, name)
    if known is None:
        return _UNKNOWN if line.unknown == name else ""
    return f"{known:,.{decimals}f}"


def _total(amount: float, decimals: int, *, partial: bool) -> str:
    shown = f"{amount:,.{decimals}f}"
    return shown if not partial else f"≥ {shown}" if amount else _UNKNOWN


def _millions(tokens: int) -> str:
    return f"{tokens / PER_PRICE:,.1f} M"
