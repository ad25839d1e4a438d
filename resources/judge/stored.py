"""A judge with a memory: what it ruled once is never asked again (paper, section 3.2).

Takes a ``Judge`` and a ``ResultStores``, gives a ``Judge`` that asks only for calls the store
lacks, each distinct call once, in batches that are stored as soon as they are ruled on.

Left out deliberately: failures. They are given back and not stored, so the next run asks
again; and expiry, as in ``resources.store.stored_engine``.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from decomposerl.judge.call import Judge, JudgeCall, Ruling
from resources.store.stored_engine import Details, ResultStores, Stored


class StoredJudge(Stored[JudgeCall]):
    """A ``Judge`` whose rulings are stored by call key (strings)."""

    _port = "judge"

    def __init__(
        self, engine: Judge, store: ResultStores, batch_size: int = 256, details: Details = dict
    ) -> None:
        """Wrap ``engine``; ``details`` tells what else it counted."""
        super().__init__(engine, store, batch_size, details)

    def judge(self, calls: Sequence[JudgeCall]) -> list[Ruling]:
        """One ruling a call, in order; a failed call keeps its reason."""
        import pyarrow as pa

        out: list[Ruling] = [Ruling(None, "never asked")] * len(calls)

        def fill(rows: NDArray[np.int64], values: Any) -> None:  # noqa: ANN401 - an Arrow array
            for row, value in zip(rows, values.to_pylist(), strict=True):
                out[row] = Ruling(value)

        def ask(batch: list[JudgeCall]) -> tuple[NDArray[np.int64], Any]:
            rulings = self._inner.judge(batch)
            failures.update(zip(batch, rulings, strict=True))
            ruled = [row for row, ruling in enumerate(rulings) if ruling.value is not None]
            values = pa.array([rulings[row].value for row in ruled], pa.string())
            return np.array(ruled, dtype=np.int64), values

        failures: dict[JudgeCall, Ruling] = {}
        positions = self._pass(calls, lambda call: (call.key,), fill, ask)
        found = [out[position] for position in positions]
        return [
            failures.get(call, ruling) if ruling.value is None else ruling
            for call, ruling in zip(calls, found, strict=True)
        ]
