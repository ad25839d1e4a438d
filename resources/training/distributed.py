"""Work that the main one of several training processes does for all.

The rewards of a group need all of its rollouts, and every judge call is made once: the main process
computes, the others receive its result or its error.
"""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from resources.training.data import Completion
from resources.training.reward_scoring import RewardColumns

if TYPE_CHECKING:
    from accelerate import Accelerator, PartialState

Result = TypeVar("Result")


def broadcast_from_main(
    accelerator: "Accelerator | PartialState", compute: Callable[[], Result]
) -> Result:
    """The main process's result of ``compute``, in every process.

    All processes must call this at the same point and in their main threads: the collectives use
    the thread's device.

    Raises:
        Exception: whatever ``compute`` raised, in all processes, so that none waits for the others.
    """
    if accelerator.num_processes == 1:
        return compute()
    from accelerate.utils import broadcast_object_list

    sent: list[Any] = [_attempt(compute) if accelerator.is_main_process else None]
    (result,) = broadcast_object_list(sent)
    if isinstance(result, Exception):
        raise result
    return result  # type: ignore[no-any-return]


def gather_rewards(
    accelerator: "Accelerator",
    compute: Callable[[Sequence[Completion]], RewardColumns],
    local: Sequence[Completion],
) -> RewardColumns:
    """The rewards of this process's completions, computed together with all others'."""
    from accelerate.utils import gather_object

    completions = gather_object(list(local))
    columns = broadcast_from_main(accelerator, lambda: dict(compute(completions)))
    first = accelerator.process_index * len(local)
    return {name: values[first : first + len(local)] for name, values in columns.items()}


def _attempt(compute: Callable[[], Result]) -> Result | Exception:
    try:
        return compute()
    except Exception as error:  # noqa: BLE001 - the other processes must get it, whatever it is
        return error
