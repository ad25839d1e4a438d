"""What pays: tricks against honest traces on real claims, by the rule judge and by a reader.

``python -m studies.tricks --corpora /path/to/corpora [--report PAGE]`` prints one row a
trace: its reward under the paper's readings and under ``STRICT``, and writes the table between
the markers of the report file. Claims are named by corpus and id; their texts stay in the corpora.
"""

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import cast

import polars as pl

from decomposerl.claims.catalogue import SOURCES, benchmark_of
from decomposerl.claims.load import LoadSettings, load_source
from decomposerl.judge.call import Judge
from decomposerl.ports import Embedder
from decomposerl.rewards.settings import STRICT, RewardSettings
from decomposerl.traces.trace import Verdict
from perf.pages import write_between_markers
from resources.corpora.folder import FolderCorpora
from resources.embedder.minilm import MiniLM
from resources.judge.rule_judge import RuleJudge
from studies.trick_traces import BORNE, DENIED, SILENT, TRICKS
from studies.trick_types import Statement, Trick, totals

_N_STAR = {SILENT: 4, DENIED: 2, BORNE: 2}
_READINGS = {"paper": RewardSettings(), "strict": STRICT}


def main() -> None:
    """Score, print and write."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--corpora", type=Path, required=True, help="folder of real corpora")
    parser.add_argument("--report", type=Path, help="Markdown file with the two markers")
    options = parser.parse_args()
    statements = [statement(options.corpora, name) for name in _N_STAR]
    table = trick_table(TRICKS, statements, RuleJudge(), MiniLM())
    print(table)
    if options.report:
        write_between_markers(options.report, "tricks", table)


def statement(root: Path, name: str) -> Statement:
    """The claim with this corpus and native id.

    Raises:
        polars.exceptions.NoRowsReturnedError: the corpus has no such claim.
    """
    corpus, native_id = name.split()
    source = next(one for one in SOURCES if one.name == corpus)
    frame = load_source(source, benchmark_of(source), FolderCorpora(root), LoadSettings()).claims
    row = frame.row(by_predicate=pl.col("native_id") == native_id, named=True)
    label = cast("Verdict", row["label"])
    return Statement(name, row["claim"], row["evidence"], label, _N_STAR[name])


def trick_table(
    tricks: Sequence[Trick], statements: Sequence[Statement], judge: Judge, embedder: Embedder
) -> str:
    """One row a trace, below its claim's; bold: it pays more than that claim's honest trace."""
    judges = {"rule judge": judge, "reader": None}
    heads = [f"{who}, {reading}" for who in judges for reading in _READINGS]
    columns = [
        totals(tricks, statements, who, embedder, settings)
        for who in judges.values()
        for settings in _READINGS.values()
    ]
    lines = [f"| claim | trace | {' | '.join(heads)} |", "| --- | --- |" + " ---: |" * len(heads)]
    for row, trick in enumerate(tricks):
        honest = [one.about == trick.about and one.honest for one in tricks].index(True)
        cells = [
            f"**{column[row]:.2f}**" if column[row] > column[honest] else f"{column[row]:.2f}"
            for column in columns
        ]
        about = trick.about if trick.honest else ""
        lines.append(f"| {about} | {trick.name} | {' | '.join(cells)} |")
    return "\n".join(lines)


if __name__ == "__main__":
    main()
