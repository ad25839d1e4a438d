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
        self.calls = self.hits = 0
        """Calls sent to an engine, which is none, and calls answered from the table."""

    def judge(self, calls: Sequence[JudgeCall]) -> list[Ruling]:
        """The recorded ruling of each call, in order.

        Raises:
            EngineError: there is no table, or a call was never recorded.
        """
        if self._rulings is None:
            self._rulings = self._recorded()
        keys = [call.key for call in calls]
        for call, key in zip(calls, keys, strict=True):
            if key not in self._rulings:
                text = (call.question or call.claim)[:80]
                raise EngineError(f"{self.engine}: no record of {call.task} of '{text}'")
        self.hits += len(keys)
        return [self._rulings[key] for key in keys]

    def _recorded(self) -> Mapping[str, Ruling]:
        try:
            table = pl.read_parquet(self._path, columns=["call_key", "value", "failure"])
        except (pl.exceptions.PolarsError, OSError) as error:
            raise EngineError(f"{self._path} is no table of rulings: {error}") from error
        return rulings_from_frame(table)
