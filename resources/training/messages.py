"""What a training process says to its starter, as JSON: steps, the dry run, the outcome.

Takes the types of ``resources.training.run`` and gives mappings that survive JSON, and back.
A message has ``kind``; everything else is that kind's fields. Exit statuses stand here too,
because both sides must agree on them.
"""

import signal
from collections.abc import Mapping, Sequence
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any

from resources.training.run import StepReport, TrainingOutcome

STEP, DRY_RUN, OUTCOME = "step", "dry_run", "outcome"
DONE, FAILED, REFUSED = 0, 1, 2
_SIGNALLED = 128
_MEANING = {
    FAILED: "an error that nobody expected",
    REFUSED: "it was refused before or while it ran; the reason stands in its log",
    _SIGNALLED + signal.SIGINT: "it was interrupted and left a checkpoint where a step was done",
    _SIGNALLED + signal.SIGTERM: "it was told to end and left a checkpoint where a step was done",
    _SIGNALLED + signal.SIGKILL: "it was killed: kill -9, or the system ran out of memory",
    _SIGNALLED + signal.SIGSEGV: "a library crashed",
}
_PATHS = ("adapter", "curves")


def step_message(report: StepReport) -> dict[str, Any]:
    """One step as a message."""
    return {"kind": STEP, **asdict(report)}


def dry_run_message(report: Mapping[str, Any]) -> dict[str, Any]:
    """What a dry run found as a message."""
    return {"kind": DRY_RUN, "report": dict(report)}


def outcome_message(outcome: TrainingOutcome) -> dict[str, Any]:
    """How a run ended as a message."""
    plain = asdict(outcome)
    return {"kind": OUTCOME, **plain, **{name: str(plain[name]) for name in _PATHS}}


def outcome_among(messages: Sequence[Any]) -> TrainingOutcome | None:
    """The last outcome among messages of all kinds; None where there is none."""
    found = last_of(messages, OUTCOME)
    if found is None:
        return None
    known = {field.name for field in fields(TrainingOutcome)}
    plain = {name: value for name, value in found.items() if name in known}
    return TrainingOutcome(**{**plain, **{name: Path(plain[name]) for name in _PATHS}})


def last_of(messages: Sequence[Any], kind: str) -> dict[str, Any] | None:
    """The last message of a kind; None where there is none."""
    found = [each for each in messages if isinstance(each, dict) and each.get("kind") == kind]
    return found[-1] if found else None


def meaning_of(status: int) -> str:
    """An exit status in words, with its number; a negative one is a signal, as from Popen."""
    code = status if status >= 0 else _SIGNALLED - status
    return f"exit status {code}: {_MEANING.get(code, 'unknown to this project')}"
