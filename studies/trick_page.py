"""Scripted tricks, and those that a run plays: two sections of ``docs/results/studies.md``.

``python -m studies.trick_page --data DATA`` plays every script on claims of the folder's
``silver_decomposed``, with judge and embedder of the profile. ``--section found`` counts the tricks
in the rollouts of a run there, by default of ``tiny_long``; first ``decomposerl train tiny_long``.
Both write their table between the page's markers and the figure beside the page.
"""

import argparse
import os
from collections.abc import Sequence
from pathlib import Path

from dagster_project.engine_resources import resources_for
from dagster_project.environment import read_settings
from decomposerl.reports.figure_style import Drawn
from decomposerl.schemas import LABELS
from decomposerl.training.claim_draws import claims_of_labels, random_claims
from decomposerl.training.experiments import experiment
from perf.pages import write_between_markers
from resources.store.parquet import DataFolder
from studies.trick_found import found_figure, found_markdown, health_markdown
from studies.trick_report import (
    DRAWN,
    READINGS,
    paid_and_noticed_markdown,
    trick_table,
    tricks_figure,
)
from studies.trick_runs import (
    ScriptedTraces,
    found_tricks,
    known_claims,
    scripted_traces,
    sign_table,
)

_PAGE = Path("docs/results/studies.md")


def main(words: Sequence[str] | None = None) -> None:
    """Make and write one section of the page."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, default=Path("data"), help="data folder")
    parser.add_argument("--section", choices=["tricks", "found"], default="tricks")
    parser.add_argument("--claims", type=int, default=100, help="claims on which scripts play")
    parser.add_argument("--seed", type=int, default=42, help="of the draw")
    parser.add_argument("--run", default="tiny_long", help="recipe whose rollouts are searched")
    parser.add_argument("--report", type=Path, default=_PAGE, help="Markdown file with markers")
    options = parser.parse_args(words)
    if options.section == "found":
        text, figure = _found(DataFolder(base_dir=str(options.data)), options.run)
    else:
        text, figure = _paid(scripted(options.data, options.claims, options.seed))
    picture = options.report.with_name(f"study_{options.section}.png")
    picture.write_bytes(figure.png)
    shown = f"![{options.section}]({picture.name})\n\n{text}"
    write_between_markers(options.report, options.section, shown)


def scripted(data: Path, claims: int, seed: int) -> ScriptedTraces:
    """Every script on claims drawn from a data folder, by the profile's judge and embedder."""
    variables = {**os.environ, "DECOMPOSERL_DATA": str(data.resolve())}
    engines = resources_for(read_settings(variables))
    judge, embedder = engines["judge"].open(), engines["question_embedder"].open()
    silver = DataFolder(base_dir=str(data)).read("silver_decomposed")
    two_way = claims_of_labels(silver, LABELS)  # scripts state or deny a claim
    known = known_claims(random_claims(two_way, claims, seed), judge)
    return scripted_traces(known, judge, embedder)


def _paid(traces: ScriptedTraces) -> tuple[str, Drawn]:
    batches = {name: traces.rewards(READINGS[name]) for name in READINGS if name in DRAWN}
    table = trick_table(batches, traces.engine)
    signs = sign_table(traces, READINGS["paper"])
    claims = table["claims"].max()
    text = f"{claims} claims; {traces.engine}.\n\n{paid_and_noticed_markdown(table, signs)}"
    return text, tricks_figure(table)


def _found(data: DataFolder, name: str) -> tuple[str, Drawn]:
    found = found_tricks(data, experiment(name))
    steps, engine = found.filter(split="train")["step"].n_unique(), found["engine"].first()
    tables = f"{found_markdown(found)}\n\nHealth rules: {health_markdown(found)}"
    return f"`{name}`, {steps} steps; judge {engine}.\n\n{tables}", found_figure(found)


if __name__ == "__main__":
    main()
