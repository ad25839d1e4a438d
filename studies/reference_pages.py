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
    layouts,
    paper_page,
    python_page,
    study_rows,
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
    "paper.md": paper_page.page,
}
"""What writes each page."""
READINGS = FOLDER.parent / "explanation/paper-readings.md"
ROWS = "corpora rows"
"""The page and the name of its table that ``corpus_rows.block`` gives."""
STUDIES, STUDY_ROWS = FOLDER.parent / "how-to/studies.md", "study rows"
"""The same of ``study_rows.block``."""
GPUS = FOLDER.parent / "how-to/gpus.md"
"""The page of ``layouts.layout_table``."""


def main() -> None:
    """Write the pages."""
    written = {name: page() for name, page in PAGES.items()}
    variables.write_example()
    for name, text in written.items():
        (FOLDER / name).write_text(text, "utf-8")
    write_between_markers(READINGS, ROWS, corpus_rows.block())
    write_between_markers(STUDIES, STUDY_ROWS, study_rows.block())
    for layout in layouts.LAYOUTS:
        name = f"layout {layout.name.replace('×', 'x')}"
        write_between_markers(GPUS, name, layouts.layout_table(layout))


if __name__ == "__main__":
    main()
