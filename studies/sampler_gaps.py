"""What separates a sampler with stale weights from rounding: the gaps of several samplers.

``python -m studies.sampler_gaps --data data --report docs/results/learning.md`` trains recipe
``tiny`` once per sampler, each a copy of the policy that replaces vLLM. Its weights arrive by
TRL's own code, or do not. Both gaps are measured at every step. Finished runs are kept.
"""

import argparse
import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from decomposerl.reports.tables import markdown_table
from decomposerl.training.curves import history
from decomposerl.training.experiments import experiment
from decomposerl.training.health import HealthSettings, health_findings
from perf.pages import write_between_markers
from resources.embedder.minilm import MiniLM
from resources.judge.rule_judge import RuleJudge
from resources.store.parquet import DataFolder
from resources.training.monitor import TrainingMonitor
from resources.training.process import RunLimits, StepReport, TrainingRun
from resources.training.rollout_log import read_log
from resources.training.run_inputs import gather_inputs
from resources.training.run_store import RunFolder
from resources.training.train import load_policy, prepare

if TYPE_CHECKING:
    import torch

SAMPLERS: dict[str, tuple[str, dict[str, Any]]] = {
    "fresh": ("every step's weights, float32", {}),
    "bfloat16": ("every step's weights, bfloat16", {"dtype": "bfloat16"}),
    "never": ("never gets the adapter", {"updates": 0}),
    "never_bfloat16": ("never gets it, bfloat16", {"updates": 0, "dtype": "bfloat16"}),
    "frozen": ("gets no update after step 10", {"updates": 10}),
    "cold": ("samples and reports at temperature 0.7", {"heat": 0.7}),
    "other": ("another run's trained policy", {"updates": 0}),
}
_ALONE = [name for name in SAMPLERS if name != "other"]
_SHOWN = (3, 16)
"""The first step at which the adapter has moved, and one after ``frozen``'s last update."""


_Sampler: Any = object  # mixed in before VLLMGeneration, whose import takes seconds


class PolicyCopy(_Sampler):  # type: ignore[misc] # the checker sees Any
    """The methods of TRL's ``VLLMGeneration`` that differ with transformers in vLLM's place.

    ``copy`` has the sampler's weights; ``updates`` are the weight updates that arrive, None for
    all; ``ends`` are the tokens that end a completion.
    """

    copy: Any
    updates: int | None
    ends: list[int]

    def _init_vllm(self) -> None:
        runner = SimpleNamespace(model=SimpleNamespace(load_weights=self._load))
        executor = SimpleNamespace(driver_worker=SimpleNamespace(model_runner=runner))
        engine = SimpleNamespace(model_executor=executor)
        self.llm = SimpleNamespace(llm_engine=engine, reset_prefix_cache=lambda: None)

    def _load(self, weights: list[tuple[str, "torch.Tensor"]]) -> None:
        named = dict(self.copy.named_parameters())
        for name, tensor in weights:
            named[name].data.copy_(tensor)

    def sync_weights(self) -> None:
        """TRL's update, unless it gets lost."""
        if self.updates is None or self.updates > 0:
            super().sync_weights()
        if self.updates:
            self.updates -= 1

    def generate(self, prompts: list[list[int]], *_: object, **__: object) -> tuple[Any, ...]:
        """Completions and the log-probabilities of their tokens, in the form of vLLM's."""
        import torch

        pad = self.processing_class.pad_token_id
        longest = max(map(len, prompts))
        ids = torch.tensor([[pad] * (longest - len(row)) + list(row) for row in prompts])
        seen = torch.tensor([[0] * (longest - len(row)) + [1] * len(row) for row in prompts])
        with torch.no_grad():
            whole = self.copy.generate(
                input_ids=ids,
                attention_mask=seen,
                do_sample=True,
                temperature=self.temperature,
                top_k=0,
                top_p=1.0,
                max_new_tokens=self.max_completion_length,
                eos_token_id=self.ends,
                pad_token_id=pad,
            )
            seen = torch.cat([seen, torch.ones_like(whole[:, longest:])], dim=1)
            logits = self.copy(input_ids=whole, attention_mask=seen).logits[:, longest - 1 : -1]
        after = whole[:, longest:]
        scores = torch.log_softmax(logits.float() / self.temperature, -1)
        logps = scores.gather(2, after[:, :, None]).tolist()
        lengths = [self._length(row) for row in after.tolist()]
        tokens = [row[:n] for row, n in zip(after.tolist(), lengths, strict=True)]
        return prompts, tokens, [row[:n] for row, n in zip(logps, lengths, strict=True)], None

    def _length(self, row: list[int]) -> int:
        ends = [index for index, token in enumerate(row) if token in self.ends]
        return ends[0] + 1 if ends else len(row)


def sample_with_copy(
    monitor: TrainingMonitor,
    base: str,
    *,
    updates: int | None = None,
    heat: float | None = None,
    dtype: str = "float32",
) -> None:
    """Let the trainer sample with a copy of the weights in ``base`` as it does with vLLM.

    ``heat`` replaces the training temperature; ``dtype`` is the copy's.
    """
    from transformers import AutoModelForCausalLM
    from trl.generation.vllm_generation import VLLMGeneration

    trainer: Any = monitor.trainer
    copy = AutoModelForCausalLM.from_pretrained(base, dtype=dtype)
    own = {"copy": copy, "updates": updates, "ends": trainer.eos_token_ids}
    trainer.use_vllm, trainer._last_loaded_step = True, -1  # noqa: SLF001 - as TRL's constructor
    trainer.vllm_generation = type("Sampler", (PolicyCopy, VLLMGeneration), own)(
        trainer.model,
        trainer.accelerator,
        trainer.processing_class,
        temperature=heat or trainer.temperature,
        max_completion_length=trainer.max_completion_length,
    )


def _train(options: argparse.Namespace, name: str, engines: tuple[RuleJudge, MiniLM]) -> None:
    folder = (options.out / name).resolve()
    if RunFolder(folder).curves.is_file():
        return
    tiny = experiment("tiny")
    recipe = replace(tiny, held_out=replace(tiny.held_out, claims=0))
    data = DataFolder(base_dir=str(options.data))
    inputs = gather_inputs(data, recipe, tuple(one.engine for one in engines), folder=folder)
    run = TrainingRun(
        experiment=recipe,
        key=inputs.key,
        claims=inputs.claims,
        base=inputs.base,
        folder=folder,
        limits=RunLimits(stop_unhealthy=False, sampler_check_every=1),
    )
    monitor = prepare(run, load_policy(run), *engines, _print_step)
    base = str(options.other) if name == "other" else run.base
    sample_with_copy(monitor, base, **SAMPLERS[name][1])
    monitor.trainer.add_callback(_end_after(options.steps))
    monitor.trainer.train()
    monitor.metrics.write()


def _end_after(steps: int) -> Any:  # noqa: ANN401 - a callback of transformers
    """Ends a run early; the recipe's schedule stays as it is."""
    from transformers import TrainerCallback

    def stop(_: object, state: Any, control: Any, **__: object) -> None:  # noqa: ANN401 - its events
        control.should_training_stop = state.global_step >= steps

    return type("EndAfter", (TrainerCallback,), {"on_step_end": staticmethod(stop)})()


def _print_step(step: StepReport) -> None:
    names = ("total", "sampler_gap", "sampler_gap_base", "sampler_nll")
    print(step.step, {name: step.means.get(name) for name in names}, flush=True)


def gaps_table(folder: Path) -> str:
    """One row per sampler whose curves are in ``folder``: its gaps, and where the rule stops it."""
    head = ("gap to the policy/to the base", *(f"step {step}" for step in _SHOWN), "stopped at")
    rows = [row for name in SAMPLERS for row in _rows(name, folder / name)]
    return markdown_table(head, rows)


def _rows(name: str, folder: Path) -> list[tuple[str, ...]]:
    steps = history(read_log(folder, "curves"))
    if not steps:
        return []
    settings, ends = HealthSettings(window=len(steps) + 1), range(1, len(steps) + 1)
    stop = next((f"step {n}" for n in ends if health_findings(steps[:n], settings)), "no")
    shown = [steps[step - 1] if step <= len(steps) else {} for step in _SHOWN]
    return [(SAMPLERS[name][0], *map(_both_gaps, shown), stop)]


def _both_gaps(step: Mapping[str, float | None]) -> str:
    gaps = (step.get("sampler_gap"), step.get("sampler_gap_base"))
    return "/".join(f"{gap:.2g}" for gap in gaps if gap is not None)


def main(words: Sequence[str] | None = None) -> int:
    """Train with each sampler, then write the table."""
    options = _options(words)
    engines = RuleJudge(), MiniLM()
    for name in options.samplers:
        _train(options, name, engines)
    table = gaps_table(options.out)
    print(table)
    if options.report:
        write_between_markers(options.report, "sampler", table)
    return 0


def _options(words: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "--data", type=Path, default=Path("data"), help="data folder in which the funnel ran"
    )
    parser.add_argument(
        "--out", type=Path, default=Path("data/sampler_gaps"), help="folder of the runs"
    )
    parser.add_argument("--steps", type=int, default=30, help="steps after which a run ends")
    parser.add_argument("--samplers", nargs="*", choices=tuple(SAMPLERS), default=_ALONE)
    parser.add_argument("--other", type=Path, help="for sampler 'other': a model's folder")
    parser.add_argument("--report", type=Path, help="Markdown file with the two markers 'sampler'")
    options = parser.parse_args(words)
    if "other" in options.samplers and options.other is None:
        parser.error("sampler 'other' needs --other")
    return options


if __name__ == "__main__":
    sys.exit(main())
