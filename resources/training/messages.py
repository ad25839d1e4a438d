"""Reads the messages of a training process as they come, and shows how far it is.

Its bars are shown in this process, and its steps on the policy's page, as observations.
"""

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Protocol

import dagster as dg
import polars as pl

from decomposerl.progress import Mirror
from decomposerl.reports.training_figure import training_curve, training_png
from decomposerl.reports.training_report import duration
from decomposerl.training.curves import TRAIN, CurvePoint, curve_rows
from decomposerl.training.health import spread_key
from resources.store.recording import picture, rounded
from resources.training.process import PROGRESS, STEP

_LEAST_WAIT_S, _WAIT_SHARE = 30.0, 0.15


class Observed(Protocol):
    """What an observer needs of the context of an asset."""

    @property
    def asset_key(self) -> dg.AssetKey:
        """The asset."""
        ...

    @property
    def partition_key(self) -> str:
        """Its partition."""
        ...

    def log_event(self, event: dg.AssetObservation) -> None:
        """Write the event now; Dagster does, also where the run's stream gets it later."""
        ...


class StepObserver:
    """Logs observations of a policy that trains: its page shows them from the first step on.

    Each has the last step's measures, and from the second step on the curves so far. The next one
    follows after 30 seconds, or 15 % of the time so far where that is longer: 40 in eight hours.
    """

    def __init__(self, context: Observed, clock: Callable[[], float] = time.monotonic) -> None:
        self._context, self._clock = context, clock
        self._started = self._next = clock()
        self._rows: list[pl.DataFrame] = []

    def seen(self, step: Mapping[str, Any]) -> None:
        """Take a step's message (``process.StepReport``)."""
        means = step["means"]
        points = {
            name: CurvePoint(mean, means.get(spread_key(name)), 0)
            for name, mean in means.items()
            if not name.endswith(spread_key(""))
        }
        name = self._context.partition_key
        self._rows.append(curve_rows("", name, step["step"], TRAIN, points))
        now = self._clock()
        if now >= self._next:
            self._next = now + max(_LEAST_WAIT_S, _WAIT_SHARE * (now - self._started))
            self._context.log_event(self._observation(step))

    def _observation(self, step: Mapping[str, Any]) -> dg.AssetObservation:
        shown: dict[str, Any] = {}
        curves = pl.concat(self._rows)
        if len(self._rows) > 1:
            shown["rewards so far"] = dg.MetadataValue.md(training_curve(curves))
        shown |= {
            "steps done": step["step"],
            "steps": step["steps"],
            "time left": duration(step["eta_s"]),
        }
        if len(self._rows) > 1:
            shown["learning curves so far"] = picture(training_png(curves))
        last = self._rows[-1].drop_nulls("mean").filter(pl.col("mean").is_finite())
        shown |= rounded(dict(last.select("measure", "mean").iter_rows()))
        key, part = self._context.asset_key, self._context.partition_key
        return dg.AssetObservation(key, partition=part, metadata=shown)


class TrainingMessages(dg.PipesTempFileMessageReader):
    """Messages of one process; bars and steps among them are shown here."""

    def __init__(self, observer: StepObserver) -> None:
        """``observer`` takes the steps."""
        super().__init__()
        self._observer = observer

    @contextmanager
    def read_messages(self, handler: Any) -> Iterator[Any]:  # noqa: ANN401 - Dagster's types
        """Read while the block runs."""
        with Mirror() as mirror:
            others: Any = _Shown(handler, mirror, self._observer)
            with super().read_messages(others) as params:
                yield params

    @property
    def expected_writer_count(self) -> int:  # Dagster's own warns that it is a preview
        """The number of processes that write."""
        return 1


class _Shown:
    """Dagster's handler of messages, which gets all messages but those about bars."""

    def __init__(self, handler: Any, mirror: Mirror, observer: StepObserver) -> None:  # noqa: ANN401 - the same
        self._handler, self._mirror, self._observer = handler, mirror, observer

    def handle_message(self, message: Any) -> None:  # noqa: ANN401 - the same
        """Show the bars, or pass it on and show the step."""
        payload = (message.get("params") or {}).get("payload")
        known = payload if isinstance(payload, dict) else {}
        if known.get("kind") == PROGRESS:
            self._mirror.show(known["bars"])
            return
        self._handler.handle_message(message)
        if known.get("kind") == STEP:
            self._observer.seen(known)

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401 - the same
        """All else is the handler's."""
        return getattr(self._handler, name)
