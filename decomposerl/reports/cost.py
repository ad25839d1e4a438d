"""What a run of the funnel will ask of its engines, reckoned before anything is spent.

Takes how many rows reach each port and how long they are, and what an engine costs; gives
calls, tokens, money and GPU-hours, a line a port. An estimate is an upper bound in calls
(nothing stored, nothing repeated) and as good as its mean lengths in tokens.

Left out deliberately: prices and speeds, which are settings, and the accounts after a run,
which the engines keep.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

from decomposerl.chat import Price

Port = Literal["entities", "verifier", "embedder", "decomposer", "judge"]
PER_PRICE = 1_000_000
SECONDS_AN_HOUR = 3_600


@dataclass(frozen=True, slots=True)
class Workload:
    """Rows that reach each port, and mean lengths in tokens.

    ``embedder`` counts the claims of the test sets too: contamination is looked for in them.
    ``measured`` says that lengths and rows were counted, not assumed.
    """

    entities: int
    verifier: int
    embedder: int
    decomposer: int
    claim_tokens: float
    evidence_tokens: float
    measured: bool

    def items(self, port: Port) -> int:
        """Rows that a port is asked about."""
        return int(getattr(self, port))

    def tokens(self, port: Port) -> float:
        """Mean tokens of one item: a claim, and for two ports its evidence too."""
        with_evidence = port in {"verifier", "decomposer"}
        return self.claim_tokens + (self.evidence_tokens if with_evidence else 0.0)


BENCHMARK_CLAIMS = 50_000
"""Claims of the eleven test sets that the embedder reads besides: assumed, the paper has no sum."""
_BAND = 24_355
PAPER = Workload(155_506, 76_347, _BAND + BENCHMARK_CLAIMS, _BAND, 30.0, 1_000.0, measured=False)
"""The paper's pool (section "Data Curation"): 155,506 claims read; 24,355 in the band, which
is 31.9 % of what the verifier saw. How many are left after deduplication is not printed, so
the band stands for it: at most so many. Mean lengths are assumed, the paper has none."""


@dataclass(frozen=True, slots=True)
class EngineCost:
    """What one engine adds to each item and what its tokens cost.

    ``prompt_overhead`` is the prompt around an item and ``completion`` a mean reply, in
    tokens. ``price`` is None where nobody asks for money, ``tokens_per_s`` (prompt and
    completion together, of one card) where no GPU of ours works.
    """

    port: Port
    engine: str
    prompt_overhead: float = 0.0
    completion: float = 0.0
    price: Price | None = None
    tokens_per_s: float | None = None


@dataclass(frozen=True, slots=True)
class CostLine:
    """What one port of a run takes; ``dollars`` and ``gpu_hours`` are None where none are due."""

    port: Port
    engine: str
    calls: int
    prompt_tokens: int
    completion_tokens: int
    dollars: float | None
    gpu_hours: float | None


def estimate(work: Workload, engines: Iterable[EngineCost]) -> list[CostLine]:
    """A line an engine, in the order given."""
    return [_line(work, engine) for engine in engines]


def _line(work: Workload, engine: EngineCost) -> CostLine:
    calls = work.items(engine.port)
    prompt = calls * (work.tokens(engine.port) + engine.prompt_overhead)
    completion = calls * engine.completion
    dollars = gpu_hours = None
    if engine.price is not None:
        dollars = engine.price.dollars(prompt, completion)
    if engine.tokens_per_s is not None:
        gpu_hours = (prompt + completion) / engine.tokens_per_s / SECONDS_AN_HOUR
    return CostLine(
        engine.port, engine.engine, calls, round(prompt), round(completion), dollars, gpu_hours
    )


def total(lines: Sequence[CostLine]) -> tuple[int, int, float, float]:
    """Calls, tokens, dollars and GPU-hours of all lines."""
    return (
        sum(line.calls for line in lines),
        sum(line.prompt_tokens + line.completion_tokens for line in lines),
        sum(line.dollars or 0.0 for line in lines),
        sum(line.gpu_hours or 0.0 for line in lines),
    )


def cost_rows(lines: Sequence[CostLine]) -> list[tuple[str, ...]]:
    """The lines and their total as text, for a table: port, engine, then the four amounts."""
    rows = [
        (
            line.port,
            line.engine,
            f"{line.calls:,}",
            _millions(line.prompt_tokens + line.completion_tokens),
            "" if line.dollars is None else f"{line.dollars:,.2f}",
            "" if line.gpu_hours is None else f"{line.gpu_hours:,.1f}",
        )
        for line in lines
    ]
    calls, tokens, dollars, hours = total(lines)
    return [
        *rows,
        ("total", "", f"{calls:,}", _millions(tokens), f"{dollars:,.2f}", f"{hours:,.1f}"),
    ]


def _millions(tokens: int) -> str:
    return f"{tokens / PER_PRICE:,.1f} M"
