"""The trained studies of ``docs/results/studies.md``, from the tables of data folders.

``python -m studies.training_page --data DATA`` writes, between the page's markers, a part for each
study of trained policies, for the heads of the tiny judge and for its rewards: figure, engine,
seeds, steps and what shows; all numbers are in the table beside the page. Of several folders the
first with a table counts. Table and figure are kept beside the page, so that studies may be run on
different machines; a study that no folder has is shown as kept, or said not to be run.
"""

import argparse
import shutil
from collections.abc import Sequence
from pathlib import Path

import polars as pl

from decomposerl.reports.judge_figure import agreement_markdown
from decomposerl.reports.study_report import study_sentence
from decomposerl.reports.study_tables import (
    HEADS_TABLE,
    PAPER_SECTIONS,
    STUDY_TABLES,
    study_engine,
)
from decomposerl.reports.tables import markdown_text
from decomposerl.training.studies import STUDIES, Study
from perf.pages import write_between_markers
from resources.report import studies
from resources.store.parquet import table_of

_PAGE = Path("docs/results/studies.md")
_JUDGE = "judge_rewards"


def main(words: Sequence[str] | None = None) -> None:
    """Write the parts of all studies."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, nargs="+", default=[Path("data")], help="data folders")
    parser.add_argument("--report", type=Path, default=_PAGE, help="Markdown file with markers")
    options = parser.parse_args(words)
    parts = [_part(options.data, options.report, one.name, one.title) for one in STUDIES]
    parts.append(_heads(options.data, options.report))
    parts.append(_part(options.data, options.report, _JUDGE, "Rewards by the tiny judge"))
    write_between_markers(options.report, "trained studies", "\n\n".join(parts))


def _part(folders: Sequence[Path], page: Path, name: str, title: str) -> str:
    section = f" ({PAPER_SECTIONS[name]})" if name in PAPER_SECTIONS else ""
    head = f"### {title}{section}"
    figure, kept = (page.with_name(f"study_{name}.{kind}") for kind in ("png", "parquet"))
    data = _keep(folders, f"study/{name}", kept)
    if data is not None:
        shutil.copyfile(data / studies.STUDIES / f"{name}.png", figure)
    elif not kept.is_file():
        return f"{head}\n\n`study/{name}` was not run."
    table = table_of(f"study/{name}").conform(pl.read_parquet(kept))
    study = next((one for one in STUDIES if one.name == name), None)
    links = f"![{title}]({figure.name})\n\n[All numbers as Parquet]({kept.name})."
    return f"{head}\n\n{links} {_shown(name, study, table)}"


def _heads(folders: Sequence[Path], page: Path) -> str:
    """How each head of the tiny judge agrees with its teacher; the figure is the next part's."""
    head, kept = "### Heads of the tiny judge (G.6)", page.with_name("study_heads.parquet")
    if _keep(folders, HEADS_TABLE, kept) is None and not kept.is_file():
        return f"{head}\n\n`{HEADS_TABLE}` was not run."
    table = table_of(HEADS_TABLE).conform(pl.read_parquet(kept))
    engine, cut = markdown_text(study_engine(table)), table.unique("head")["shortened"].sum()
    said = f"[All numbers as Parquet]({kept.name}). Engine: {engine}. 95 % intervals over documents"
    return f"{head}\n\n{said}; {cut:,} texts were shortened.\n\n{agreement_markdown(table)}"


def _keep(folders: Sequence[Path], table: str, kept: Path) -> Path | None:
    """Copy the first folder's table beside the page; that folder, if any has it."""
    place = f"{table}.parquet"
    data = next((one for one in folders if (one / place).is_file()), None)
    if data is not None:
        shutil.copyfile(data / place, kept)
    return data


def _shown(name: str, study: Study | None, table: pl.DataFrame) -> str:
    if study is None:
        engine = markdown_text(study_engine(table))
        return f"Engine: {engine}. 95 % intervals over claims.\n\n{STUDY_TABLES[name](table)}"
    return markdown_text(study_sentence(study, table))


if __name__ == "__main__":
    main()
