"""Reads the messages of a training process as they come, and shows how far it is.

Its bars are shown in this process, and its steps on the policy's page, as observations.
"""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import dagster as dg
import polars as pl

from decomposerl.errors import TrainingError
from decomposerl.progress import Mirror
from decomposerl.reports.training_figure import training_curve, training_png
from decomposerl.reports.training_report import duration
from decomposerl.training.curves import TRAIN, CurvePoint, curve_rows
from decomposerl.training.health import spread_key
from resources.store.recording import picture, rounded
from resources.training.process import DONE, PROGRESS, STEP, meaning_of
from resources.vllm.process import tail

_LEAST_WAIT_S, _WAIT_SHARE = 30.0, 0.15


class StepObserver:
    """Logs observations of a policy that trains: its page shows them from the first step on.

    Each has the last step's measures, and from the second step on the curves so far. The next one
    follows after 30 seconds, or 15 % of the time so far where that is longer: 40 in eight hours.
    """

    def __init__(self, context: Any, clock: Callable[[], float] = time.monotonic) -> None:  # noqa: ANN401 - of an asset
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
        with shown(handler, self._observer) as others, super().read_messages(others) as params:
            yield params

    @property
    def expected_writer_count(self) -> int:  # Dagster's own warns that it is a preview
        """The number of processes that write."""
        return 1


@contextmanager
def shown(handler: Any, observer: StepObserver) -> Iterator[Any]:  # noqa: ANN401 - Dagster's types
    """Dagster's handler of messages, which shows bars and steps during the block."""
    with Mirror() as mirror:
        yield _Shown(handler, mirror, observer)


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


def watched_process(
    context: dg.AssetExecutionContext,
    log: Path,
    start: Callable[[Sequence[str]], int],
) -> Sequence[Any]:
    """The messages of a process of this machine that reports through Pipes.

    ``start`` takes the words that Pipes adds to the command, and gives the exit status.

    Raises:
        TrainingError: the process failed; the message ends with the last lines of ``log``.
    """
    context.log.info(f"training in a separate process; its output is in {log}")
    with dg.open_pipes_session(
        # With the asset's own context Dagster warns about a method that it calls itself.
        context=context.op_execution_context,
        context_injector=dg.PipesTempFileContextInjector(),
        message_reader=TrainingMessages(StepObserver(context)),
    ) as session:
        words = [w for pair in session.get_bootstrap_cli_arguments().items() for w in pair]
        status = start(words)
    if status != DONE:
        raise TrainingError(failure_text(f"ended with {meaning_of(status)}", log))
    return session.get_custom_messages()


def failure_text(what: str, log: Path) -> str:
    """What happened to a training process, with the end of its log."""
    return f"the training process {what}. Its log is {log}, and ends:\n{tail(log)}"
