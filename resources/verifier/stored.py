"""A verifier that remembers the pairs it has scored."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from decomposerl.ports import Mapper, Verifier
from resources.store.result_store import ResultStores
from resources.store.stored_engine import Answers, Pair, StoredEngine, every_row


class StoredVerifier(StoredEngine[Pair]):
    """A ``Verifier`` whose probabilities are stored (float64)."""

    _port = "verifier"

    def __init__(
        self,
        engine: Verifier,
        stores: ResultStores,
        batch_size: int = 256,
        mapper: Mapper | None = None,
    ) -> None:
        """Wrap ``engine``."""
        super().__init__(engine, stores, batch_size, mapper)

    def support_probability(self, pairs: Sequence[Pair]) -> NDArray[np.float64]:
        """As the engine's, shape (n,), range 0..1."""
        out = np.full(len(pairs), np.nan)

        def fill(rows: NDArray[np.int64], values: Any) -> None:  # noqa: ANN401 - an Arrow array
            out[rows] = values.to_numpy(zero_copy_only=False)

        return out[self._pass(pairs, tuple, fill, _answer)]


def _answer(engine: Verifier, batch: list[Pair]) -> Answers:
    import pyarrow as pa

    scores = np.asarray(engine.support_probability(batch), dtype=np.float64)
    return Answers(every_row(len(batch)), pa.array(scores, pa.float64()))
