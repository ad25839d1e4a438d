"""The small text tools that turn native evidence into passages."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from decomposerl.claims import passages


@given(st.text())
def test_sentences_keep_every_word(text: str):
    """Splitting loses nothing but white space, and gives no blank sentence."""
    found = passages.sentence_passages(text)
    assert text.split() == " ".join(found).split()
    assert all(sentence.strip() for sentence in found)


@given(st.text(), st.text(alphabet="ab |[]_", max_size=30))
def test_link_removal_leaves_plain_text_alone(text: str, marks: str):
    """Text without an opening mark is untouched, and nothing fails on odd marks."""
    plain = text.replace("[[", "")
    assert plain == passages.without_links(plain)
    assert len(passages.without_links(marks)) <= len(marks)


@pytest.mark.parametrize(
    ("marked", "plain"),
    [
        ("a [[B_c|d e]] f", "a d e f"),
        ("[[B_c]]!", "B c!"),
        ("[[Irish|[ˈul]]] x", "[ˈul] x"),
        ("[[a|b]] [[c|d]]", "b d"),
        ("[[unclosed|x", "[[unclosed|x"),
    ],
)
def test_links_become_their_anchor(marked: str, plain: str):
    """The anchor stays, brackets inside it included."""
    assert plain == passages.without_links(marked)
