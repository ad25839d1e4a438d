"""What the policy's page shows while a run trains."""

from collections.abc import Iterator

import dagster as dg

from decomposerl.training.health import spread_key
from resources.training.messages import StepObserver
from resources.training.process import StepReport, step_message


class Page:
    """An asset's context that keeps what is logged."""

    asset_key, partition_key = dg.AssetKey("policy"), "tiny"

    def __init__(self) -> None:
        self.logged: list[dg.AssetObservation] = []

    def log_event(self, event: dg.AssetObservation) -> None:
        """Keep it."""
        self.logged.append(event)


def clock(*seconds: float) -> Iterator[float]:
    yield from seconds


def seen(observer: StepObserver, step: int) -> None:
    """A step whose weighted sum has many decimals and whose loss was not measured."""
    means = {"total": 1 / 3 + step, spread_key("total"): 0.5, "loss": None, "entropy": float("nan")}
    observer.seen(step_message(StepReport(step, 30, 1, means, {}, 90.0)))


def test_a_run_that_trains_shows_its_measures_and_its_curves():
    """From the first step on, for its partition, in few digits; a curve needs two steps."""
    page = Page()
    times = clock(0.0, 1.0, 40.0)
    observer = StepObserver(page, lambda: next(times))
    seen(observer, 1)
    seen(observer, 2)
    first, second = page.logged
    assert (dg.AssetKey("policy"), "tiny") == (first.asset_key, first.partition)
    shown = {name: value.value for name, value in first.metadata.items()}
    assert {"steps done": 1, "steps": 30, "time left": "1 min 30 s", "total": 1.3333} == shown
    assert str(second.metadata["learning curves so far"].value).startswith("![")
    assert "rewards so far" == next(iter(second.metadata))
    assert len(str(second.metadata["rewards so far"].value)) < 1_000


def test_observations_grow_rare_in_a_long_run():
    """At most one in 30 seconds; of eight hours with a step every 10 minutes, fewer than 25."""
    page, now = Page(), [0.0]
    observer = StepObserver(page, lambda: now[0])
    for step in range(48):
        now[0] = 600.0 * step
        seen(observer, step + 1)
    assert 15 < len(page.logged) < 25
