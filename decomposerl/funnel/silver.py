"""Silver sub-questions and their number n* (paper, "Silver Decomposition").

The step adds ``questions`` and ``n_star``. A claim without a decomposition is dropped; its
n* is never guessed.
"""

from collections.abc import Sequence

import polars as pl

from decomposerl.funnel.settings import SilverSettings
from decomposerl.funnel.step import Step, StepDecision, where
from decomposerl.kernels.text_scan import normalise_claim
from decomposerl.ports import Decomposer

NO_ANSWER, TOO_FEW = "no_silver_answer", "too_few_questions"


def silver_step(settings: SilverSettings, decomposer: Decomposer) -> Step:
    """Drop a claim without a silver answer or with n* below ``min_questions``.

    n* is the number of distinct non-empty questions, cut at ``max_questions``.
    """

    def judge(frame: pl.DataFrame) -> StepDecision:
        pairs = frame.select("evidence", "claim").rows()
        answers = decomposer.decompose(pairs) if pairs else []
        cut = [
            None if answer is None else distinct_questions(answer)[: settings.max_questions]
            for answer in answers
        ]
        questions = pl.Series(cut, dtype=pl.List(pl.String()))
        n_star = questions.list.len().cast(pl.Int64())
        unanswered = questions.is_null()
        return StepDecision(
            frame.with_columns(questions=questions, n_star=n_star),
            drop=unanswered | (n_star < settings.min_questions),
            reason=where(unanswered, NO_ANSWER, TOO_FEW),
            value=n_star,
            threshold=settings.min_questions,
            engine=decomposer.engine,
        )

    return Step("silver", judge, (NO_ANSWER, TOO_FEW))


def distinct_questions(questions: Sequence[str]) -> list[str]:
    """Questions that hold a word, trimmed, each wording once, in order of first appearance.

    Two questions are one if they differ only in case, punctuation or spacing.
    """
    first: dict[str, str] = {}
    for question in questions:
        first.setdefault(normalise_claim(question), " ".join(question.split()))
    first.pop("", None)
    return list(first.values())
