"""Batches in this process, one after the other."""

from collections.abc import Callable, Iterable, Iterator

from decomposerl.ports import Batch, Result
from resources.mapper.pools import PoolMapper, name_batch


class InProcessMapper:
    """A ``Mapper`` that is the loop itself: nothing is pickled, started or taken ahead."""

    engine = "in process"

    def map(
        self, function: Callable[[Batch], Result], batches: Iterable[Batch]
    ) -> Iterator[Result]:
        """As the port's."""
        for number, batch in enumerate(batches):
            try:
                result = function(batch)
            except Exception as error:
                name_batch(error, number)
                raise
            yield result

    def close(self) -> None:
        """Nothing is open."""


OpenMapper = InProcessMapper | PoolMapper
"""A ``Mapper`` with ``close``, which ends its idle workers."""
