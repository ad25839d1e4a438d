"""Verbatim quotes: does an answer show the sentence that it rests on (beyond the paper)?

    R_quo = (answers that quote their evidence) / (answers that do not abstain)

An answer counts if it holds words of the evidence as they stand there (letter case, white space and
quote marks apart), and the sentences that it quotes hold all of its figures and names. It needs no
judge. Without an answer: 0.
"""

from decomposerl.replies.abstention import abstains
from decomposerl.rewards.reward import QuestionResult, RewardCase, RewardResult, by_case, mean
from decomposerl.rewards.settings import RewardSettings
from decomposerl.text.words import parse
from decomposerl.traces.grounding import grounds, sentence_spans
from decomposerl.traces.trace import Cycle

_ABSTAINED = QuestionResult(None, "abstained")


@by_case
def quotes(case: RewardCase, _settings: RewardSettings) -> RewardResult:
    """The share of answers that quote what they say, 0..1."""
    questions = tuple(_question(cycle, case.rollout.evidence) for cycle in case.cycles)
    values = [question.value for question in questions if question.value is not None]
    return RewardResult(mean(values) if values else 0.0, questions=questions)


def _question(cycle: Cycle, evidence: str) -> QuestionResult:
    if abstains(cycle.answer):
        return _ABSTAINED
    found = grounds(cycle.question, cycle.answer, evidence)
    verbatim = [one.evidence for one in found if one.match != "near"]
    sentences = (
        evidence[start:end]
        for start, end in sentence_spans(evidence)
        if any(first < end and start < last for first, last in verbatim)
    )
    said, quoted = parse(cycle.answer), parse(" ".join(sentences))
    held = verbatim and said.numbers <= quoted.numbers and said.names <= quoted.content
    return QuestionResult(1.0, "quoted") if held else QuestionResult(0.0, "unquoted")
