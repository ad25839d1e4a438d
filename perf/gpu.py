"""What one CUDA card does: cosine searches, training steps, the tiny judge's heads, two passes.

``python -m perf.gpu [--out data/gpu.md]`` takes at most eight minutes on any card with 40 GB or
more, needs no network and no weights (they are random, in the real shapes), and writes one
Markdown table. The rates beside it (``data/gpu.json``) take the place of published ones in
``decomposerl doctor``. Each part runs in a process of its own with a time limit: what fails or
does not finish is a row and not the end. ``--tiny`` runs every part small on the processor.
"""

import argparse
import json
import os
import platform
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from importlib import metadata
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from decomposerl.reports.tables import markdown_table
from perf.inputs import TINY_DECODER, clustered_vectors, holdout_vectors

Vectors = NDArray[np.float32]
Result = TypeVar("Result")

DUPLICATE, LEAK = 0.70, 0.90
WARM, BLOCK, TILE = 2_000, 4_096, 65_536
MOST_CHECKED = 100_000
"""Rows up to which decisions are compared with the float64 definition."""
STEPS_OF_PAPER = 5_464
REPEATS = 3
_LIBRARIES = ("torch", "transformers", "trl", "peft", "accelerate", "numpy")
_MOST_ERROR_CHARACTERS = 160


@dataclass(frozen=True, slots=True)
class Finding:
    """One line of the table; ``rates`` are tokens a second by the name that the doctor knows."""

    what: str
    measured: str
    beside: str = ""
    rates: Mapping[str, float] = field(default_factory=dict)
    failed: bool = False


@dataclass(frozen=True, slots=True)
class Part:
    """What runs in one process, and the seconds that it may take."""

    measure: Callable[[str], Iterator[Finding]]
    limit_s: int


def searches(device: str) -> Iterator[Finding]:
    """Duplicates and leaks: seconds beside bare products, wrong decisions beside float64."""
    from decomposerl.kernels.cosine_filter import best_cross_cosine, keep_first_cosine

    tiny = device == "cpu"
    sizes = [(600, 64)] if tiny else [(24_355, 3_072), (100_000, 384), (1_000_000, 384)]
    for rows, dimensions in sizes:
        vectors = clustered_vectors(rows, dimensions)
        keep_first_cosine(vectors[:WARM], DUPLICATE, device=device)  # compiles
        spent, matches = _timed(partial(keep_first_cosine, vectors, DUPLICATE, device=device))
        bare = _triangle_s(vectors, device)
        said = f"{spent:.2f} s"
        if rows <= MOST_CHECKED:
            wrong = int((matches.is_matched != removed_by_definition(vectors, device)).sum())
            said += f", {wrong} wrong decisions"
        beside = f"bare bf16 triangle {bare:.3f} s: {spent / bare:.1f} times"
        yield Finding(f"duplicates, {rows:,} × {dimensions:,}", said, beside)
    rows, tests, dimensions = (300, 200, 64) if tiny else (17_328, 50_000, 3_072)
    left = clustered_vectors(rows, dimensions)
    right = holdout_vectors(left, tests)
    best_cross_cosine(left[:WARM], right[:WARM], LEAK, device=device)
    spent, matches = _timed(partial(best_cross_cosine, left, right, LEAK, device=device))
    near = _nearest(_unit(left, device), _unit(right, device)) >= LEAK
    wrong = int((matches.is_matched != near).sum())
    what = f"leaks, {rows:,} × {tests:,} × {dimensions:,}"
    yield Finding(what, f"{spent:.2f} s, {wrong} wrong decisions")


def training_step(prompt: int, device: str) -> Iterator[Finding]:
    """A step of the paper's recipe by phase, and its memory beside the estimate."""
    from decomposerl.training.experiments import PAPER_7B
    from decomposerl.training.memory import estimate_memory, shape_of
    from perf.grpo_case import QWEN_7B, TINY, StepCase, measure, recipe_of

    tiny = device == "cpu"
    lengths = (24, 8) if tiny else (prompt, 512)
    case = StepCase(*lengths, steps=1, device=device, tiny=tiny)
    with tempfile.TemporaryDirectory() as folder:
        measured = measure(case, Path(folder))
    (step,) = measured.steps
    shape = shape_of((TINY if tiny else QWEN_7B) | {"model_type": "qwen2"})
    estimate = estimate_memory(shape, recipe_of(case), padded=False).total / 2**30
    rate = PAPER_7B.grpo.global_batch * sum(lengths) / step["update"]
    hours = STEPS_OF_PAPER * step["update"] / 3_600
    yield Finding(
        f"training step, {lengths[0]:,} + {lengths[1]:,} tokens",
        f"generation {step['generation']:.2f} s "
        f"({1_000 * step['generation'] / lengths[1]:.0f} ms a token), "
        f"update {step['update']:.2f} s ({rate:,.0f} tokens/s), {measured.peak_gib:.1f} GiB",
        f"estimate {estimate:.1f} GiB; {STEPS_OF_PAPER:,} updates take {hours:.1f} h",
        {"update": rate},
    )


def judge_heads(device: str) -> Iterator[Finding]:
    """Eight heads of the tiny judge on the shape of ModernBERT-large, beside the plain encoder."""
    from perf.heads_case import HeadsCase, measure

    tiny = HeadsCase(sequences=32, tokens=32, batch=8, device=device, tiny=True)
    case = tiny if device == "cpu" else HeadsCase(device=device)
    what = f"tiny judge, ModernBERT-large's shape, {case.batch} × {case.tokens:,} tokens"
    rates = measure(replace(case, mixed=False))
    plain, merged = rates["plain"], rates["merged"]
    said, beside = f"{merged:,.0f} sequences/s for eight heads, one by one", f"{plain:,.0f} plain"
    yield Finding(what, said, beside, {"tiny_judge": merged * case.tokens})
    yield Finding(f"{what}, mixed", f"{measure(case)['mixed']:,.0f} sequences/s in one pass")


def embedding(device: str) -> Iterator[Finding]:
    """Claims through the shape of Qwen3-Embedding-8B."""
    from transformers import AutoModel, Qwen3Config

    sizes = TINY_DECODER if device == "cpu" else _QWEN3_8B
    model = _random_model(AutoModel, Qwen3Config(**sizes), device)
    yield _pass("embedder", "Qwen3-Embedding-8B's shape", model, 256, 32)


def verification(device: str) -> Iterator[Finding]:
    """Documents with a claim through the shape of Bespoke-MiniCheck-7B, which answers one token."""
    from transformers import AutoModelForCausalLM, LlamaConfig

    sizes = TINY_DECODER if device == "cpu" else _MINICHECK_7B
    model = _random_model(AutoModelForCausalLM, LlamaConfig(**sizes), device)
    yield _pass("verifier", "Bespoke-MiniCheck-7B's shape", model, 16, 1_024, logits_to_keep=1)


_QWEN3_8B = {
    "vocab_size": 151_665,
    "hidden_size": 4_096,
    "intermediate_size": 12_288,
    "num_hidden_layers": 36,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "head_dim": 128,
}
_MINICHECK_7B = {
    "vocab_size": 92_544,
    "hidden_size": 4_096,
    "intermediate_size": 14_336,
    "num_hidden_layers": 32,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
}
PARTS = {
    "searches": Part(searches, 80),
    "short training step": Part(partial(training_step, 1_024), 120),
    "long training step": Part(partial(training_step, 4_096), 130),
    "tiny judge": Part(judge_heads, 60),
    "embedder": Part(embedding, 35),
    "verifier": Part(verification, 35),
}
"""In this order, together at most 460 s."""


def removed_by_definition(vectors: Vectors, device: str) -> NDArray[np.bool_]:
    """Which rows the keep-first greedy removes by cosines in float64, shape (rows,)."""
    import torch

    rows, kept = _unit(vectors, device), list[int]()
    removed = np.zeros(len(rows), bool)
    for start in range(0, len(rows), BLOCK):
        block = rows[start : start + BLOCK]
        near = _nearest(block, rows[torch.tensor(kept, dtype=torch.int64, device=device)])
        gone = near >= DUPLICATE
        among = torch.triu(block @ block.T >= DUPLICATE, diagonal=1).cpu().numpy()
        for row in range(len(block)):
            if not gone[row]:
                gone |= among[row]
        removed[start : start + BLOCK] = gone
        kept += (start + np.flatnonzero(~gone)).tolist()
    return removed


def _nearest(rows: Any, others: Any) -> NDArray[np.float64]:  # noqa: ANN401 - torch's tensors
    """Per row its largest cosine with the others, -1 where there are none."""
    best = rows.new_full((len(rows),), -1.0)
    for start in range(0, len(others), BLOCK):
        for first in range(0, len(rows), BLOCK):
            part = slice(first, first + BLOCK)
            products = rows[part] @ others[start : start + BLOCK].T
            best[part] = best[part].maximum(products.amax(1))
    cosines: NDArray[np.float64] = best.cpu().numpy()
    return cosines


def _unit(vectors: Vectors, device: str) -> Any:  # noqa: ANN401 - a torch tensor
    import torch

    rows = torch.from_numpy(vectors).to(device, torch.float64)
    return rows / rows.norm(dim=1, keepdim=True)


def _triangle_s(vectors: Vectors, device: str) -> float:
    """Seconds of the bare products of each row with those before it, in bfloat16."""
    import torch

    rows = torch.from_numpy(vectors).to(device, torch.bfloat16)

    def products() -> None:
        for start in range(0, len(rows), BLOCK):
            block = rows[start : start + BLOCK]
            for first in range(0, start + len(block), TILE):
                torch.mm(block, rows[first : min(first + TILE, start + len(block))].T)

    products()
    return _timed(products)[0]


def _timed(work: Callable[[], Result]) -> tuple[float, Result]:
    """Seconds until the card is done too, and the result."""
    import torch

    waits = torch.cuda.synchronize if torch.cuda.is_available() else lambda: None
    waits()
    started = perf_counter()
    result = work()
    waits()
    return perf_counter() - started, result


def _random_model(kind: Any, config: Any, device: str) -> Any:  # noqa: ANN401 - transformers'
    """A model of this shape in bfloat16, with random weights."""
    import torch

    with torch.device(device):
        return kind.from_config(config, dtype=torch.bfloat16).eval()


def _pass(
    port: str,
    shape: str,
    model: Any,  # noqa: ANN401 - transformers'
    rows: int,
    tokens: int,
    **named: int,
) -> Finding:
    """A forward pass over ``rows`` texts of ``tokens`` tokens each, the median of a few."""
    import torch

    small = model.device.type == "cpu"
    shown = (4, 16) if small else (rows, tokens)
    ids = torch.randint(model.config.vocab_size, shown, device=model.device)
    with torch.inference_mode():
        taken = [_timed(partial(model, ids, **named))[0] for _ in range(1 + REPEATS)]
    rate = ids.numel() / median(taken[1:])  # the first one prepares kernels
    return Finding(
        f"{port}, {shape}, {shown[0]} × {shown[1]:,} tokens",
        f"{rate:,.0f} tokens/s",
        f"{60 * rate / shown[1]:,.0f} texts a minute",
        {port: rate},
    )


def findings_of(name: str, limit_s: float, *, tiny: bool) -> list[Finding]:
    """What one part finds, in a process of its own; the last line says how it failed."""
    words = [sys.executable, "-m", "perf.gpu", "--part", name, *(["--tiny"] * tiny)]
    first = os.environ.get("CUDA_VISIBLE_DEVICES", "0").partition(",")[0]
    env = os.environ | {"CUDA_VISIBLE_DEVICES": first}  # TRL refuses a process with several cards
    with tempfile.TemporaryFile("w+") as said, tempfile.TemporaryFile("w+") as errors:
        try:
            done = subprocess.run(  # noqa: S603 - our own module
                words, env=env, stdout=said, stderr=errors, timeout=limit_s, check=False
            )
            status = f"exit status {done.returncode}" if done.returncode else ""
        except subprocess.TimeoutExpired:
            status = f"not finished in {limit_s} s"
        said.seek(0)
        errors.seek(0)
        lines = [line for line in said.read().splitlines() if line.startswith("{")]
        last = [line for line in errors.read().splitlines() if line.strip()][-1:]
    found = [Finding(**json.loads(line)) for line in lines]
    if status:
        found.append(Finding(name, status, "".join(last)[:_MOST_ERROR_CHARACTERS], failed=True))
    return found


def machine(*, tiny: bool) -> str:
    """The card with its memory, and the versions of the libraries."""
    import torch

    name = "the processor, everything small"
    if not tiny:
        card = torch.cuda.get_device_properties(0)
        name = f"{card.name}, {card.total_memory / 2**30:.0f} GiB"
    versions = ", ".join(f"{each} {metadata.version(each)}" for each in _LIBRARIES)
    return f"{name}; Python {platform.python_version()}, {versions}"


def main(words: Sequence[str] | None = None) -> int:
    """Run every part and print the table; 1 where a part failed."""
    import torch

    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, help="Markdown file; the rates go to a .json beside it")
    parser.add_argument("--tiny", action="store_true", help="everything small, on the processor")
    parser.add_argument("--part", choices=PARTS, help="only one part, as lines of JSON")
    options = parser.parse_args(words)
    device = "cpu" if options.tiny else "cuda"
    if options.part:
        for finding in PARTS[options.part].measure(device):
            sys.stdout.write(json.dumps(asdict(finding)) + "\n")
            sys.stdout.flush()
        return 0
    if not options.tiny and not torch.cuda.is_available():
        parser.error("torch finds no CUDA card; --tiny runs everything small on the processor")
    card = machine(tiny=options.tiny)
    if options.out is not None:
        options.out.parent.mkdir(parents=True, exist_ok=True)
    found: list[Finding] = []
    for name, part in PARTS.items():
        found += findings_of(name, part.limit_s, tiny=options.tiny)
    rows = [(finding.what, finding.measured, finding.beside) for finding in found]
    page = f"{card}\n\n{markdown_table(('What', 'Measured', 'Beside it'), rows)}\n"
    sys.stdout.write(page)
    if options.out is not None:
        rates = {name: rate for finding in found for name, rate in finding.rates.items()}
        options.out.write_text(page, "utf-8")
        plain = {"card": card, "tiny": options.tiny, "tokens_per_s": rates}
        options.out.with_suffix(".json").write_text(json.dumps(plain, indent=2) + "\n", "utf-8")
    return int(any(finding.failed for finding in found))


if __name__ == "__main__":
    sys.exit(main())
