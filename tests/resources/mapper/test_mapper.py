"""The mapper's engines: order, laziness, and what an error says."""

from collections.abc import Iterator

import pytest

from resources.mapper.in_process import InProcessMapper


def _square(batch: list[int]) -> list[int]:
    if not batch:
        raise ValueError("an empty batch")
    return [number**2 for number in batch]


def test_results_come_in_order_and_batches_are_taken_when_they_are_needed() -> None:
    """In one process, nothing is taken ahead of the result that is read."""
    taken: list[int] = []

    def batches() -> Iterator[list[int]]:
        for number in range(3):
            taken.append(number)
            yield [number, number + 1]

    results = InProcessMapper().map(_square, batches())
    assert (next(results), taken) == ([0, 1], [0])
    assert [*results] == [[1, 4], [4, 9]]


def test_an_error_ends_the_map_and_names_its_batch() -> None:
    """The engine's own exception is raised, with a note that has the batch's number."""
    results = InProcessMapper().map(_square, [[1], [], [2]])
    assert next(results) == [1]
    with pytest.raises(ValueError, match="an empty batch") as caught:
        next(results)
    assert caught.value.__notes__ == ["in batch 1"]
    assert [*results] == []
