"""The ensemble as TRL reward functions, whose values are computed together for each batch.

A value that does not count (no label, a missing ruling) is None, so that TRL's weighted sum equals
ours. The rewards of a group need all of its rollouts, and every judge call is made once: of several
processes the main one computes, the others receive its result or its error.
"""

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from decomposerl.judge.call import Calls, Judge
from decomposerl.ports import Embedder
from decomposerl.rewards.scoring import planned_calls, reward_rollouts, rulings_on
from decomposerl.training.curves import Split
from decomposerl.training.experiment import Experiment
from resources.chat.engine import ChatEngine
from resources.training.data import Completion, rollout_of, rollouts_of
from resources.training.rollout_log import RolloutLog, StepBatch

if TYPE_CHECKING:
    from accelerate import Accelerator, PartialState

Result = TypeVar("Result")
RewardColumns = Mapping[str, Sequence[float | None]]
_AT_ONCE = 256  # parts of rollouts; the judge's client limits the requests in flight


@dataclass(slots=True)
class RewardScorer:
    """Computes and logs the rewards of one run. ``last`` is the latest training batch."""

    experiment: Experiment
    judge: Judge
    embedder: Embedder
    log: RolloutLog
    most_cycles: int
    last: StepBatch | None = None
    _begun: dict[Completion, list[Future[object]]] = field(default_factory=dict)
    _threads: ThreadPoolExecutor = field(default_factory=partial(ThreadPoolExecutor, _AT_ONCE))

    def begin(self, completion: Completion) -> None:
        """Ask a chat model about a completion; ``score`` then finds the replies in its store.

        A rollout's leave-one-out verdicts follow its full set's alone.
        """
        if completion in self._begun or not isinstance(self.judge, ChatEngine):
            return
        rollouts = [rollout_of(completion)]
        (calls,) = planned_calls(rollouts, self.experiment.rewards, self.most_cycles)
        parts: list[Calls] = [{}, {}]
        for (task, cycle), call in calls.items():
            parts[task == "coverage"][task, cycle] = call
        self._begun[completion] = [
            self._threads.submit(rulings_on, [part], self.judge.renewed()) for part in parts
        ]

    def training(self, step: int, completions: Sequence[Completion]) -> RewardColumns:
        """Each active reward's values for a training batch, with the errors of ``score``.

        The log has the true ones, also where the recipe shuffles them for the trainer.
        """
        self.last = self.score(step, "train", completions, self.experiment.grpo.group_size)
        columns: RewardColumns = self.last.rewards.counted
        if self.experiment.shuffle_rewards:
            return shuffled_in_groups(columns, completions, self.experiment.seed, step)
        return columns

    def score(
        self, step: int, split: Split, completions: Sequence[Completion], group_size: int
    ) -> StepBatch:
        """Reward and log a batch with ``group_size`` completions of each claim.

        Raises:
            TrainingError: a group is incomplete.
            RewardError: a ruling is missing and the settings do not allow it.
            EngineError: judge or embedder is unreachable.
        """
        rollouts = rollouts_of(completions, group_size)
        for completion in completions:
            self.begin(completion)
        for future in chain.from_iterable(self._begun.values()):
            future.exception()  # what failed is asked again, by a judge that sees the whole batch
        self._begun.clear()
        settings, most = self.experiment.rewards, self.most_cycles
        scored = reward_rollouts(rollouts, self.judge, self.embedder, settings, most)
        batch = StepBatch(step, completions, scored)
        self.log.write(batch, split)
        return batch


def reward_functions(
    names: Sequence[str], rewards: RewardColumns
) -> list[Callable[..., list[float | None]]]:
    """One function per reward, which TRL logs under its ``__name__``.

    Each gives the column of its name in ``rewards``, where the trainer puts those of a batch.
    """
    return [_reward_function(name, rewards) for name in names]


def _reward_function(name: str, rewards: RewardColumns) -> Callable[..., list[float | None]]:
    def reward(**_: object) -> list[float | None]:
        return list(rewards[name])

    reward.__name__ = reward.__qualname__ = name
    return reward


def shuffled_in_groups(
    columns: RewardColumns, completions: Sequence[Completion], seed: int, step: int
) -> dict[str, list[float | None]]:
    """Give each rollout the whole reward vector of a random rollout of its group.

    A control: the same rewards, unrelated to the policy's behaviour. Equal seeds and steps give
    equal permutations.
    """
    draw = np.random.default_rng([seed, step])
    groups: dict[str, list[int]] = {}
    for index, one in enumerate(completions):
        groups.setdefault(one.claim_id, []).append(index)
    sources = list(range(len(completions)))
    for members in groups.values():
        for index, source in zip(members, draw.permutation(members), strict=True):
            sources[index] = int(source)
    return {name: [values[source] for source in sources] for name, values in columns.items()}


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


def _attempt(compute: Callable[[], Result]) -> Result | Exception:
    try:
        return compute()
    except Exception as error:  # noqa: BLE001 - the other processes must get it, whatever it is
        return error
