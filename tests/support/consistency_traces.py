"""Traces with contradictions, and traces that only look as if they had some, from a JSON file."""

import json
from collections.abc import Sequence

from decomposerl.judge.signals import Signals
from decomposerl.rewards.consistency import consistency
from decomposerl.rewards.reward import RewardCase, RewardResult
from decomposerl.rewards.settings import RewardSettings
from decomposerl.traces.abstention import abstains
from decomposerl.traces.rollout import Rollout
from decomposerl.traces.trace import Cycle, Trace
from project import SUPPORT

Pairs = Sequence[tuple[str, str]]
TABLES = json.loads((SUPPORT / "consistency_traces.json").read_text("utf-8"))
GOLFERS, BARS, KEYED, FROM_US = (TABLES[name] for name in ("golfers", "bars", "keyed", "from_us"))
RANKED, ORDER, LISTED = (tuple(TABLES[name]) for name in ("ranked", "order", "listed"))
RETOLD: dict[str, Pairs] = TABLES["retold"]
CLASHES: dict[str, Pairs] = TABLES["clashes"]
HARMLESS: dict[str, Pairs] = TABLES["harmless"]
MISCOUNTS: dict[str, tuple[Pairs, str]] = TABLES["miscounts"]
HONEST: dict[str, tuple[Pairs, str]] = TABLES["honest"]


def case(pairs: Pairs, evidence: str = "", number: int = 0) -> RewardCase:
    n = len(pairs)
    trace = Trace((), (), None, tuple(Cycle(*pair) for pair in pairs), None)
    silent = tuple(abstains(answer) for _, answer in pairs)
    unasked = (None,) * n
    signals = Signals(None, unasked, unasked, unasked, unasked, silent)
    return RewardCase(Rollout("group", number, "A claim.", evidence, trace), signals)


def scored(pairs: Pairs, evidence: str = "") -> RewardResult:
    (score,) = consistency([case(pairs, evidence)], RewardSettings())
    return score


def states(pairs: Pairs, evidence: str = "") -> list[str]:
    return [question.state for question in scored(pairs, evidence).questions]
