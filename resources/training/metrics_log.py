"""The learning curves of a run while it goes on.

Takes each step's points, logs them a file a step, and answers what health rules, reports and the
end of a run ask. Curves of earlier attempts are taken up as far as they count.
"""

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field

import polars as pl

from decomposerl.training.curves import TRAIN, CurvePoint, Split, curve_rows, history
from resources.store.parquet import write_parquet
from resources.training.measures import failure_share
from resources.training.rollout_log import RolloutLog, read_log
from resources.training.run_folder import RunFolder

LAST_STEPS = 20
"""Steps that the judge's failures, and what is grave about a run's health, are told from."""
HELD_OUT: tuple[Split, ...] = ("held_out_sampled", "held_out_greedy")


@dataclass(slots=True)
class CurveBook:
    """Curves in memory and on disk. ``history`` has one mapping a training step.

    Where several processes train, ``writes`` holds for the first one.
    """

    folder: RunFolder
    log: RolloutLog
    experiment: str
    writes: bool = True
    history: list[dict[str, float | None]] = field(default_factory=list)
    _frames: list[pl.DataFrame] = field(default_factory=list)
    _failures: deque[CurvePoint] = field(default_factory=lambda: deque(maxlen=LAST_STEPS))

    def __post_init__(self) -> None:
        """Take up what earlier attempts left."""
        splits: tuple[Split, ...] = (TRAIN, *HELD_OUT)
        self._frames = [read_log(self.folder.path, "curves", split) for split in splits]
        self.history = history(self._frames[0])

    def note(self, step: int, split: Split, points: Mapping[str, CurvePoint]) -> None:
        """Log the points of a step."""
        rows = curve_rows(self.log.run, self.experiment, step, split, points)
        if self.writes:
            self.log.write_curves(step, split, rows)
        self._frames.append(rows)
        if split == TRAIN:
            self.history += history(rows)
            self._failures.append(points.get("judge_failures", CurvePoint(None, None, 0)))

    def lost_share(self) -> float:
        """The share of judged scores without a ruling over this attempt's last steps, 0..1.

        Before that many steps are done, steps to come count as if they would lose nothing.
        Earlier attempts do not count: whoever starts a run again has mended its judge.
        """
        return failure_share(self._failures) * len(self._failures) / LAST_STEPS

    @property
    def window_is_full(self) -> bool:
        """Whether this attempt has done as many steps as rules look back."""
        return len(self._failures) == LAST_STEPS

    def held_out_at(self, step: int) -> dict[str, float]:
        """The held-out measures at a step by split, slash, measure; empty where there are none."""
        told = self._whole().filter(
            pl.col("step") == step, pl.col("split") != TRAIN, pl.col("mean").is_not_null()
        )
        rows = told.select("split", "measure", "mean").iter_rows()
        return {f"{split}/{measure}": mean for split, measure, mean in rows}

    def write(self) -> None:
        """The curves of the whole run as one file."""
        if self.writes:
            write_parquet(self._whole(), self.folder.curves)

    def _whole(self) -> pl.DataFrame:
        self._frames = [pl.concat(self._frames).sort("step", "split", maintain_order=True)]
        return self._frames[0]
