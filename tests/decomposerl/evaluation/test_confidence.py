"""Confidence is read where the verdict stands, from what the endpoint listed there."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from decomposerl.chat import Token
from decomposerl.evaluation.confidence import Confidence, read_confidence


def listed(text: str, **chances: float) -> Token:
    """A token that stands first among its alternatives."""
    every = {text: chances.pop("own", 0.9)} | {k.replace("_", " "): v for k, v in chances.items()}
    logs = tuple((word, math.log(p)) for word, p in every.items())
    return Token(text, logs[0][1], logs)


def plain(*texts: str) -> list[Token]:
    return [Token(text, -0.5, ((text, -0.5), ("Refuted", -1.0))) for text in texts]


def test_a_trace_is_read_after_its_last_tag():
    """Alternatives are grouped by the word they begin; others count for neither."""
    step = listed("S", own=0.6, Supported=0.1, _Ref=0.2, Not=0.05)
    tokens = [*plain("<verification>", "Refuted", "</", "verification>", "\n<verif")]
    tokens += [*plain("ication>", "\n"), step, *plain("upported", "</verification>")]
    read = read_confidence(tokens)
    assert read is not None
    assert (read.verdict, read.lower_bound) == ("Supported", False)
    assert read.raw == pytest.approx(0.7)
    assert read.normalised == pytest.approx(0.7 / 0.9)
    assert read.support == pytest.approx(0.7 / 0.9)


def test_a_tag_that_shares_its_token_with_the_verdict():
    """The end of the tag stands before the word in every alternative that counts."""
    step = Token(
        ">\nRef",
        math.log(0.5),
        ((">\nRef", math.log(0.5)), (">Sup", math.log(0.25)), ("Sup", math.log(0.2))),
    )
    read = read_confidence([*plain("<verification"), step, *plain("uted</verification>")])
    assert read is not None
    assert (read.verdict, read.lower_bound) == ("Refuted", False)
    assert read.normalised == pytest.approx(0.5 / 0.75)
    assert read.support == pytest.approx(0.25 / 0.75)


def test_a_plain_verdict_is_found():
    """A named verdict counts wherever it stands, a bare one on the last line with letters."""
    for tokens, verdict in (
        (["Because.\n", "Verdict", ":", " Supported"], "Supported"),
        (["**Verdict:** ", "Refuted", "**.\n", "That is all"], "Refuted"),
        (["no doubt\n", "Final verdict: ", "supported", "\n```\n"], "Supported"),
        (["Refuted"], "Refuted"),
        (["It says so.\n", "**", "Yes", "**\n\n"], "Supported"),
        (["thought\n", "No", "."], "Refuted"),
        ([" ", "FALSE", "\n"], "Refuted"),
        (["<verdict>", "Supported", "</verdict>", "<|im_end|>"], "Supported"),
        (["Conclusion: the claim is ", "refuted", "."], "Refuted"),
        (["Final answer: ", "\\boxed{", "True", "}\nDone"], "Supported"),
        (["So the final answer is:", " Supported"], "Supported"),
        (["Follow up: Who?\n", "So the final answer is: ", "**Refuted**", "."], "Refuted"),
        (["No. So the final answer is ", "refuted", "\nThat is all"], "Refuted"),
    ):
        read = read_confidence(plain(*tokens))
        assert read is not None, tokens
        assert verdict == read.verdict, tokens


def test_no_verdict_gives_no_confidence():
    """What does not spell a label has no confidence, whatever its tokens' probabilities."""
    for text in (
        *("", "\n\n", "Not supported", "Verdict: not supported", "Unknown", "<verification>"),
        "Supported\nVerdict: unclear",
        "Final answer: none\nSupported",
        "So the final answer is: unclear\nSupported",
        "I doubt that the final answer is: Supported",
        "Verdict: Supported or Refuted",
        "Supported, since the text says so.",
        "Supported\nbut unsure",
        "<verification>Unknown</verification>",
        "<verification>Supporters</verification>",
        "<verification>Supp",
        "Supported <verification>yes</verification>",
    ):
        assert read_confidence(plain(*text)) is None, text
        assert read_confidence(plain(text)) is None, text


def test_without_alternatives_it_is_unavailable():
    """An endpoint that lists nothing at the verdict gives None, not 1.0."""
    assert read_confidence([Token("Supported", -0.01)]) is None
    assert read_confidence([]) is None


def test_an_unlisted_rival_gets_the_most_it_can_have():
    """The bound is the least listed probability, or what the list leaves where that is less."""
    wide = read_confidence([listed("Supported", own=0.5, the=0.2, a=0.1)])
    assert wide == Confidence(0.5, pytest.approx(0.5 / 0.6), lower_bound=True, verdict="Supported")
    alone = read_confidence([listed("Supported", own=0.98)])
    assert alone is not None
    assert alone.normalised == pytest.approx(0.98)
    sure = read_confidence([listed("Supported", own=1.0)])
    assert sure is not None
    assert sure.lower_bound
    assert 0.999 < sure.normalised < 1.0


@given(
    st.floats(0.01, 0.6),
    st.floats(0.01, 0.3),
    st.integers(1, 8),
    st.sampled_from(["Supported", "Refuted"]),
)
def test_normalised_is_the_share_of_the_two(own: float, other: float, cut: int, word: str):
    """However the word is cut into tokens: raw <= normalised = own / (own + other) <= 1."""
    rival = "Refuted" if word == "Supported" else "Supported"
    first = listed(word[:cut] or word, own=own)
    step = Token(first.text, first.logprob, (*first.alternatives, (rival[:3], math.log(other))))
    rest = plain(word[cut:]) if word[cut:] else []
    read = read_confidence([*plain("<verification>"), step, *rest, *plain("</verification>")])
    assert read is not None
    assert read.verdict == word
    assert read.raw == pytest.approx(own)
    assert read.normalised == pytest.approx(own / (own + other))
    assert read.support == pytest.approx((own if word == "Supported" else other) / (own + other))
