"""A reward of one's own: a function that the settings name by its import path.

``rewards.own = "my_module:reward"`` takes a function of the cases of a group and the settings that
gives a number from -1 to 1 for each case, or None where it does not apply. Its attributes
``judge_roles`` and ``reads_vectors`` (as of ``Reward``) say what is judged and embedded for it, of
the ``cycles`` of each case: a trace that is too long has none.
"""

import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from functools import lru_cache
from importlib import import_module
from numbers import Real
from typing import Any

import numpy as np

from decomposerl.errors import ConfigError
from decomposerl.rewards.reward import Reward, RewardCase, RewardResult, Signals
from decomposerl.rewards.settings import RewardSettings
from decomposerl.traces.grammar import build_trace
from decomposerl.traces.rollout import Rollout
from decomposerl.traces.trace import Cycle


def own(cases: Sequence[RewardCase], settings: RewardSettings) -> list[RewardResult]:
    """What the function gives; absent where it gives None, or where none is named.

    Raises:
        ConfigError: it cannot be imported, or gives something else.
    """
    if not settings.own:
        return [RewardResult(None, "absent")] * len(cases)
    return _results(own_reward(settings.own), cases, settings)


def _results(
    function: Callable[..., Any], cases: Sequence[RewardCase], settings: RewardSettings
) -> list[RewardResult]:
    given = function(cases, settings)
    values = list(given) if isinstance(given, Iterable) else []
    fit = [one is None or (isinstance(one, Real) and -1 <= float(one) <= 1) for one in values]
    if len(values) != len(cases) or not all(fit):
        wrong = f"rewards.own: {settings.own} gives {given!r:.80} for {len(cases)} cases"
        raise ConfigError(f"{wrong}; it must give a number from -1 to 1, or None, for each")
    return [RewardResult(None, "absent") if v is None else RewardResult(float(v)) for v in values]


@lru_cache(maxsize=16)
def own_reward(path: str) -> Callable[..., Any]:
    """The function of an import path; modules of the working directory are found.

    It is tried on two rollouts, so that a fault shows before a run is paid for.

    Raises:
        ConfigError: there is none, or it raises or gives what is no reward.
    """
    module, _, name = path.partition(":")
    if "" not in sys.path:
        sys.path.append("")
    try:
        function: Callable[..., Any] = getattr(import_module(module), name)
    except (ImportError, AttributeError, ValueError) as error:
        raise ConfigError(f"rewards.own is '{path}', no MODULE:FUNCTION: {error}") from error
    if not callable(function):
        raise ConfigError(f"rewards.own is '{path}', which is no function")
    trace = build_trace("One.", [Cycle("Who built it?", "Ada Holm.", "On.")], "Supported")
    ruled = Signals("Supported", ("NotEnoughInfo",), (True,), ((True,) * 5,), (True,), (False,))
    claim, vectors = "Ada Holm built it.", np.ones((1, 1), dtype=np.float32)
    rollouts = [Rollout("probe", n, claim, claim, trace, "Supported", 1) for n in range(2)]
    cases = [RewardCase(rollout, ruled, vectors) for rollout in rollouts]
    try:
        _results(function, cases, RewardSettings(own=path))
    except ConfigError:
        raise
    except Exception as error:
        why = f"{type(error).__name__}: {error}"
        raise ConfigError(f"rewards.own: {path} raises {why}") from error
    return function


def bound(reward: Reward, settings: RewardSettings) -> Reward:
    """The member of the catalogue with what the function of the settings reads, if it is this."""
    if reward.compute is not own or not settings.own:
        return reward
    function = own_reward(settings.own)
    roles, vectors = getattr(function, "judge_roles", ()), getattr(function, "reads_vectors", False)
    return replace(reward, judge_roles=tuple(roles), reads_vectors=bool(vectors), weight=1.0)
