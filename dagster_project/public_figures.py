"""Prices and speeds that cost estimates use, each with its source.

Published ones were not measured here: check before you rely on one. A setting overrides a
price, a measured card the speeds.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType

from decomposerl.chat import Price
from decomposerl.errors import ConfigError
from decomposerl.training.experiment import JudgeChoice


@dataclass(frozen=True, slots=True)
class Figure:
    """A throughput of one processor or a price, and where it was published."""

    amount: float
    source: str


PRICES = {
    "gpt-4.1-mini": Price(0.40, 1.60),
    "gpt-5-mini": Price(0.25, 2.0),
    "text-embedding-3-large": Price(0.13),
}
"""US dollars per million tokens, by model."""
PRICES_SOURCE = "list prices of api.openai.com as quoted in 2026: check before you rely on them"

MINICHECK_DOCUMENTS_A_MINUTE = Figure(500.0, "model card of Bespoke-MiniCheck-7B, 'more than'")
_GPUSTACK = "gpustack's performance lab: {}, stock vLLM, one H100, {} in total; the lower end"
SERVED: Mapping[str, Figure] = MappingProxyType(
    {
        "Qwen/Qwen3-32B": Figure(2_149.0, _GPUSTACK.format("Qwen3-32B", "2,149 to 4,006")),
        "Qwen/Qwen3-32B-FP8": Figure(4_068.0, _GPUSTACK.format("Qwen3-32B-FP8", "4,068 to 6,826")),
    }
)
"""Tokens a second of prompts and replies together, by model."""
TINY_JUDGE_TOKENS_A_SECOND = Figure(
    0.3 * 989e12 / (2 * 395e6),
    "computed, not measured: 30 % of an H100's 989 dense TFLOPS in bfloat16 (NVIDIA's data sheet), "
    "two operations for each of ModernBERT-large's 395 million parameters and token",
)
JUDGE_TOKENS_A_SECOND: Mapping[JudgeChoice, float] = MappingProxyType(
    {"profile": SERVED["Qwen/Qwen3-32B"].amount, "tiny": TINY_JUDGE_TOKENS_A_SECOND.amount}
)
"""Of the paper's judges, by what a recipe calls them."""
CARD_FILE, CARD_PORTS = "gpu.json", ("verifier", "embedder", "tiny_judge")


def card_rates(data: Path) -> Mapping[str, Figure]:
    """Tokens a second that ``python -m perf.gpu --out DATA/gpu.md`` measured, by port.

    None without its file, or where everything was small.

    Raises:
        ConfigError: the file is not what the command writes.
    """
    path = data / CARD_FILE
    if not path.is_file():
        return {}
    try:
        plain = json.loads(path.read_text("utf-8"))
        source = f"measured by perf.gpu on {plain['card'].partition(',')[0]}"
        speeds = plain["tokens_per_s"]
        rates = {port: Figure(float(speeds[port]), source) for port in CARD_PORTS if port in speeds}
        return {} if plain["tiny"] else rates
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        again = f"write it again: python -m perf.gpu --out {path.with_suffix('.md')}"
        raise ConfigError(f"{path} has no rates of a card ({error!r}); {again}") from error


SILVER_PROMPT_TOKENS = 300.0
"""Prompt tokens besides document and claim: words of the longer form of ``silver.md`` times 1.3,
rounded up to ten. A test counts them."""
SILVER_REPLY_TOKENS = 150.0
"""Assumed: about seven questions of twenty tokens."""
REASONING_TOKENS = 1_000.0
"""Assumed per reply where a model reasons by default and bills it."""
JUDGE_TOKENS_SOURCE = (
    "4n + 1 calls per rollout of n* questions; questions of 20, answers of 40 and replies of 120 "
    "tokens, 1,000 with thinking, are assumed"
)
TRAINING_HOURS_SOURCE = (
    "the paper took 120 hours on two H100, one for the judge, and 48 on one with its tiny "
    "judge; not measured here"
)
MINICHECK_PROMPT_TOKENS = 100.0
"""Prompt tokens of ``minicheck.md`` besides document and claim, counted the same way."""
