"""The chat model made of rules: each operation's reply, and whole methods over it."""

from pathlib import Path

import pytest

from decomposerl.baselines.catalogue import METHODS
from decomposerl.baselines.method import (
    ClaimInput,
    Method,
    ModelCall,
    ModelReply,
    Operation,
    Protocol,
)
from decomposerl.baselines.program_parser import parse_program
from decomposerl.baselines.replies import read_list, read_truth
from decomposerl.errors import ConfigError
from decomposerl.text.sentences import split_sentences
from evaluation_parts import shelf
from fakes import ScriptedVerifier
from resources.evaluation.method_prompts import MethodPrompts
from resources.evaluation.rule_chat.chat import RuleChat
from resources.evaluation.runner import ClaimToVerify, run_claims

EVIDENCE = (
    "Marta Oller was born in Vienna in 1921. She directed the film Glass Harbour. "
    "The film won the Orion Prize in 1954."
)
FILE = """<!-- section: questions -->
Write a question for each part of {claim}.
<!-- section: parts -->
Split {claim}.
<!-- section: planned -->
{claim} {qa}
<!-- section: from_list -->
{questions} {qa}
<!-- section: answer -->
{question} {evidence}
<!-- section: check -->
{statement} {evidence}: Supported, Refuted or Unknown?
<!-- section: verdict -->
{claim} {evidence}: Supported or Refuted?
<!-- section: closed -->
{claim} {known}: Supported, Refuted or Unknown?
<!-- section: predicates -->
{claim} {predicates} {qa}
<!-- section: select -->
{question} {passages}
<!-- section: about -->
{claim} {evidence}
<!-- section: single_call -->
{claim} {evidence}
<!-- section: statement -->
{qa}
"""
CLAIM = "Marta Oller directed Glass Harbour and was born in 1921."


@pytest.fixture
def chat(tmp_path: Path) -> RuleChat:
    (tmp_path / "simple.md").write_text(FILE, "utf-8")
    true = (CLAIM, "Marta Oller directed Glass Harbour.", "Marta Oller born in 1921.")
    weights = {**dict.fromkeys(true, 0.9), "Marta Oller was born in Graz.": 0.2}
    return RuleChat(ScriptedVerifier(weights), MethodPrompts(str(tmp_path)))


def said(chat: RuleChat, operation: Operation, template: str, **variables: str) -> str:
    (reply,) = chat.answer("simple", [ModelCall(operation, template, variables)])
    assert not reply.answer.failure
    assert not reply.answer.tokens
    return reply.answer.text


def test_a_claim_is_cut_into_what_the_template_asks_for(chat: RuleChat):
    """Questions where the words ask for questions, statements else; one item a line."""
    questions = read_list(said(chat, "decompose", "questions", claim=CLAIM))
    parts = read_list(said(chat, "decompose", "parts", claim=CLAIM))
    assert questions
    assert parts
    assert {"?"} == {one[-1] for one in questions}
    assert ["Marta Oller directed Glass Harbour.", "Marta Oller was born in 1921."] == list(parts)
    assert "NONE" == said(chat, "decompose", "questions", claim="…")


def test_questions_come_one_by_one_and_end(chat: RuleChat):
    """Each is another one, planned ones first; when all are asked the reply is NONE."""
    first = said(chat, "next_question", "planned", claim=CLAIM, qa="none")
    qa = f"Q1: {first}\nA1: Yes."
    second = said(chat, "next_question", "planned", claim=CLAIM, qa=qa)
    assert first != second
    qa += f"\nQ2: {second}\nA2: unknown"
    assert "NONE" == said(chat, "next_question", "planned", claim=CLAIM, qa=qa)
    planned = "Who?\nWhen?"
    assert "When?" == said(
        chat, "next_question", "from_list", questions=planned, qa="Q1: who?\nA1: x"
    )


@pytest.mark.parametrize(
    ("question", "expected"),
    [
        ("Where was Marta Oller born?", "Marta Oller was born in Vienna in 1921."),
        ("What is the depth of the Baltic?", "unknown"),
    ],
)
def test_an_answer_is_what_the_evidence_says(chat: RuleChat, question: str, expected: str):
    """Sentences of the evidence, or the word unknown; nothing is made up."""
    assert expected == said(chat, "answer", "answer", question=question, evidence=EVIDENCE)


def test_a_yes_or_no_stands_before_its_reason(chat: RuleChat):
    """A question that asks for one gets what the verifier says of its statement."""
    asked = "Is it true that Marta Oller was born in Graz?"
    found = said(chat, "answer", "answer", question=asked, evidence=EVIDENCE)
    assert "No, Marta Oller was born in Vienna in 1921." == found


def test_checks_end_in_the_words_that_the_template_offers(chat: RuleChat):
    """Unknown where it is offered and nothing is said of the matter, never from a verdict."""
    graz = "Marta Oller was born in Graz."
    assert "Refuted" == said(chat, "verify", "check", statement=graz, evidence=EVIDENCE)
    assert "Supported" == said(chat, "verify", "verdict", claim=CLAIM, evidence=EVIDENCE)
    other = {"statement": "Tungsten melts at 3422 degrees.", "evidence": EVIDENCE}
    assert "Unknown" == said(chat, "verify", "check", **other)
    assert "Unknown" == said(chat, "verify", "closed", claim=CLAIM, known="none")
    known = "1. Marta Oller directed Glass Harbour.\n2. Marta Oller was born in 1921."
    assert "Supported" == said(chat, "verify", "closed", claim=CLAIM, known=known)
    denied = known.replace("was born", "was not born")
    assert "Refuted" == said(chat, "verify", "closed", claim=CLAIM, known=denied)


def test_predicates_are_joined(chat: RuleChat):
    """Each has its truth by its answer; one that is not true refutes."""
    qa = "Q1: Is it true that a is b?\nA1: Yes, a is b.\nQ2: Is c d?\nA2: unknown"
    both = said(chat, "verify", "predicates", claim="x", predicates="1. a\n2. b", qa=qa)
    assert ["1: True", "2: Unknown", "[Refuted]"] == both.splitlines()
    one = said(
        chat, "verify", "predicates", claim="x", predicates="1. a", qa=qa.partition("\nQ2")[0]
    )
    assert "true" == read_truth(ModelReply(one))


def test_what_is_known_suffices_where_it_decides(chat: RuleChat):
    """Yes as soon as the answers support or refute the claim by themselves."""
    pairs = "Q1: Who directed it?\nA1: Marta Oller directed Glass Harbour."
    assert "No" == said(chat, "judge_sufficient", "planned", claim=CLAIM, qa=pairs)
    pairs += "\nQ2: When was she born?\nA2: Marta Oller was born in 1921."
    assert "Yes" == said(chat, "judge_sufficient", "planned", claim=CLAIM, qa=pairs)


def test_a_program_parses_and_checks_every_part(chat: RuleChat):
    """It is a program of the language, whatever quotes the claim holds."""
    claim = 'Marta Oller directed "Glass \\ Harbour" and was born in 1921.'
    program = parse_program(said(chat, "program", "parts", claim=claim))
    assert {"Verify"} == {step.function for step in program.steps}
    assert 2 == len(program.steps)


def test_texts_come_from_the_evidence(chat: RuleChat):
    """Passages by number, a summary of sentences, a pair as a statement."""
    passages = "1. Rain fell.\n2. Marta Oller was born in Vienna.\n3. Oller directed it."
    asked = "Where was Marta Oller born?"
    assert "2, 3" == said(chat, "select", "select", question=asked, passages=passages)
    assert "NONE" == said(chat, "select", "select", question="Why?", passages=passages)
    short = said(chat, "summarise", "about", claim="Oller won the Orion Prize", evidence=EVIDENCE)
    assert "The film won the Orion Prize in 1954." in short
    assert "\n" not in short


@pytest.mark.parametrize(
    ("question", "answer", "expected"),
    [
        (
            "Is it true that Oller was born in Graz?",
            "No, Oller was born in Vienna.",
            "It is not true that Oller was born in Graz: Oller was born in Vienna.",
        ),
        (
            "Is it true that she made a film?",
            "Yes, She directed Glass Harbour.",
            "She made a film: She directed Glass Harbour.",
        ),
        ("Is it true that Oller was born in Graz?", "No.", "It is not true that Oller was born in"),
        ("Where was Oller born?", "In Vienna.", "In Vienna."),
    ],
)
def test_a_pair_is_stated_with_all_that_was_answered(
    chat: RuleChat, question: str, answer: str, expected: str
):
    """Whoever has the statement alone knows what whoever has the pair does."""
    found = said(chat, "state", "statement", qa=f"Q1: {question}\nA1: {answer}")
    assert found.startswith(expected)
    assert set(answer.split()[1:]) <= set(found.split())


def test_a_method_is_written_out_with_its_verdict(chat: RuleChat):
    """Pairs in lines and the verdict last; a step of a longer method has no verdict."""
    whole = said(chat, "procedure", "single_call", claim=CLAIM, evidence=EVIDENCE).splitlines()
    assert "Verdict: Supported" == whole[-1]
    assert ["Q1", "A1", "Q2", "A2"] == [line[:2] for line in whole[:-1]]
    step = said(chat, "procedure", "about", claim=CLAIM, evidence=EVIDENCE)
    assert "Verdict" not in step


def test_a_batch_is_weighed_at_once(chat: RuleChat):
    """Replies do not depend on what else is asked, and the verifier is asked in few batches."""
    calls = [
        ModelCall("verify", "check", {"statement": CLAIM, "evidence": EVIDENCE}),
        ModelCall(
            "answer", "answer", {"question": "Was Oller born in Vienna?", "evidence": EVIDENCE}
        ),
        ModelCall("procedure", "single_call", {"claim": CLAIM, "evidence": EVIDENCE}),
        ModelCall("decompose", "parts", {"claim": CLAIM}),
    ] * 5
    together = [reply.answer.text for reply in chat.answer("simple", calls)]
    alone = [chat.answer("simple", [call])[0].answer.text for call in calls]
    assert alone == together
    verifier = ScriptedVerifier()
    RuleChat(verifier, chat._prompts).answer("simple", calls)
    assert len(verifier.asked) <= 3


def test_rules_refuse_what_a_model_could_not_be_asked(chat: RuleChat):
    """A template without a place for a variable is an error here too."""
    with pytest.raises(ConfigError, match="statement"):
        chat.answer("simple", [ModelCall("decompose", "parts", {"claim": "x", "statement": "y"})])


@pytest.mark.parametrize(
    ("method", "protocol"),
    [(method, protocol) for method in METHODS for protocol in method.procedures],
    ids=lambda one: one if isinstance(one, str) else one.name,
)
def test_every_method_runs_over_rules(method: Method, protocol: Protocol, tmp_path: Path):
    """Each baseline ends with a verdict on each claim, after as many calls as it says."""
    asked = [
        ClaimToVerify("a", ClaimInput(CLAIM, EVIDENCE, tuple(split_sentences(EVIDENCE)))),
        ClaimToVerify("b", ClaimInput("The moon is made of cheese.", EVIDENCE, (EVIDENCE,))),
        ClaimToVerify(
            "c", ClaimInput("Marta Oller was not born in Vienna.", EVIDENCE, (EVIDENCE,))
        ),
    ]
    chat = RuleChat(ScriptedVerifier())
    found = run_claims(method.procedures[protocol], method.prompt, asked, chat, shelf(tmp_path))
    for one in found:
        assert "parsed" == one.verification.status, one.verification
        if protocol == "faithful":
            assert method.expected_calls(one.verification) == len(one.calls)
