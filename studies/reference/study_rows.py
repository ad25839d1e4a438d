"""The table of ``docs/how-to/studies.md``: every trained run of the paper, its command and cost."""

from dagster_project.public_figures import JUDGE_TOKENS_A_SECOND
from decomposerl.reports.study_report import paper_form_rows
from decomposerl.training.studies import STUDIES
from studies.reference.markdown import code, table


def block() -> str:
    """The table as Markdown, each run in the first study that has it."""
    rows: dict[str, tuple[str, ...]] = {}
    for study in STUDIES:
        for section, title, command, calls, hours in paper_form_rows(study, JUDGE_TOKENS_A_SECOND):
            row = (section, code(f"study/{study.name}"), title, code(command), calls, hours)
            rows.setdefault(command, row)
    head = ("Paper", "Study", "Run", "Command", "Judge calls", "Judge GPU-hours")
    return table(head, list(rows.values()))
