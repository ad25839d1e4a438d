"""Texts by rules: questions, statements, programs, passages, summaries.

Takes the variables of a call, gives its reply. A claim is split by the embedded decomposer's
rules; sentences are ranked by the words that they share with the question.
"""

from collections.abc import Mapping, Sequence

from decomposerl.baselines.program import (
    Both,
    Expression,
    Name,
    Program,
    ProgramStep,
    write_program,
)
from decomposerl.text.clauses import checks_of
from decomposerl.text.sentences import split_sentences
from decomposerl.text.words import STOP_WORDS
from decomposerl.training.evidence_view import evidence_view
from decomposerl.training.experiment import EvidenceView
from resources.decomposer.rule_engine import questions_of
from resources.evaluation.rule_chat.reading import (
    asked_already,
    evidence_in,
    known_statements,
    pairs_in,
    passages_in,
    statement_of,
)
from resources.judge.rule_coverage import verdict
from resources.judge.rule_document import asks_yes_or_no
from resources.judge.rule_words import read, share

NONE = "NONE"
_SUMMARY = EvidenceView(most_sentences=3)
_SELECTED = 3
_FACTS = 9
"""Most facts of a program: with the prediction, the language's limit of ten statements."""


def decompose(variables: Mapping[str, str], *, as_questions: bool) -> str:
    """The claim's parts, numbered, as questions or as statements; ``NONE`` where there is none."""
    claim = variables["claim"]
    parts = questions_of(claim) if as_questions else statements_of(claim)
    return "\n".join(f"{number}. {part}" for number, part in enumerate(parts, 1)) or NONE


def next_question(variables: Mapping[str, str]) -> str:
    """The first question, planned or of the claim, that was not asked; else ``NONE``."""
    planned = variables.get("questions", "").splitlines() or questions_of(variables["claim"])
    return next((one for one in planned if one and not asked_already(one, variables)), NONE)


def sufficient(variables: Mapping[str, str]) -> str:
    """Yes where the known statements decide the claim without the evidence."""
    statement = variables.get("statement", variables.get("claim", ""))
    return "No" if verdict(statement, known_statements(variables)) == "NotEnoughInfo" else "Yes"


def program(variables: Mapping[str, str]) -> str:
    """A program that checks each statement of the claim and predicts that all hold."""
    facts = statements_of(variables["claim"])[:_FACTS]
    steps = tuple(
        ProgramStep(f"fact_{at}", "Verify", fact) for at, fact in enumerate(facts, start=1)
    )
    expression: Expression = Name(steps[0].name)
    for step in steps[1:]:
        expression = Both("and", expression, Name(step.name))
    return write_program(Program(steps, "label", expression))


def select(variables: Mapping[str, str]) -> str:
    """Numbers of the passages that share most with what is asked, in order; else ``NONE``."""
    wanted = read(variables.get("question") or variables.get("statement") or variables["claim"])
    shared = {
        number: share(wanted.content, wanted, read(passage).content) if wanted.content else 0.0
        for number, passage in passages_in(variables["passages"])
    }
    best = sorted((at for at in shared if shared[at] > 0), key=lambda at: (-shared[at], at))
    return ", ".join(map(str, sorted(best[:_SELECTED]))) or NONE


def summarise(variables: Mapping[str, str]) -> str:
    """The few sentences of the evidence that share most with what is asked, in one line."""
    asked = variables.get("question") or variables.get("statement") or variables["claim"]
    return " ".join(evidence_view(asked, evidence_in(variables) or "", _SUMMARY).split())


def state(variables: Mapping[str, str]) -> str:
    """The one pair of ``qa`` as a statement: that of the question, with the answer's sentences.

    An answer other than yes or no is a statement already.
    """
    ((question, answer),) = pairs_in(variables)
    lead, _, reason = answer.partition(",")
    decision = lead.strip(" .").lower()
    if not asks_yes_or_no(question) or decision not in {"yes", "no"}:
        return answer
    fact = statement_of(question) if decision == "yes" else _denied(statement_of(question))
    return f"{fact.removesuffix('.')}: {reason.strip()}" if reason.strip() else fact


def _denied(statement: str) -> str:
    name = statement.partition(" ")[0].lower() not in STOP_WORDS
    denied = statement if name else statement[:1].lower() + statement[1:]
    return f"It is not true that {denied}"


def statements_of(claim: str) -> Sequence[str]:
    """The claim as statements of one fact each; the claim itself where no rule splits it."""
    statements: dict[str, str] = {}
    for sentence in split_sentences(" ".join(claim.split())):
        checks = [one for one in checks_of(sentence.rstrip(" .;:!,")) if not one.endswith("?")]
        for check in checks or [sentence.rstrip(" .")]:
            statements.setdefault(check.casefold(), f"{check[:1].upper()}{check[1:]}.")
    return list(statements.values()) or [" ".join(claim.split())]
