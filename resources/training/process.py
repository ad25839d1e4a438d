"""The contract between the graph and a training process.

The starter writes a ``TrainingRun`` as JSON. The process reports with JSON messages through Dagster
Pipes: a ``StepReport`` per optimizer step, the dry run, now and then how far it is, and at the end
the ``TrainingOutcome``.
Each message has ``kind`` and that kind's fields.
"""

import json
import signal
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal

from pydantic import TypeAdapter

from decomposerl.training.experiment import Experiment, plain_values

GenerationEngine = Literal["transformers", "vllm_colocate", "vllm_server"]
Reporter = Literal["none", "wandb", "tensorboard", "trackio"]
"""An experiment tracker of transformers that also receives what TRL logs at every step."""
STEP, DRY_RUN, OUTCOME, PROGRESS = "step", "dry_run", "outcome", "progress"
DONE, FAILED, REFUSED = 0, 1, 2
_SIGNALLED = 128
_MEANING = {
    FAILED: "an unexpected error",
    REFUSED: "it was refused before or while it ran; the reason is in its log",
    _SIGNALLED + signal.SIGINT: "it was interrupted and left a checkpoint if a step was done",
    _SIGNALLED + signal.SIGTERM: "it was terminated and left a checkpoint if a step was done",
    _SIGNALLED + signal.SIGKILL: "it was killed: kill -9, or the system ran out of memory",
    _SIGNALLED + signal.SIGSEGV: "a library crashed",
}


@dataclass(frozen=True, slots=True)
class Generation:
    """How rollouts are generated; meant to change speed and not what is learned.

    ``url`` is the vLLM server's. ``memory_share`` is the share of the card for vLLM beside the
    trainer.
    ``importance_correction`` is TRL's correction for the gap between vLLM's and the trainer's
    probabilities; without effect where ``transformers`` samples. ``sleep_mode``: vLLM beside the
    trainer gives its memory back during an update.
    """

    engine: GenerationEngine = "transformers"
    url: str = ""
    memory_share: float = 0.3
    importance_correction: bool = True
    sleep_mode: bool = False


@dataclass(frozen=True, slots=True)
class RunLimits:
    """When a run stops by itself, and how often it saves. Shares are 0..1.

    ``most_judge_failures``: share of judged rewards without a ruling over the last steps.
    ``most_cycles``: a trace with more cycles is not judged (its judged rewards are those of a
    trace without questions). ``stop_unhealthy``: whether health rules may end the run, or only
    warn. ``most_wait_s``: seconds that one of several processes waits for another, such as the
    main one while it asks the judge; NCCL's own limit is 600. ``sampler_check_every``: steps
    between two checks that vLLM samples with the policy's weights.
    """

    checkpoint_every: int = 50
    checkpoints_kept: int = 2
    most_judge_failures: float = 0.05
    most_cycles: int = 40
    stop_unhealthy: bool = True
    most_wait_s: int = 7_200
    sampler_check_every: int = 20


@dataclass(frozen=True, slots=True)
class TrainingRun:
    """All that a training process needs besides its profile. Paths are absolute.

    ``claims`` is a Parquet file of ``TRAINING_CLAIMS``, ``held_out`` one of
    ``SILVER_DECOMPOSED`` or None. ``base`` is what ``Experiment.model`` means here: a hub name or
    a folder, ``revision`` the hub's commit of it (empty: its main branch). ``folder`` receives
    everything (``training.run_store``). ``key`` identifies the run:
    16 hex digits over recipe, claims, base weights and engines; another key starts from step 0.
    ``prompts`` is a folder of your own prompt files, empty for the project's. ``report_to`` changes
    nothing of the run but who else sees its measures, ``liger`` (liger-kernel's kernels of a layer)
    nothing but rounding, speed and memory.
    """

    experiment: Experiment
    key: str
    claims: Path
    base: str
    folder: Path
    held_out: Path | None = None
    prompts: str = ""
    revision: str = ""
    device: str = "cpu"
    threads: int = 1
    generation: Generation = field(default_factory=Generation)
    limits: RunLimits = field(default_factory=RunLimits)
    report_to: Reporter = "none"
    liger: bool = False

    def to_json(self) -> str:
        """The run as one JSON object."""
        plain = asdict(self) | {"experiment": plain_values(self.experiment)}
        return json.dumps(plain, default=str, sort_keys=True, indent=2)

    @property
    def base_revision(self) -> dict[str, str]:
        """The revision as an argument of transformers' ``from_pretrained``."""
        return {"revision": self.revision} if self.revision else {}

    @classmethod
    def from_json(cls, text: str) -> "TrainingRun":
        """The run back from ``to_json``.

        Raises:
            ValueError: a field is missing, or has a value that it cannot have.
        """
        return TypeAdapter(cls).validate_json(text)


@dataclass(frozen=True, slots=True)
class StepReport:
    """The report on one step. ``means`` are the measures of ``schemas.CURVES``.

    A measure's spread is among them under ``training.health.spread_key``.
    """

    step: int
    steps: int
    attempt: int
    means: Mapping[str, float | None]
    seconds: Mapping[str, float]
    eta_s: float
    warnings: tuple[str, ...] = ()


Report = Callable[[StepReport], None]


@dataclass(frozen=True, slots=True)
class TrainingOutcome:
    """How a run ended. ``stopped`` is the reason of an early end, else empty.

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


def outcome_among(messages: Sequence[Any]) -> TrainingOutcome | None:
    """The last outcome among messages of all kinds; None where there is none."""
    message = last_of(messages, OUTCOME)
    if message is None:
        return None
    return TypeAdapter(TrainingOutcome).validate_python(message)


def last_of(messages: Sequence[Any], kind: str) -> dict[str, Any] | None:
    """The last message of a kind; None where there is none."""
    matching = [each for each in messages if isinstance(each, dict) and each.get("kind") == kind]
    return matching[-1] if matching else None


def meaning_of(status: int) -> str:
    """An exit status in words, with its number; a negative one is a signal, as from Popen."""
    code = status if status >= 0 else _SIGNALLED - status
    return f"exit status {code}: {_MEANING.get(code, 'unknown to this project')}"
