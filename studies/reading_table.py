"""What each reading of the paper earns on planted traces, for docs/explanation/paper-readings.md.

``PYTHONPATH=.:tests/support python -m studies.reading_table`` scores the planted traces by the rule
judge and MiniLM under the readings of ``paper_7b``, with each of them as printed, with all of them
(``paper_7b_literal``) and with the reward for quotes, and writes the page's table.
"""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from statistics import fmean

from decomposerl.reports.tables import markdown_table
from decomposerl.rewards.scoring import RewardedBatch, reward_batch, reward_rollouts
from decomposerl.rewards.settings import PRINTED, RewardSettings
from decomposerl.traces.rollout import Rollout
from perf.pages import write_between_markers
from resources.embedder.minilm import MiniLM
from resources.judge.rule_judge import RuleJudge

KINDS = ("good", "dodging", "honest_abstention", "broken", "truncated")
"""The planted kinds on which the readings differ most."""
_PAGE = Path("docs/explanation/paper-readings.md")
_USUAL = RewardSettings()
_SILENCE = "silence is no refutation"
_ROWS: tuple[tuple[str, str, str, RewardSettings | None], ...] = (
    ("all", "paper_7b", "", _USUAL),
    ("format", "eight conditions", "three", replace(_USUAL, format="literal")),
    ("diversity", "one question: -1", "0", replace(_USUAL, diversity="literal")),
    ("abstention", "pays if honest", "if a dodge", replace(_USUAL, abstention="literal")),
    ("correctness", "of the pair", "of the sentence", replace(_USUAL, correctness="literal")),
    ("verdict_rule", "evidence", f"paper: {_SILENCE}", None),
    ("all", "", "paper_7b_literal", PRINTED),
    ("quotes", "weight 0", "beyond it: 1", replace(_USUAL, weights={"quotes": 1.0})),
)


def main() -> None:
    """Score the planted traces and write the table."""
    from decomposerl.traces.grammar import parse_trace
    from planted_traces.planting import planted_traces

    planted = planted_traces()
    rollouts = [
        Rollout(
            *(trace.group, trace.number, trace.claim, trace.evidence, parse_trace(trace.text)),
            *(trace.label, trace.n_star, trace.truncated),
        )
        for trace in planted
    ]
    table = reading_table(rollouts, [trace.kind for trace in planted])
    write_between_markers(_PAGE, "readings", table)


def reading_table(rollouts: Sequence[Rollout], kinds: Sequence[str]) -> str:
    """Mean total by kind of trace, a row for each reading."""
    judge, embedder = RuleJudge(), MiniLM()
    pair, alone = (
        reward_rollouts(rollouts, judge, embedder, one).cases for one in (_USUAL, PRINTED)
    )
    rows = [
        (*words, *([""] * len(KINDS) if settings is None else _means(kinds, settings, pair, alone)))
        for *words, settings in _ROWS
    ]
    head = ("setting", "ours", "as printed", *(kind.replace("_", " ") for kind in KINDS))
    return markdown_table(head, rows)


def _means(kinds: Sequence[str], settings: RewardSettings, pair: tuple, alone: tuple) -> list[str]:
    cases = alone if settings.correctness == "literal" else pair
    scored: RewardedBatch = reward_batch(cases, settings)
    totals = zip(kinds, scored.totals, strict=True)
    by_kind: dict[str, list[float]] = {kind: [] for kind in KINDS}
    for kind, total in totals:
        if kind in by_kind and total is not None:
            by_kind[kind].append(total)
    return [f"{fmean(values):.2f}" for values in by_kind.values()]


if __name__ == "__main__":
    main()
