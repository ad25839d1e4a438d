"""Checks by rules: whether a statement holds, what answers a question, a whole method written out.

Takes the variables of a call, gives its reply as a generator that asks for the support
probabilities it needs, so that those of many calls can be had at once. The verifier holds a
statement against evidence; answers are held against a claim by the rules of the embedded judge.
"""

import re
from collections.abc import Generator, Mapping, Sequence

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
"""Least share of a statement's content that evidence must hold to say anything about it."""
_MOST = 5
"""Questions of a method that is written out."""


def check(variables: Mapping[str, str], *, may_be_unknown: bool) -> Weighing:
    """``Supported``, ``Refuted``, or ``Unknown`` where the template offers it.

    What was answered decides where it says something; else the evidence does. Where neither
    does, a check of two labels says Refuted: nothing bears the statement out. Predicates are
    each told by the answer to its question, and the last line is their conjunction.
    """
    if "predicates" in variables:
        return _conjunction(pairs_in(variables))
    statement = _checked(variables)
    ruled = verdict(statement, known_statements(variables))
    if ruled != "NotEnoughInfo":
        return str(ruled)
    evidence = evidence_in(variables)
    if evidence is None or (may_be_unknown and not _speaks_of(evidence, statement)):
        return "Unknown" if may_be_unknown else "Refuted"
    return (yield from _held_against(evidence, statement))


def answer(variables: Mapping[str, str]) -> Weighing:
    """The sentences that answer a question, a yes or no before them where it asks for one."""
    evidence = evidence_in(variables)
    found = None if evidence is None else (yield from _answered(evidence, variables["question"]))
    if found is not None:
        return found
    asked = " ".join(known_statements(variables))
    return " ".join(answering(asked, variables["question"])) or UNKNOWN


def written_out(variables: Mapping[str, str], *, with_verdict: bool) -> Weighing:
    """Questions about the claim with their answers, then the verdict where it is asked for."""
    claim, evidence = variables["claim"], evidence_in(variables) or ""
    lines: list[str] = []
    answers: list[str] = []
    for number, question in enumerate(questions_of(claim)[:_MOST], start=1):
        found = (yield from _answered(evidence, question)) or UNKNOWN
        answers.append(found)
        lines.append(f"Q{number}: {question}\nA{number}: {found}")
    if with_verdict:
        ruled = verdict(claim, [one for one in answers if one != UNKNOWN])
        known = ruled != "NotEnoughInfo"
        said = str(ruled) if known else (yield from _held_against(evidence, claim))
        lines.append(f"Verdict: {said}")
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
    """What the answer to a predicate's question says of it."""
    if answer.strip().lower().rstrip(".") == UNKNOWN:
        return "Unknown"
    lead = _LEAD.match(answer)
    if lead is not None:
        return "True" if lead[1].lower() == "yes" else "False"
    ruled = verdict(statement_of(question), [answer])
    return {"Supported": "True", "Refuted": "False", "NotEnoughInfo": "Unknown"}[ruled]


def _held_against(evidence: str, statement: str) -> Weighing:
    (probability,) = yield ((evidence, statement),)
    return "Supported" if probability > _HOLDS else "Refuted"


def _answered(
    evidence: str, question: str
) -> Generator[tuple[Pair, ...], tuple[float, ...], str | None]:
    """What the evidence answers, on one line; None where it does not."""
    sentences = answering(evidence, question)
    if not sentences:
        return None
    text = " ".join(" ".join(sentences).split())
    if not asks_yes_or_no(question):
        return text
    held = yield from _held_against(evidence, statement_of(question))
    return f"{'Yes' if held == 'Supported' else 'No'}, {text}"


def _speaks_of(evidence: str, statement: str) -> bool:
    wanted = read(statement)
    return share(wanted.content, wanted, read_document(evidence).everything) >= _NAMED
