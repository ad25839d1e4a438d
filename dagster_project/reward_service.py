"""Requests for rewards, scored by the ensemble: what ``decomposerl serve-rewards`` does.

A request holds whole groups of rollouts, with the fields that ``decomposerl score`` reads; the
reply has each reward's value, state, weight and what counts. ``docs/how-to/serve-rewards.md`` is
the contract; ``reward_server`` sends both over HTTP.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from http import HTTPStatus
from pathlib import Path
from threading import Lock

import numpy as np
from numpy.typing import NDArray

from dagster_project.environment import read_settings
from dagster_project.score import (
    ALL_LABELS,
    Labels,
    check_settings,
    opened_engines,
    rollouts_of_records,
)
from decomposerl.errors import ConfigError, DecomposeRLError
from decomposerl.judge.call import Judge
from decomposerl.ports import Embedder
from decomposerl.rewards.composite import active_rewards
from decomposerl.rewards.settings import RewardSettings
from decomposerl.rewards.table import reward_objects
from decomposerl.schemas import WRITTEN, Verdict
from decomposerl.traces.records import Problem, TraceRecord, json_object, read_trace_rows, safe_name
from resources.chat.engine import ChatEngine
from resources.judge.scoring import JudgedBatch, reward_rollouts
from resources.training.process import RunLimits

MOST_CYCLES = RunLimits().most_cycles
"""As in training: a longer trace is not judged."""
_FIELDS = ("rollouts", "group_size")
_SHOWN = 100  # problems in one reply
Reply = dict[str, object]


@dataclass(frozen=True, slots=True)
class RewardService:
    """Scores requests; threads may share one.

    ``most_cycles`` is as in ``reward_rollouts``.
    """

    profile: str
    judge: Judge
    embedder: Embedder
    settings: RewardSettings
    labels: Labels = ALL_LABELS
    most_cycles: int = MOST_CYCLES
    _embedding: Lock = field(default_factory=Lock)

    def health(self) -> Reply:
        """What scores here: profile, engines, rewards with weight and range, readings."""
        readings = asdict(self.settings)
        weights = readings.pop("weights")
        active = active_rewards(self.settings)
        return {
            "status": "ok",
            "profile": self.profile,
            "judge": self.judge.engine,
            "embedder": self.embedder.engine,
            "rewards": [
                {
                    "name": one.name,
                    "weight": float(weights.get(one.name, one.weight)),
                    "low": float(one.low),
                    "high": float(one.high),
                }
                for one in active
            ],
            "readings": readings,
            "labelled_share": self.labels.share,
            "most_cycles": self.most_cycles,
            "verdicts": [WRITTEN[label] for label in self.labels.names],
        }

    def answer(self, body: bytes) -> tuple[HTTPStatus, Reply]:
        """Status and reply of a request; only a fault of this program raises."""
        given = _groups_of(body, self.labels.names)
        if not isinstance(given, _Groups):
            return HTTPStatus.BAD_REQUEST, given
        try:
            judged = self._judged(given.records)
        except DecomposeRLError as error:
            wrong = isinstance(error, ConfigError)
            status = HTTPStatus.INTERNAL_SERVER_ERROR if wrong else HTTPStatus.SERVICE_UNAVAILABLE
            return status, {"error": str(error)}
        return HTTPStatus.OK, {
            "rollouts": reward_objects(judged.rewards),
            "judge": self.judge.engine,
            "embedder": self.embedder.engine,
            "distinct_calls": judged.distinct_calls,
            "notes": list(given.notes),
        }

    def _judged(self, records: Sequence[TraceRecord]) -> JudgedBatch:
        judge = self.judge.renewed() if isinstance(self.judge, ChatEngine) else self.judge
        return reward_rollouts(
            rollouts_of_records(records, self.labels.share),
            judge,
            _InTurn(self.embedder, self._embedding),
            self.settings,
            self.most_cycles,
        )


@dataclass(frozen=True, slots=True)
class _InTurn:
    """The embedder, for one thread at a time: its store of results is not for several."""

    inner: Embedder
    lock: Lock

    @property
    def engine(self) -> str:
        return self.inner.engine

    def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        with self.lock:
            return self.inner.embed(texts)


@dataclass(frozen=True, slots=True)
class _Groups:
    """What a request asks to score, and what of it is not read."""

    records: Sequence[TraceRecord]
    notes: Sequence[str]


def _groups_of(body: bytes, labels: tuple[Verdict, ...]) -> _Groups | Reply:
    """The groups of a request, or the reply that refuses it."""
    values = json_object(body.decode("utf-8", "surrogateescape"))
    if isinstance(values, str):
        return _refusal(f"the body {values}" if values.startswith("is ") else f"the body: {values}")
    rows, size = values.get("rollouts"), values.get("group_size")
    if not isinstance(rows, list) or not rows:
        return _refusal("'rollouts' must be a list of at least one object")
    if size is not None and (type(size) is not int or size < 1):
        return _refusal("'group_size' must be a whole number from 1 on")
    records, problems = read_trace_rows(rows, "rollouts", labels)
    wrong = [one for one in problems if one.dropped] or _incomplete(records, size)
    if wrong:
        more = f" (and {len(wrong) - 1:,} further problems)" if len(wrong) > 1 else ""
        return _refusal(f"{wrong[0]}{more}", wrong)
    unread = [f"'{safe_name(name)}' is not read" for name in values if name not in _FIELDS]
    return _Groups(records, [*unread, *map(str, problems)])


def _refusal(error: str, problems: Sequence[Problem] = ()) -> Reply:
    listed = [
        {"row": one.line, "field": one.field, "reason": one.reason} for one in problems[:_SHOWN]
    ]
    return {"error": error, "problems": listed}


def _incomplete(records: Sequence[TraceRecord], size: int | None) -> list[Problem]:
    """Groups that have not ``size`` rollouts: the majority vote of a part may differ."""
    if size is None:
        return []
    first = {one.group: one.line for one in reversed(records)}
    return [
        Problem(
            "rollouts",
            first[group],
            "group",
            f"'{group}' has {found} rollouts in this request, not {size}",
            unit="row",
        )
        for group, found in Counter(one.group for one in records).items()
        if found != size
    ]


@contextmanager
def opened_service(
    settings: RewardSettings,
    labels: Labels = ALL_LABELS,
    most_cycles: int = MOST_CYCLES,
    *,
    recorded: Path | None = None,
    most_calls: int = 0,
) -> Iterator[RewardService]:
    """The service with the engines of the profile; what they start ends with the block.

    The last two are as in ``opened_engines``.

    Raises:
        ConfigError: as ``check_settings``, or the environment is wrong.
        EngineError: ``recorded`` is no table of rulings.
    """
    check_settings(settings, labels)
    profile = read_settings().profile
    with opened_engines(recorded, most_calls) as (judge, embedder):
        if recorded is not None:
            judge.judge([])  # reads the table
        yield RewardService(profile, judge, embedder, settings, labels, most_cycles)
