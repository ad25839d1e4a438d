"""How often the rule judge agrees with gold labels, on real claims and their gold evidence.

``python -m studies.judge_report --corpora /path/to/corpora [--report PAGE]``
prints the agreement and two tables and writes them between the markers of the report file. Each
claim is cut into questions by the rule decomposer; each question is answered by the sentences of
the gold evidence that the rules find; the verdict is the judge's on these answers alone.
"""

import argparse
import random
import re
from collections import Counter
from collections.abc import Iterable
from pathlib import Path

from decomposerl.judge.call import JudgeCall
from perf.pages import write_between_markers
from resources.decomposer.rule_engine import questions_of
from resources.judge.rule_judge import RuleJudge, answering
from studies.verifier_data import EVALUATED, evaluation_claims

_JUDGE = RuleJudge()
_NAME = re.compile(r"(?<=[a-z,] )[A-Z][a-z]+")
_MADE_UP = "Zorvath"
_ONCE = [name for name in EVALUATED if not name.endswith("(middle_is_refuted)")]
Row = tuple[str, str, str, str]
"""Corpus, evidence, claim, gold label."""
Counts = Counter[str]


def main() -> None:
    """Judge, print and write."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--corpora", type=Path, required=True, help="folder of real corpora")
    parser.add_argument("--claims", type=int, default=100, help="claims of each corpus at most")
    parser.add_argument("--report", type=Path, help="Markdown file with the two markers")
    options = parser.parse_args()
    rows = [row for name in _ONCE for row in _sample(options.corpora, name, options.claims)]
    counts: Counts = Counter()
    verdicts: Counts = Counter()
    for number, (name, evidence, claim, label) in enumerate(rows):
        foreign = rows[(number + len(rows) // 2) % len(rows)][1]
        answers = list(_answers(evidence, foreign, claim, counts))
        ruled = _ruled(JudgeCall("coverage", claim=claim, answers=tuple(answers)))
        verdicts.update([f"{name} {ruled == label}", f"{label} {ruled}"])
    text = "\n".join([*_agreement(rows, verdicts), "", *_rates(counts)])
    print(text)
    if options.report:
        write_between_markers(options.report, "judge", text)


def _sample(root: Path, name: str, most: int) -> list[Row]:
    claims = evaluation_claims(root, name)
    chance = random.Random(1)  # noqa: S311 - the same claims every time
    chosen = chance.sample(range(len(claims.pairs)), min(most, len(claims.pairs)))
    labels = ["Supported" if one else "Refuted" for one in claims.supported]
    return [(name, *claims.pairs[index], labels[index]) for index in sorted(chosen)]


def _answers(evidence: str, foreign: str, claim: str, counts: Counts) -> Iterable[str]:
    """The quoted answers to the claim's questions; what is asked on the way is counted."""
    for question in questions_of(claim):
        own = _holds(JudgeCall("answerability", evidence, question=question))
        other = _holds(JudgeCall("answerability", foreign, question=question))
        atomic = _ruled(JudgeCall("atomicity", claim=claim, question=question)) == "11111"
        counts.update({"questions": 1, "own": own, "foreign": other, "atomic": atomic})
        quoted = answering(evidence, question)
        if quoted:
            _count_correct(evidence, question, quoted[0], counts)
            yield " ".join(quoted)


def _count_correct(evidence: str, question: str, sentence: str, counts: Counts) -> None:
    answers = {"quoted": sentence}
    if _NAME.search(sentence):
        answers["made up"] = _NAME.sub(_MADE_UP, sentence, count=1)
    for kind, answer in answers.items():
        correct = _holds(JudgeCall("correctness", evidence, "", question, (answer,)))
        counts.update({f"{kind} asked": 1, kind: correct})


def _holds(call: JudgeCall) -> bool:
    return _ruled(call) == "1"


def _ruled(call: JudgeCall) -> str:
    return _JUDGE.judge([call])[0].text or ""


def _agreement(rows: list[Row], verdicts: Counts) -> list[str]:
    of = {name: sum(row[0] == name for row in rows) for name in _ONCE}
    shares = [f"{name} {verdicts[f'{name} True'] / claims:.2f}" for name, claims in of.items()]
    agreed = sum(verdicts[f"{name} True"] for name in _ONCE)
    whole = f"The verdict agrees with the gold label for **{agreed / len(rows):.2f}**"
    lines = [f"{whole} of {len(rows):,} claims: {', '.join(shares)}.", ""]
    kinds = ("Supported", "Refuted", "NotEnoughInfo")
    lines += [f"| gold label | {' | '.join(kinds)} |", "| --- | ---: | ---: | ---: |"]
    for label in ("Supported", "Refuted"):
        lines.append(f"| {label} | {' | '.join(str(verdicts[f'{label} {k}']) for k in kinds)} |")
    return lines


def _rates(counts: Counts) -> list[str]:
    shown = (
        ("question answerable from the claim's evidence", "own", "questions"),
        ("question answerable from other evidence", "foreign", "questions"),
        ("question atomic", "atomic", "questions"),
        ("quoted sentence correct", "quoted", "quoted asked"),
        ("the same with an invented name", "made up", "made up asked"),
    )
    lines = ["| ruling | cases | share |", "| --- | ---: | ---: |"]
    for what, hits, of in shown:
        lines.append(f"| {what} | {counts[of]} | {counts[hits] / max(counts[of], 1):.2f} |")
    return lines


if __name__ == "__main__":
    main()
