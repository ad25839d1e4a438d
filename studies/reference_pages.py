"""The pages of ``docs/reference`` and one table: ``make reference`` writes them from the code.

``python -m studies.reference_pages`` does the same. A test compares the committed pages.
"""

from collections.abc import Callable, Mapping
from pathlib import Path

from perf.pages import write_between_markers
from studies import prompt_page
from studies.reference import (
    catalogue,
    commands,
    corpora_status,
    corpus_rows,
    files,
    python_page,
    tables,
    variables,
)

FOLDER = Path(__file__).resolve().parent.parent / "docs/reference"
PAGES: Mapping[str, Callable[[], str]] = {
    "commands.md": commands.page,
    "variables.md": variables.page,
    "tables.md": tables.page,
    "files.md": files.page,
    "catalogue.md": catalogue.page,
    "corpora-status.md": corpora_status.page,
    "prompts.md": prompt_page.page,
    "python.md": python_page.page,
}
"""What writes each page."""
READINGS = FOLDER.parent / "explanation/paper-readings.md"
ROWS = "corpora rows"
"""The page and the name of its table that ``corpus_rows.block`` gives."""


def main() -> None:
    """Write the pages."""
    written = {name: page() for name, page in PAGES.items()}
    for name, text in written.items():
        (FOLDER / name).write_text(text, "utf-8")
    write_between_markers(READINGS, ROWS, corpus_rows.block())


if __name__ == "__main__":
    main()
