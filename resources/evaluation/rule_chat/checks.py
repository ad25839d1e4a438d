"""Checks by rules: whether a statement holds, what answers a question, a whole transcript.

Takes the variables of a call, gives its reply as a generator that requests the support
probabilities it needs, so that those of many calls are computed in one batch. The verifier checks
a statement against evidence; the rules of the embedded judge check answers against a claim.
"""

import re
from collections.abc import Generator, Mapping, Sequence

from decomposerl.text.numbers import lists_more
from resources.decomposer.rule_engine import questions_of
from resources.evaluation.rule_chat.reading import (
    evidence_in,
    known_statements,
    pairs_in,
    statement_of,
)
from resources.judge.rule_coverage import verdict
from resources.judge.rule_document import answering, asks_yes_or_no, read_document
from resources.judge.rule_words import read, share

Pair = tuple[str, str]
Weighing = Generator[tuple[Pair, ...], tuple[float, ...], str]
"""Yields (evidence, statement) pairs, is sent P(supported) of each, returns the reply."""

UNKNOWN = "unknown"
_LEAD = re.compile(r"\s*(yes|no)\b", re.IGNORECASE)
_HOLDS = 0.5
_NAMED = 0.34
"""Least share of a statement's content words in evidence that can decide it."""
_MOST = 5
"""Most questions of a whole transcript."""


def check(variables: Mapping[str, str], *, may_be_unknown: bool) -> Weighing:
    """``Supported``, ``Refuted``, or ``Unknown`` where the template offers it or a third verdict.

    Earlier answers decide where they support or refute the statement, else the evidence. Where
    neither does, a check with two labels gives Refuted. A predicate is decided by the answer to
    its question, and the last line is the conjunction of all predicates.
    """
    if "predicates" in variables:
        return _conjunction(pairs_in(variables))
    statement = _checked(variables)
    known, evidence = known_statements(variables), evidence_in(variables)
    ruled = verdict(statement, known)
    if ruled == "Supported" and lists_more(statement, "\n".join([*known, evidence or ""])):
        return "Refuted"
    if ruled != "NotEnoughInfo":
        return str(ruled)
    if evidence is None or (may_be_unknown and not _covers(evidence, statement)):
        return "Unknown" if may_be_unknown else "Refuted"
    return (yield from _verified(evidence, statement))


def answer(variables: Mapping[str, str]) -> Weighing:
    """The sentences that answer a question, after yes or no for a yes-no question."""
    evidence = evidence_in(variables)
    reply = None if evidence is None else (yield from _answered(evidence, variables["question"]))
    if reply is not None:
        return reply
    asked = " ".join(known_statements(variables))
    return " ".join(answering(asked, variables["question"])) or UNKNOWN


def written_out(
    variables: Mapping[str, str], *, with_verdict: bool, may_be_unknown: bool = False
) -> Weighing:
    """Questions about the claim with their answers, then the verdict where it is asked for."""
    claim, evidence = variables["claim"], evidence_in(variables) or ""
    lines: list[str] = []
    answers: list[str] = []
    for number, question in enumerate(questions_of(claim)[:_MOST], start=1):
        reply = (yield from _answered(evidence, question)) or UNKNOWN
        answers.append(reply)
        lines.append(f"Q{number}: {question}\nA{number}: {reply}")
    if with_verdict:
        ruled = verdict(claim, [one for one in answers if one != UNKNOWN])
        label = str(ruled)
        if ruled == "NotEnoughInfo":
            is_open = may_be_unknown and not _covers(evidence, claim)
            label = "Unknown" if is_open else (yield from _verified(evidence, claim))
        lines.append(f"Verdict: {label}")
    return "\n".join(lines)


def _checked(variables: Mapping[str, str]) -> str:
    """What is to be checked: a statement, a question's statement, or the claim."""
    if "statement" in variables:
        return variables["statement"]
    if "question" in variables:
        return statement_of(variables["question"])
    return variables["claim"]


def _conjunction(pairs: Sequence[tuple[str, str]]) -> str:
    truths = [_truth(question, answer) for question, answer in pairs]
    lines = [f"{number}: {truth}" for number, truth in enumerate(truths, start=1)]
    return "\n".join([*lines, "[Supported]" if {"True"} == set(truths) else "[Refuted]"])


def _truth(question: str, answer: str) -> str:
    """The truth value of a predicate, by the answer to its question."""
    if answer.strip().lower().rstrip(".") == UNKNOWN:
        return "Unknown"
    lead = _LEAD.match(answer)
    if lead is not None:
        return "True" if lead[1].lower() == "yes" else "False"
    ruled = verdict(statement_of(question), [answer])
    return {"Supported": "True", "Refuted": "False", "NotEnoughInfo": "Unknown"}[ruled]


def _verified(evidence: str, statement: str) -> Weighing:
    (probability,) = yield ((evidence, statement),)
    # The verifier weighs the share of the numbers that it finds: half of them may be enough for it.
    held = probability > _HOLDS and not lists_more(statement, evidence)
    return "Supported" if held else "Refuted"


def _answered(
    evidence: str, question: str
) -> Generator[tuple[Pair, ...], tuple[float, ...], str | None]:
    """The evidence's answer on one line; None where it has none."""
    sentences = answering(evidence, question)
    if not sentences:
        return None
    text = " ".join(" ".join(sentences).split())
    if not asks_yes_or_no(question):
        return text
    held = yield from _verified(evidence, statement_of(question))
    return f"{'Yes' if held == 'Supported' else 'No'}, {text}"


def _covers(evidence: str, statement: str) -> bool:
    wanted = read(statement)
    return share(wanted.content, wanted, read_document(evidence).everything) >= _NAMED
