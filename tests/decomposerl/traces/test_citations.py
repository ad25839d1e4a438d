"""Citations: what counts as a quotation, how it is found, and that offsets never lie."""

import json
import time
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from decomposerl.traces.citations import (
    MOST_EDITS,
    MOST_QUOTATIONS,
    Citation,
    citations,
    edit_distance,
    nearest_window,
    normal_text,
    quotations,
)
from strategies import law

TABLES = json.loads(Path(__file__).with_name("tables.json").read_text("utf-8"))

MANY = law(200)
EVIDENCE = (
    "George Brown re\u00adorganised the Old Guard (Whig) Party in 1857 — and asked, among other"
    " things,\nfor the separation of school and state. He did not found it. Marko Dmitrović keeps"
    " goal for “SD Eibar”, a club in the Basque town of that name."
)
# Letters that change under normalisation: ligatures, wide and composed forms, sharp s, Korean.
LETTERS = "aAbß éE\u0301e\u0301ﬁ½Ａ⑴…\u00ad\u200b\t“'\"—-.(İſ\u1112\u1161\u11abｶﾞ\ud800\0 "
odd = st.text(st.sampled_from(LETTERS), max_size=40)
words = st.lists(st.sampled_from("the Bridge was opened in 1857 not by Ilva Torbeck".split()))
prose = words.map(" ".join) | odd | st.text(st.characters(), max_size=40)
short = st.lists(st.integers(0, 3), max_size=6)


def found(answer: str, evidence: str = EVIDENCE) -> list[tuple[str, str | None]]:
    """Each citation's match, and the evidence that it points to."""
    return [
        (c.match, None if c.found_start is None else evidence[c.found_start : c.found_end])
        for c in citations(answer, evidence)
    ]


def test_what_counts_as_a_quotation():
    """Marks of one kind around letters or digits; apostrophes and inches are none."""
    quoted = {
        'It says "one" and "two".': ["one", "two"],
        "“one”, „two“, «three», ‘four’": ["one", "two", "three", "four"],
        "He says 'it was so'.": ["it was so"],
        "('one')": ["one"],
        "It isn't what Orwell's book or the dogs' bowl is.": [],
        "'It isn't so', he said.": ["It isn't so"],
        "‘it isn’t so’": ["it isn’t so"],
        "the '90s and the dogs' bowl, 'tis the cats' too": [],
        'a 5" pipe and a 6" pipe': [],
        "“he said ‘no’ twice”": ["he said ‘no’ twice"],
        **{text: [] for text in ('" padded "', '"padded "', '"", “...”, "?"', 'an open "mark')},
        "« padded »": ["padded"],
        "“one “two” three”": ["one"],
        f'"{"x" * 2_001}"': [],
        f'"{"x" * 2_000}"': ["x" * 2_000],
    }
    for answer, expected in quoted.items():
        assert expected == [answer[start:end] for start, end in quotations(answer)], answer


@pytest.mark.parametrize(("answer", "expected"), TABLES["how a quotation is found"])
def test_how_a_quotation_is_found(answer: str, expected: list[str | None]):
    """Exact before normal form before nearness; a changed number or a lost "not" is no match."""
    assert [tuple(expected)] == found(answer)


def test_another_name_is_another_statement():
    """However near the rest; a capital at the start, in shouting or an accent changes nothing."""
    evidence = (
        "A bird. The Marsh heron breeds in France, Spain and Italy. In winter it flies to Mali."
        " The club was led by Zoë Renn."
    )
    for kind, texts in TABLES["whether a name is the same"].items():
        for text in texts:
            assert [kind] == [each.match for each in citations(f'"{text}"', evidence)], text


@MANY
@given(st.lists(prose | st.sampled_from([" ", ". "]), max_size=4), prose, st.integers(0, 4))
def test_offsets_point_into_the_originals(around: list[str], quoted: str, marks: int):
    """Exact means equal, normalised means equal normal forms, fuzzy means near."""
    mark = ("“”", '""', "«»", "''", "‘’")[marks]
    evidence = " ".join(around)
    answer = f"It says {mark[0]}{quoted}{mark[1]}, and «{evidence[3:12]}»."
    for each in citations(answer, evidence):
        quotation = answer[each.start : each.end]
        assert quotation == quotation.strip()
        if each.found_start is None or each.found_end is None:
            assert ("missing", None) == (each.match, each.found_end)
            continue
        assert 0 <= each.found_start < each.found_end <= len(evidence)
        window = evidence[each.found_start : each.found_end]
        forms = normal_text(window).text, normal_text(quotation).text
        assert {
            "exact": window == quotation,
            "normalised": forms[0] == forms[1],
            "fuzzy": edit_distance(*forms) <= MOST_EDITS * max(map(len, forms)),
        }[each.match]


@MANY
@given(prose, st.data())
def test_a_quotation_of_whole_words_is_found_exactly(evidence: str, data: st.DataObject):
    """Whatever the evidence, its own words in quotation marks lead back to themselves."""
    pieces = [piece for piece in evidence.split() if piece.isalnum()]
    assume(pieces)
    piece = data.draw(st.sampled_from(pieces))
    (citation,) = citations(f"It says «{piece}».", evidence)
    assert "exact" == citation.match
    assert piece == evidence[citation.found_start : citation.found_end]


@MANY
@given(prose)
def test_the_normal_form_is_final_and_its_stretches_lie_in_order(text: str):
    """Stretches are whole, in order, equal or apart; case, width and space make no difference."""
    normal = normal_text(text)
    assert len(normal.text) == len(normal.starts) == len(normal.ends)
    spans = list(zip(normal.starts, normal.ends, strict=True))
    assert sorted(spans) == spans
    pairs = pairwise(spans)
    assert all(a == b or a[1] <= b[0] for a, b in pairs)
    assert all(0 <= start < end <= len(text) for start, end in spans)
    assert normal.text == normal_text(f" \n“{text}” ").text
    if text.isascii():
        assert normal.text == normal_text(text.upper()).text


@MANY
@given(prose, st.data())
def test_a_stretch_has_the_normal_form_that_it_was_found_by(text: str, data: st.DataObject):
    """The way back: normalising the original's stretch gives the part of the form again."""
    normal = normal_text(text)
    assume(normal.text)
    start = data.draw(st.integers(0, len(normal.text) - 1))
    end = data.draw(st.integers(start + 1, len(normal.text)))
    span = normal.span(start, end)
    edges = normal.text[start:end].strip(" '.,;:!?-()[]…*_")
    if span is not None:
        assert edges == normal_text(text[slice(*span)]).text


def slow_distance(first: list[int], second: list[int]) -> int:
    """The textbook recursion, a row at a time."""
    row = list(range(len(second) + 1))
    for i, a in enumerate(first, 1):
        above, row = row, [i]
        for j, b in enumerate(second, 1):
            row.append(min(above[j] + 1, row[-1] + 1, above[j - 1] + (a != b)))
    return row[-1]


@MANY
@given(short, st.lists(st.integers(0, 3), max_size=9))
def test_the_nearest_window_is_the_nearest_of_all(needle: list[int], text: list[int]):
    """Against every window: none is nearer, none as near ends earlier, or there is shorter."""
    windows = [(i, j) for j in range(len(text) + 1) for i in range(j, -1, -1)]
    far = [slow_distance(needle, text[i:j]) for i, j in windows]
    best = far.index(min(far))
    assert (*windows[best], far[best]) == nearest_window(needle, text)


@MANY
@given(st.text("abc ", max_size=9), st.text("abc ", max_size=9))
def test_edits_are_counted_as_the_textbook_counts_them(first: str, second: str):
    """Levenshtein's distance, both ways."""
    expected = slow_distance(list(map(ord, first)), list(map(ord, second)))
    assert expected == edit_distance(first, second) == edit_distance(second, first)


def test_no_more_than_the_first_quotations_are_looked_up():
    """A hostile answer cannot buy work without end."""
    assert MOST_QUOTATIONS == len(citations('"a" ' * 1_000, "a"))
    assert Citation(1, 2, "exact", 0, 1) == citations('"a" ' * 1_000, "a")[0]


@pytest.mark.parametrize(
    ("answer", "evidence"),
    [
        ('"' * 300_000, "a"),
        ("'" * 300_000, "a"),
        ('" a' * 100_000, "a"),
        ("“" * 100_000 + "”", "a"),
        ('"a" ' * 100_000, "ba" * 100_000),
        (f'"{"a " * 900}b"', "a " * 50_000),
        (f'"{"é " * 140}b"', "e\u0301 " * 20_000),
        (f'"{"a" * 1_900}"', "a" * 300_000),
        ('"a b c"', "a" * 300_000 + " b " + "d" * 300_000),
        (" ".join(f'"{i} {"one other word " * 40}"' for i in range(64)), "one word " * 5_000),
    ],
    ids="marks apostrophes open curly inside long odd letters words many".split(),
)
def test_time_is_bounded(answer: str, evidence: str):
    """Ten thousand words of evidence and any answer take seconds at worst."""
    started = time.process_time()
    citations(answer, evidence)
    assert time.process_time() - started < 20
