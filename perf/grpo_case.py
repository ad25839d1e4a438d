"""A few optimizer steps of the paper's recipe at one length of prompts and completions.

``python -m perf.grpo_case --prompt 4096 --completion 512 --device cuda`` builds Qwen2.5-7B's
architecture from its configuration with random weights, trains a few steps with the project's
trainer, and prints one line of JSON: seconds of each measured step by phase, and peak memory.
Every completion has its full length. Needs no network and writes only to a temporary folder.

Random text contains no questions, so the judge gets no calls.
"""

import argparse
import json
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from decomposerl.training.experiment import Experiment, Lora, RolloutSampling
from decomposerl.training.experiments import PAPER_7B
from perf.frames import MadeVectors
from perf.inputs import TINY_DECODER
from perf.machine import peak_mb
from resources.judge.rule_judge import RuleJudge
from resources.policy_tiny.folder import END, PAD, START, TAGS
from resources.training.process import RunLimits, StepReport, TrainingRun

QWEN_7B = {
    "vocab_size": 152_064,
    "hidden_size": 3_584,
    "intermediate_size": 18_944,
    "num_hidden_layers": 28,
    "num_attention_heads": 28,
    "num_key_value_heads": 4,
    "max_position_embeddings": 32_768,
    "rms_norm_eps": 1e-6,
    "rope_parameters": {"rope_type": "default", "rope_theta": 1_000_000.0},
    "tie_word_embeddings": False,
}
"""From the model's public ``config.json``."""
TINY = QWEN_7B | TINY_DECODER
_TEMPLATE = (
    "{% for message in messages %}{{ message['content'] }}{% endfor %}"
    "{% if add_generation_prompt %} <|im_start|>{% endif %}"
)


@dataclass(frozen=True, slots=True)
class StepCase:
    """One measurement: lengths in tokens, and steps after one uncounted warm-up step."""

    prompt: int
    completion: int
    steps: int = 3
    device: str = "cpu"
    tiny: bool = False


@dataclass(frozen=True, slots=True)
class Measurement:
    """Seconds of each counted step by phase, peak memory in GiB, and the device."""

    case: StepCase
    steps: tuple[dict[str, float], ...]
    peak_gib: float
    device: str


def measure(case: StepCase, folder: Path) -> Measurement:
    """Train ``case.steps`` steps after one warm-up step."""
    import torch
    from transformers import AutoModelForCausalLM, Qwen2Config
    from transformers.utils import logging

    from resources.training.data import Prompts, completion_reader
    from resources.training.train import LoadedPolicy, prepare
    from resources.training.trl_hooks import end_tokens

    logging.disable_progress_bar()
    tokenizer, dtype = _tokenizer(case), getattr(torch, recipe_of(case).lora.dtype)
    config = Qwen2Config(
        **(TINY if case.tiny else QWEN_7B),
        eos_token_id=tokenizer.eos_token_id,
        pad_token_id=tokenizer.pad_token_id,
    )
    torch.manual_seed(0)
    with torch.device(case.device):
        model = AutoModelForCausalLM.from_config(config, dtype=dtype)
    reader = completion_reader(tokenizer, end_tokens(model, tokenizer))
    run, reports = _run(case, folder), list[StepReport]()
    policy = LoadedPolicy(model, tokenizer, reader, Prompts(tuple(_rows(case)), 0), Prompts((), 0))
    watch = prepare(run, policy, RuleJudge(), MadeVectors(8), reports.append)
    _force_length(watch.trainer.generation_config, case)
    watch.trainer.train()
    lengths = {report.means["completion_tokens"] for report in reports}
    if lengths != {float(case.completion)}:
        raise RuntimeError(f"completions have {lengths} tokens in place of {case.completion}")
    return Measurement(
        case, tuple(dict(report.seconds) for report in reports[1:]), _peak_gib(case), _name(case)
    )


def recipe_of(case: StepCase) -> Experiment:
    """The paper's recipe at these lengths, with unfinished completions kept in the loss."""
    lora = Lora(rank=4, alpha=8, dtype="float32") if case.tiny else PAPER_7B.lora
    return replace(
        PAPER_7B,
        name="grpo_step",
        lora=lora,
        optimization=replace(PAPER_7B.optimization, steps=case.steps + 1),
        grpo=replace(PAPER_7B.grpo, mask_truncated=False),
        sampling=RolloutSampling(
            max_prompt_tokens=case.prompt, max_completion_tokens=case.completion
        ),
    )


def _run(case: StepCase, folder: Path) -> TrainingRun:
    return TrainingRun(
        experiment=recipe_of(case),
        key="0" * 16,
        claims=folder / "none.parquet",
        base=str(folder),
        folder=folder,
        device=case.device,
        limits=RunLimits(checkpoint_every=1_000_000, stop_unhealthy=False, most_judge_failures=1.0),
    )


def _tokenizer(case: StepCase) -> Any:  # noqa: ANN401 - a transformers tokenizer
    """A tokenizer with one token per word and as many words as the model has outputs."""
    from tokenizers import AddedToken, Tokenizer, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    words = (TINY if case.tiny else QWEN_7B)["vocab_size"] - len(TAGS) - 3
    made = Tokenizer(models.WordLevel({f"w{i}": i for i in range(words)}, "w0"))
    made.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    made.add_special_tokens([PAD, START, END])
    made.add_tokens([AddedToken(tag, special=False, normalized=False) for tag in TAGS])
    return PreTrainedTokenizerFast(
        tokenizer_object=made,
        pad_token=PAD,
        eos_token=END,
        padding_side="left",
        chat_template=_TEMPLATE,
    )


def _rows(case: StepCase) -> list[dict[str, Any]]:
    """Enough claims for every step, each with a prompt of exactly the wanted length."""
    grpo = PAPER_7B.grpo
    needed = (case.steps + 1) * grpo.global_batch // grpo.group_size
    words = 200  # of the vocabulary: the choice of words does not affect the cost
    return [
        {
            "prompt": [
                {
                    "role": "user",
                    "content": " ".join(f"w{(row + i) % words}" for i in range(case.prompt - 1)),
                }
            ],
            "claim_id": f"{row:016x}",
            "claim": "w1",
            "evidence": "w2",
            "label": "Supported",
            "n_star": 2,
            "source": "made",
            "labelled": True,
            "prompt_digest": f"{row:064x}",
            "prompt_tokens": case.prompt,
        }
        for row in range(needed)
    ]


def _force_length(config: Any, case: StepCase) -> None:  # noqa: ANN401 - transformers' GenerationConfig
    """Let no completion end early."""
    config.min_new_tokens = case.completion


def _peak_gib(case: StepCase) -> float:
    if not case.device.startswith("cuda"):
        return peak_mb() * 1e6 / 2**30
    import torch

    return float(torch.cuda.max_memory_reserved(case.device)) / 2**30


def _name(case: StepCase) -> str:
    if not case.device.startswith("cuda"):
        return case.device
    import torch

    return str(torch.cuda.get_device_name(case.device))


def main(words: Sequence[str] | None = None) -> None:
    """Measure the case given on the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--prompt", type=int, required=True)
    parser.add_argument("--completion", type=int, required=True)
    parser.add_argument("--steps", type=int, default=3)
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--tiny", action="store_true")
    case = StepCase(**vars(parser.parse_args(words)))
    with tempfile.TemporaryDirectory() as folder:
        measurement = measure(case, Path(folder))
    sys.stdout.write(json.dumps(asdict(measurement)) + "\n")


if __name__ == "__main__":
    main()
