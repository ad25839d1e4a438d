"""Work that one of several training processes does for all.

Groups are whole only when every process's completions are looked at, and a judge is asked once:
the first process scores, the others get its numbers, or its fault.
"""

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from resources.training.batch import Sampled
from resources.training.library_types import Accelerator
from resources.training.rewards import Amounts

Found = TypeVar("Found")


def from_first(accelerator: Accelerator, compute: Callable[[], Found]) -> Found:
    """What the first process computes, in every process.

    Called by all at the same point, in their main threads: the collectives use the device of
    the thread. A fault is raised in all, so that none waits for the others.
    """
    if accelerator.num_processes == 1:
        return compute()
    from accelerate.utils import broadcast_object_list

    told: list[Any] = [_attempted(compute) if accelerator.is_main_process else None]
    (found,) = broadcast_object_list(told)
    if isinstance(found, Exception):
        raise found
    return found  # type: ignore[no-any-return]


def amounts_across(
    accelerator: Accelerator,
    evaluate: Callable[[Sequence[Sampled]], Amounts],
    mine: Sequence[Sampled],
) -> Amounts:
    """The amounts of this process's completions, scored with everyone's."""
    from accelerate.utils import gather_object

    everyone = gather_object(list(mine))
    found = from_first(accelerator, lambda: dict(evaluate(everyone)))
    first = accelerator.process_index * len(mine)
    return {name: amounts[first : first + len(mine)] for name, amounts in found.items()}


def _attempted(compute: Callable[[], Found]) -> Found | Exception:
    try:
        return compute()
    except Exception as error:  # noqa: BLE001 - the others must learn of it, whatever it is
        return error
