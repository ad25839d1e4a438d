"""What a trainer is told and what it gives back: the contract between graph and worker.

A ``TrainingRun`` is written as JSON by whoever starts a worker process and read there; a
``StepReport`` goes back after every step, a ``TrainingOutcome`` at the end.
"""

import json
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal

from decomposerl.training.experiment import Experiment, from_plain, plain_values

GenerationEngine = Literal["transformers", "vllm_colocate", "vllm_server"]


@dataclass(frozen=True, slots=True)
class Generation:
    """How rollouts are generated; changes speed, never what is learned on purpose.

    ``url`` is the vLLM server's. ``memory_share`` is what vLLM beside the trainer may take of the
    card, or the cache of continuous batching (``paged``) of what is free. ``importance_correction``
    is TRL's correction for the gap between vLLM's and the trainer's probabilities: off, as in the
    paper.
    """

    engine: GenerationEngine = "transformers"
    url: str = ""
    memory_share: float = 0.3
    paged: bool = False
    importance_correction: bool = False


@dataclass(frozen=True, slots=True)
class RunLimits:
    """When a run stops by itself, and how often it saves. Shares are 0..1.

    ``most_judge_failures``: share of judged scores without a ruling over the last steps.
    ``most_cycles``: a trace with more cycles is judged on none of them (its judged rewards are
    scored as for a trace without questions). ``stop_unhealthy``: whether health rules may end
    the run, or only warn.
    """

    checkpoint_every: int = 50
    checkpoints_kept: int = 2
    most_judge_failures: float = 0.05
    most_cycles: int = 40
    stop_unhealthy: bool = True


@dataclass(frozen=True, slots=True)
class TrainingRun:
    """All that a worker needs besides its profile. Paths are absolute.

    ``claims`` is a Parquet file of ``TRAINING_CLAIMS``, ``held_out`` one of
    ``SILVER_DECOMPOSED`` or None. ``base`` is what ``Experiment.model`` stands for: a hub name or
    a folder. ``folder`` receives everything (``resources.training.run_folder``). ``key`` is
    the run: 16 hex digits over recipe, claims, base weights and engines; a start with another key
    begins anew. ``prompts`` is a folder of a person's own prompt files, empty for ours.
    """

    experiment: Experiment
    key: str
    claims: Path
    base: str
    folder: Path
    held_out: Path | None = None
    prompts: str = ""
    device: str = "cpu"
    threads: int = 1
    generation: Generation = field(default_factory=Generation)
    limits: RunLimits = field(default_factory=RunLimits)

    def to_json(self) -> str:
        """The run as one JSON object."""
        plain = asdict(self) | {"experiment": plain_values(self.experiment)}
        return json.dumps(plain, default=str, sort_keys=True, indent=2)

    @classmethod
    def from_json(cls, text: str) -> "TrainingRun":
        """The run back from ``to_json``.

        Raises:
            TypeError: a field is unknown.
        """
        plain = json.loads(text)
        held_out = plain["held_out"]
        return cls(
            **{
                **plain,
                "experiment": from_plain(plain["experiment"]),
                "claims": Path(plain["claims"]),
                "folder": Path(plain["folder"]),
                "held_out": None if held_out is None else Path(held_out),
                "generation": Generation(**plain["generation"]),
                "limits": RunLimits(**plain["limits"]),
            }
        )


@dataclass(frozen=True, slots=True)
class StepReport:
    """What one step says of itself. ``means`` are the measures of ``schemas.CURVES``.

    A measure's spread is among them under ``training.health.spread_key``.
    """

    step: int
    steps: int
    attempt: int
    means: Mapping[str, float | None]
    seconds: Mapping[str, float]
    eta_s: float
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class TrainingOutcome:
    """How a run ended. ``stopped`` says why it ended early, empty where it did not.

    ``before`` and ``after`` are the held-out measures at both ends (split, slash, measure).
    ``judge`` and ``seconds`` are totals over all attempts; ``versions`` are the libraries'.
    """

    steps: int
    resumed_from: int
    stopped: str
    adapter: Path
    curves: Path
    before: Mapping[str, float]
    after: Mapping[str, float]
    seconds: Mapping[str, float]
    judge: Mapping[str, Any]
    versions: Mapping[str, str]


Report = Callable[[StepReport], None]
