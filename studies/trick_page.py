"""The tables and figures of the trick studies in ``docs/results/studies.md``.

``python -m studies.trick_page --data DATA --section tricks`` writes what ``study/tricks`` and
``study/trick_signs`` left in a data folder between the page's markers, ``--section found`` what
``study/tricks_found`` left, with its figure.
"""

import argparse
import shutil
from collections.abc import Sequence
from pathlib import Path

import polars as pl

from decomposerl.reports.trick_found import found_markdown, health_markdown
from decomposerl.reports.trick_report import DRAWN, paid_and_noticed_markdown
from perf.pages import write_between_markers
from resources.report.studies import STUDIES

_PAGE = Path("docs/results/studies.md")


def main(words: Sequence[str] | None = None) -> None:
    """Write one section of the page."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, default=Path("data"), help="data folder")
    parser.add_argument("--section", choices=["tricks", "found"], default="tricks")
    parser.add_argument("--report", type=Path, default=_PAGE, help="Markdown file with markers")
    options = parser.parse_args(words)
    text, figure = _found(options.data) if options.section == "found" else _paid(options.data)
    picture = options.report.with_name(f"study_{options.section}.png")
    shutil.copyfile(options.data / STUDIES / f"{figure}.png", picture)
    write_between_markers(options.report, options.section, f"![{figure}]({picture.name})\n\n{text}")


def _paid(data: Path) -> tuple[str, str]:
    table = pl.read_parquet(data / "study/tricks.parquet")
    signs = pl.read_parquet(data / "study/trick_signs.parquet")
    chosen = table.filter(pl.col("reading").is_in(DRAWN))
    claims, engine = str(table["claims"].max()), str(table["engine"].first())
    text = paid_and_noticed_markdown(chosen, signs)
    return f"{claims} claims; {engine}.\n\n{text}", "tricks"


def _found(data: Path) -> tuple[str, str]:
    found = pl.read_parquet(data / "study/tricks_found.parquet")
    steps, engine = found.filter(split="train")["step"].n_unique(), str(found["engine"].first())
    name = str(found["experiment"].first())
    text = f"{found_markdown(found)}\n\nHealth rules: {health_markdown(found)}"
    return f"`{name}`, {steps} steps; judge {engine}.\n\n{text}", "tricks_found"


if __name__ == "__main__":
    main()
