"""What the judge of ``paper_7b`` costs by reasons and prefix cache, for docs/how-to/costs.md.

``python -m studies.judge_cost`` writes the page's table. Calls and tokens are those of the estimate
of a run; a reply's length by ``judge.reasons``, and the share of repeated documents that a server's
cache holds, are assumptions, which the table names.
"""

from pathlib import Path

from dagster_project.public_figures import JUDGE_TOKENS_A_SECOND
from decomposerl.prompts.judge import Reasons
from decomposerl.reports.tables import markdown_table
from decomposerl.training.estimate import (
    PAPER_CLAIMS,
    SECONDS_AN_HOUR,
    JudgeTokens,
    estimate_run,
)
from decomposerl.training.experiments import PAPER_7B
from perf.pages import write_between_markers

REPLY: dict[Reasons, float] = {"full": JudgeTokens().reply, "one_sentence": 45.0, "none": 12.0}
"""Tokens of a reply: assumed."""
CACHED = (0.0, 1.0)
"""Shares of the repeated documents that the server's prefix cache holds: assumed."""
_PAGE, _MILLION = Path("docs/how-to/costs.md"), 1e6


def main() -> None:
    """Write the table."""
    write_between_markers(_PAGE, "judge", cost_table())


def cost_table() -> str:
    """Tokens that are computed, and GPU-hours; a row for each form, a column for each share."""
    rows = []
    for reasons, reply in REPLY.items():
        run = estimate_run(PAPER_7B, PAPER_CLAIMS, JudgeTokens(reply=reply))
        whole = run.judge_prompt_tokens + run.judge_completion_tokens
        cells = []
        for share in CACHED:
            tokens = whole - share * repeated_tokens()
            hours = tokens / JUDGE_TOKENS_A_SECOND["profile"] / SECONDS_AN_HOUR
            cells.append(f"{tokens / _MILLION:,.1f} M, {hours:.1f} h")
        rows.append((reasons, *cells))
    return markdown_table(("reasons", *(f"{share:.0%} cached" for share in CACHED)), rows)


def repeated_tokens() -> float:
    """Tokens of documents beyond the first call about each, group by group."""
    run, facts = estimate_run(PAPER_7B, PAPER_CLAIMS), PAPER_CLAIMS
    about = 2 * run.questions  # answerability and correctness
    held_out = run.held_out / (PAPER_7B.held_out.samples + 1)
    return (about - run.prompts - held_out) * facts.evidence_tokens


if __name__ == "__main__":
    main()
