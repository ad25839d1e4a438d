"""Years and numbers that a claim lists: evidence for some of them does not support the claim."""

from pathlib import Path

import pytest

from decomposerl.baselines.catalogue import METHODS
from decomposerl.baselines.method import ClaimInput, Procedure
from decomposerl.text.numbers import lists_more
from evaluation_parts import shelf
from fakes import ScriptedVerifier
from resources.evaluation.rule_chat.chat import RuleChat
from resources.evaluation.runner import ClaimToVerify, run_claims
from resources.verifier.lexical import LexicalVerifier

EVIDENCE = (
    "Ada Brown was a Danish swimmer from Odense. She won the national championship in 1937. Ada "
    "Brown won the Nordic Cup from 1930 to 1934. She retired in 1940."
)
MORE = (
    "Ada Brown won the national championship in 1937 and 1936.",
    "Ada Brown won the national championship in 1936 and 1937.",
    "Ada Brown, a Danish swimmer from Odense, won the national championship in both 1937 and 1936.",
    "The 1936 and 1937 national championships were won by Ada Brown.",
    "Ada Brown won the national championship from 1937 to 1939.",
    "Ada Brown won the national championship in 1937, 1938 and 1939.",
    "Ada Brown won the national championship in 1937 as well as in 1936.",
    "Ada Brown won the national championship in the years 1936 & 1937.",
)
COUNTS_HALVES = "claimdecomp"
"""By its publication it takes a claim for supported of which half the parts are."""
RULES = [
    pytest.param(procedure, method.prompt, id=f"{method.name}-{protocol}")
    for method in METHODS
    for protocol, procedure in method.procedures.items()
    if (method.name, protocol) != (COUNTS_HALVES, "faithful")
]


@pytest.mark.parametrize(("procedure", "prompt"), RULES)
def test_one_year_of_two_supports_no_claim(procedure: Procedure, prompt: str, tmp_path: Path):
    """Whichever method asks the rules, in any wording of the list."""
    asked = [
        ClaimToVerify(claim, ClaimInput(claim, EVIDENCE, tuple(EVIDENCE.split(". "))))
        for claim in MORE
    ]
    found = run_claims(procedure, prompt, asked, RuleChat(LexicalVerifier()), shelf(tmp_path))
    assert [] == [one.claim_id for one in found if one.verification.verdict == "Supported"]


@pytest.mark.parametrize("claim", ["from 1930 to 1934", "in 1931 and 1932", "from 1930-34"])
def test_the_years_of_a_range_are_held(claim: str):
    """A range in the evidence holds what lies between its ends."""
    assert not lists_more(f"Ada Brown won the Nordic Cup {claim}.", EVIDENCE)


@pytest.mark.parametrize(
    ("statement", "text", "more"),
    [
        ("in 1937 and 1936", "in 1937", True),
        ("in 1937 and 1936", "in 1936 and later in 1937", False),
        ("in 1937 and 1936", "in 1938", False),  # nothing of the list: the verifier decides
        ("in 1937 or 1936", "in 1937", False),
        ("in 1937. Then 1936", "in 1937", False),
        ("on May 5, 1936", "in May 1936", False),  # day and year are no list
        ("in 1936-37", "in 1936", True),
        ("in 1936–37", "in 1936 and 1937", False),
        ("1935 and 1936", "in 1935/36", False),
        ("two and three goals", "3 goals", True),
        ("12 goals in 1936 and 14 in 1937", "12 goals in 1936, 14 later", True),
        ("12 goals in 1936 and 14 in 1937", "14 in 1937, and 12 in 1936", False),
        ("1,200 and 1,300 men", "1300 men and 1200 women", False),
        ("between 10 and 12 percent", "10 percent", True),
        ("in 1937", "in 1936", False),
        ("in 1937 and not in 1936", "in 1937", False),
        ("", "", False),
    ],
)
def test_what_counts_as_a_list(statement: str, text: str, *, more: bool):
    """Years with years and numbers with numbers, joined by a comma, a conjunction or a range."""
    assert more == lists_more(statement, text)


def test_a_denial_lists_nothing(tmp_path: Path):
    """A claim that denies the other year is left to the verifier."""
    claim = "Ada Brown won the national championship in 1937 and not in 1936."
    simple = next(method for method in METHODS if method.name == "simple")
    asked = [ClaimToVerify("a", ClaimInput(claim, EVIDENCE))]
    (plain,) = run_claims(
        simple.procedures["faithful"],
        "simple",
        asked,
        RuleChat(ScriptedVerifier({claim: 0.9})),
        shelf(tmp_path),
    )
    assert "Supported" == plain.verification.verdict
