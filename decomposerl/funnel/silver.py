"""Silver sub-questions and their number n* (paper, "Silver Decomposition").

Takes claims with evidence and a ``Decomposer``, gives a step that adds ``questions`` and
``n_star``. A claim without an answer is dropped as such, never given a made-up n*.
"""

from collections.abc import Sequence

import polars as pl

from decomposerl.funnel.settings import SilverSettings
from decomposerl.funnel.step import Step, StepDecision
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
            None if asked is None else distinct_questions(asked)[: settings.max_questions]
            for asked in answers
        ]
        questions = pl.Series(cut, dtype=pl.List(pl.String()))
        n_star = questions.list.len().cast(pl.Int64())
        unanswered = questions.is_null()
        reason = pl.DataFrame({"none": unanswered}).select(
            reason=pl.when("none").then(pl.lit(NO_ANSWER)).otherwise(pl.lit(TOO_FEW))
        )
        return StepDecision(
            frame.with_columns(questions=questions, n_star=n_star),
            drop=unanswered | (n_star < settings.min_questions),
            reason=reason["reason"],
            value=n_star,
            threshold=settings.min_questions,
            engine=decomposer.engine,
        )

    return Step("silver", judge, (NO_ANSWER, TOO_FEW))


def distinct_questions(questions: Sequence[str]) -> list[str]:
    """Questions that hold a word, trimmed, each wording once, in order of first appearance.

    Two questions are one if they differ in case, punctuation or spacing alone.
    """
    first: dict[str, str] = {}
    for question in questions:
        first.setdefault(normalise_claim(question), " ".join(question.split()))
    first.pop("", None)
    return list(first.values())
