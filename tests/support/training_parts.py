"""A tiny policy that writes traces, claims to train it on, and a run of a few seconds.

The policy is a Qwen2 of two layers with random weights whose tokens are whole parts of a trace;
one dimension of every embedding is constant, and the output reads from it that these are
likelier than words. So its samples vary, are traces now and then, and mean nothing.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import polars as pl

from decomposerl.judge.call import JudgeCall, Ruling, Task
from decomposerl.schemas import SILVER_DECOMPOSED, TRAINING_CLAIMS
from decomposerl.training.curves import Split
from decomposerl.training.experiment import (
    Experiment,
    Grpo,
    HeldOut,
    Lora,
    Optimization,
    RolloutSampling,
)
from fakes import BagOfWordsEmbedder
from resources.judge.rule_judge import RuleJudge
from resources.training.process import RunLimits, StepReport, TrainingRun
from resources.training.rollout_log import read_log
from resources.training.train import train
from strategies import example_row, frame_of
from tiny_models import tiny_qwen2, with_chat_marks

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerFast

BLOCKS = (
    "<think>Look.</think>",
    "<question>Who opened the bridge?</question><answer>Ilva opened it.</answer>",
    "<question>When was it opened?</question><answer>It was 1921.</answer>",
    "<question>Is it new?</question><answer>I don't know.</answer>",
    "<question>Is it long?</question>",
    "<verification>Supported</verification>",
    "<verification>Refuted</verification>",
)
TEMPLATE = (
    "{% for message in messages %}<|im_start|> {{ message['content'] }} <|im_end|> {% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>{% endif %}"
)
PROMPT = "<!-- section: prompt -->\n{document} {claim}\n"
_WORDS = "Ilva Torbeck opened it has a river was 1921 bridge old new the in".split()
_BIAS, _LIKELY, _NEVER = 4.0, 3.0, -40.0


def tiny_policy(folder: Path, seed: int = 7, end: float = 3.0) -> Path:
    """The model with its tokenizer and its own prompt; ``end`` says how likely it stops."""
    tokenizer = _tokenizer()
    sizes = {"hidden_size": 32, "intermediate_size": 32, "max_position_embeddings": 512}
    model = tiny_qwen2(tokenizer, seed, **sizes)
    model.model.embed_tokens.weight.data[:, 0] = _BIAS
    for layer in model.model.layers:
        layer.self_attn.o_proj.weight.data[0] = 0.0
        layer.mlp.down_proj.weight.data[0] = 0.0
    out = model.lm_head.weight.data
    out[:, 0] = -1.0
    out[tokenizer.convert_tokens_to_ids(list(BLOCKS)), 0] = _LIKELY / _BIAS
    out[tokenizer.all_special_ids, 0] = _NEVER / _BIAS
    out[tokenizer.eos_token_id, 0] = end / _BIAS
    model.eval().save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    (folder / "policy.md").write_text(PROMPT, "utf-8")
    return folder


def _tokenizer() -> "PreTrainedTokenizerFast":
    """Words, split at white space, and each block as one token."""
    from tokenizers import Tokenizer
    from tokenizers.models import WordLevel
    from tokenizers.pre_tokenizers import WhitespaceSplit

    tags = [f"<{kind}>" for kind in ("think", "question", "answer", "verification")]
    words = {word: index for index, word in enumerate(["<|unk|>", *_WORDS])}
    cutter = Tokenizer(WordLevel(words, unk_token="<|unk|>"))  # noqa: S106 - a mark
    cutter.pre_tokenizer = WhitespaceSplit()
    return with_chat_marks(cutter, (*BLOCKS, *tags), TEMPLATE, unk_token="<|unk|>")  # noqa: S106


def claims_file(path: Path, count: int = 6) -> Path:
    """Different claims, the labels in turns."""
    frame = frame_of(
        TRAINING_CLAIMS,
        [
            example_row(
                claim=f"Ilva opened the Torbeck bridge {index}",
                label=("Supported", "Refuted")[index % 2],
            )
            for index in range(count)
        ],
    )
    frame.write_parquet(path)
    return path


def held_out_file(path: Path, count: int = 2) -> Path:
    """Claims with ids that no training claim has."""
    rows = [example_row(claim=f"Torbeck has a river {i}", label="Refuted") for i in range(count)]
    frame = frame_of(SILVER_DECOMPOSED, rows)
    frame.with_columns(claim_id=pl.format("held{}", pl.int_range(pl.len()))).write_parquet(path)
    return path


EXPERIMENT = Experiment(
    name="tests",
    title="A few steps",
    model="base_policy",
    lora=Lora(rank=4, alpha=8, projections=("q_proj", "v_proj"), dtype="float32"),
    optimization=Optimization(learning_rate=1e-2, least_learning_rate=1e-3, steps=2),
    grpo=Grpo(group_size=4, per_device_batch=4, global_batch=8),
    sampling=RolloutSampling(max_prompt_tokens=64, max_completion_tokens=12),
)


RUN_FIELDS = ("key", "limits", "held_out", "revision")


def run_of(folder: Path, base: Path, **changes: Any) -> TrainingRun:  # noqa: ANN401 - fields of the two types
    """A run in ``folder``; ``changes`` are of the recipe, or of the run by the run's names."""
    fields = {name: changes.pop(name) for name in RUN_FIELDS if name in changes}
    held_out = changes.pop("held_out_claims", None)
    if held_out is not None:
        changes["held_out"] = held_out
        fields["held_out"] = held_out_file(folder.with_name(f"{folder.name}.held_out.parquet"))
    run = TrainingRun(
        experiment=replace(EXPERIMENT, **changes),
        key="0123456789abcdef",
        claims=claims_file(folder.with_name(f"{folder.name}.claims.parquet")),
        base=str(base),
        folder=folder,
    )
    return replace(run, **fields)


def trained(run: TrainingRun, judge: Any = None) -> list[StepReport]:  # noqa: ANN401 - any judge
    """Train with the rule judge, or another; the reports."""
    reports: list[StepReport] = []
    train(run, judge or RuleJudge(), BagOfWordsEmbedder(), reports.append)
    return reports


SOME_HELD_OUT = HeldOut(claims=2, every=1, samples=2)
PATIENT = RunLimits(most_judge_failures=1.0, stop_unhealthy=False)


def resumable(folder: Path, base: Path) -> TrainingRun:
    """Six steps over two epochs and two micro-batches, a checkpoint after every second."""
    return run_of(
        folder,
        base,
        optimization=replace(EXPERIMENT.optimization, steps=6, warmup_ratio=0.2),
        held_out_claims=HeldOut(claims=2, every=3),
        limits=replace(PATIENT, checkpoint_every=2),
    )


def weights(folder: Path) -> dict[str, Any]:
    """The tensors of an adapter."""
    from safetensors.torch import load_file

    return load_file(folder / "adapter_model.safetensors")


def alike(one: Path, other: Path) -> bool:
    """Whether two adapters are the same, bit for bit."""
    first, second = weights(one), weights(other)
    return first.keys() == second.keys() and all(
        bool((first[name] == second[name]).all()) for name in first
    )


def logged(folder: Path, split: Split = "train") -> tuple[pl.DataFrame, pl.DataFrame]:
    """Everything a run sampled and measured but wall time and the number of the attempt."""
    rollouts = read_log(folder, "rollouts", split).drop("attempt")
    curves = read_log(folder, "curves", split)
    return rollouts, curves.filter(~pl.col("measure").str.starts_with("seconds_"))


@dataclass
class FailingJudge:
    """A judge that says yes to everything and loses the first ``most`` of a task's rulings."""

    task: Task
    most: int = 1
    asked: list[int] = field(default_factory=list)
    engine: str = "failing"

    def judge(self, calls: Sequence[JudgeCall]) -> list[Ruling]:
        """Rulings on a batch."""
        self.asked.append(len(calls))
        rulings = [Ruling.from_text(_YES[call.task]) for call in calls]
        indices = [index for index, call in enumerate(calls) if call.task == self.task]
        for index in indices[: self.most]:
            rulings[index] = Ruling(None, "timeout")
        return rulings


_YES = {
    "coverage": "Supported",
    "answerability": "1",
    "atomicity": "11111",
    "correctness": "1",
}
