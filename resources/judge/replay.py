"""A judge that answers from a recorded table, by call key.

A ``JUDGE_CALLS`` table is such a one as it is, so rewards of an earlier run can be computed again
without a model. A call that was not recorded is an error; a recorded failure is returned like any
ruling.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path

import polars as pl

from decomposerl.errors import EngineError
from decomposerl.judge.call import JudgeCall, Ruling, rulings_from_frame


class ReplayJudge:
    """A ``Judge`` over recorded rulings."""

    def __init__(self, folder: Path, rulings: Mapping[str, Ruling] | None = None) -> None:
        """``folder`` may be the table itself (``.parquet``). Reads nothing before a call.

        ``rulings`` by call key stand for a table that was read already.
        """
        self._path = folder if folder.suffix == ".parquet" else folder / "judge.parquet"
        self._rulings = rulings
        self.engine = f"replay of {folder.name}"
        """Name of the engine: the folder of its recorded rulings."""
        self.calls = self.hits = 0
        """Calls sent to an engine, which is none, and calls answered from the table."""

    def judge(self, calls: Sequence[JudgeCall]) -> list[Ruling]:
        """The recorded ruling of each call, in order.

        Raises:
            EngineError: there is no table, or a call was never recorded.
        """
        rulings = self._load()
        recorded = [rulings.get(call.key) for call in calls]
        known = [ruling for ruling in recorded if ruling is not None]
        if len(known) < len(recorded):
            call = calls[recorded.index(None)]
            text = (call.question or call.claim)[:80]
            raise EngineError(f"{self.engine}: no record of {call.task} of '{text}'")
        self.hits += len(known)
        return known

    def _load(self) -> Mapping[str, Ruling]:
        if self._rulings is None:
            if not self._path.is_file():
                raise EngineError(f"{self.engine}: there is no {self._path}")
            try:
                table = pl.read_parquet(self._path, columns=["call_key", "value", "failure"])
            except (pl.exceptions.PolarsError, OSError) as error:
                raise EngineError(f"{self._path} is no table of rulings: {error}") from error
            self._rulings = rulings_from_frame(table)
        return self._rulings
