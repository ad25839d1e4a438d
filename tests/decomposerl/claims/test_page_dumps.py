"""The lines of the page dumps, and which of them are needed."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from decomposerl.claims.page_dumps import PAGE_SETS, PageSet, row_of, title_key
from decomposerl.claims.passages import with_entities, without_entities
from made_dumps import FEVER_PAGES, FEVEROUS_PAGES, hotpot_line
from resources.corpora.pages import spellings

SETS = {one.name: one for one in PAGE_SETS}
PARTS = ["a", "B", "-LRB-", "(", ")", "[", "_", " ", '"', "&", "&amp;", "lt;", "\u00e9", "e\u0301"]
TITLES = st.lists(st.sampled_from(PARTS), max_size=6).map("".join)


@given(TITLES)
def test_every_spelling_of_a_lookup_has_one_key(title: str):
    """A page that the reader would find under any spelling is kept when only needed ones are."""
    assert {title_key(title)} == {title_key(one) for one in spellings(title)}


@given(st.text())
def test_entities_are_undone(title: str):
    """Whatever the title is, also one that holds an entity."""
    assert title == without_entities(with_entities(title))


def lines_of(pages: PageSet, title: str) -> bytes:
    """A page of this title as the dump has it."""
    if pages.name == "fever":
        return json.dumps({**FEVER_PAGES[1], "id": title}).encode()
    if pages.name == "feverous":
        return json.dumps({**FEVEROUS_PAGES[1], "title": title}, ensure_ascii=False).encode()
    return hotpot_line(title, ["One.", " Two."]).encode()


@pytest.mark.parametrize("pages", PAGE_SETS, ids=lambda pages: pages.name)
@given(title=st.text(min_size=1), others=st.lists(TITLES, max_size=3))
def test_needed_pages_are_the_rows_of_all_pages_by_key(
    pages: PageSet, title: str, others: list[str]
):
    """The quick look at a line's title never decides otherwise than the parsed page."""
    line = lines_of(pages, title)
    whole = row_of(pages, line, None)
    needed = {title_key(one): one for one in others}
    assert row_of(pages, line, needed) == (whole if title_key(title) in needed else None)
    assert whole is not None
    assert whole == row_of(pages, line, {title_key(whole[0]): title})


@pytest.mark.parametrize("pages", PAGE_SETS, ids=lambda pages: pages.name)
def test_the_title_is_found_without_parsing_the_line(pages: PageSet):
    """A line that is broken after its title costs nothing where it is not needed."""
    cut = lines_of(pages, "Blue Lake")[:-20]
    assert row_of(pages, cut, {"Tide": "Tide"}) is None
    with pytest.raises(ValueError, match=r"Expecting|Unterminated|delimiter"):
        row_of(pages, cut, {"Blue Lake": "Blue Lake"})


def test_a_line_of_another_layout_is_refused():
    """With the field that is wrong; HotpotQA's full pages have lists of paragraphs."""
    for name, line, message in (
        ("hover", '{"title": "A"}', "'text'"),
        ("hover", '{"title": "A", "text": [["A paragraph."]]}', "'text'"),
        ("hover", "[]", "list"),
        ("hover", '{"title": 3, "text": []}', "'title'"),
        ("hover", "[" * 100_000, "nested|recursion"),
        ("fever", '{"id": "A", "text": ""}', "'lines'"),
        ("feverous", '{"title": "A", "text": ["B."]}', "'order'"),
    ):
        with pytest.raises(ValueError, match=message):
            row_of(SETS[name], line.encode(), None)


def test_pages_without_a_name_or_content_are_no_rows():
    """FEVER's nameless page and FEVEROUS' bare ones, as upstream leaves them out.

    A lone surrogate, which JSON may escape and SQLite cannot store, is replaced.
    """
    assert row_of(SETS["fever"], json.dumps(FEVER_PAGES[0]).encode(), None) is None
    assert row_of(SETS["feverous"], json.dumps(FEVEROUS_PAGES[0]).encode(), None) is None
    row = row_of(SETS["hover"], b'{"title": "A\\ud800", "text": ["B\\udfff"]}', None)
    assert ("A?", "B?") == row
