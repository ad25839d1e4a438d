"""The hold-out split: components of documents, and the side that each one is on."""

from collections.abc import Sequence

from hypothesis import given
from hypothesis import strategies as st

from decomposerl.claims.claim import Draft
from decomposerl.claims.holdout import components, documents_of, hash_fraction, split_by_document

ROWS = st.lists(
    st.lists(st.sampled_from([f"d{i}" for i in range(12)]), min_size=1, max_size=4), max_size=15
)


def draft(number: int, documents: Sequence[str] = ()) -> Draft:
    return Draft("f", number, f"r{number}", "dev", "c", ("e",), "yes", tuple(documents))


def reachable(start: str, rows: Sequence[Sequence[str]]) -> set[str]:
    """The plain oracle: walk from row to row until nothing new is found."""
    found = {start}
    while True:
        more = {d for row in rows if found & set(row) for d in row} - found
        if not more:
            return found
        found |= more


@given(ROWS)
def test_components_agree_with_a_plain_walk(rows: list[list[str]]):
    """A document's root is the smallest document that can be reached from it."""
    expected = {d: min(reachable(d, rows)) for row in rows for d in row}
    assert expected == components(rows)


@given(ROWS, st.data())
def test_the_split_does_not_depend_on_order(rows: list[list[str]], data: st.DataObject):
    """Shuffled rows are held out exactly as before."""
    drafts = [draft(i, docs) for i, docs in enumerate(rows)]
    mixed = data.draw(st.permutations(drafts))
    one, other = (split_by_document(order, (), 0.5) for order in (drafts, mixed))
    assert [one.is_held_out(d) for d in drafts] == [other.is_held_out(d) for d in drafts]


@given(ROWS, ROWS, st.floats(0, 1))
def test_rows_that_share_a_document_share_a_side(
    shared: list[list[str]], extra: list[list[str]], share: float
):
    """Extra rows join components, so nothing leaks through them either."""
    mine = [draft(i, docs) for i, docs in enumerate(shared)]
    more = [draft(100 + i, docs) for i, docs in enumerate(extra)]
    split = split_by_document(mine, more, share)
    for one in (*mine, *more):
        for other in (*mine, *more):
            if set(one.documents) & set(other.documents):
                assert split.is_held_out(one) == split.is_held_out(other)


def test_without_a_share_all_shared_rows_are_held():
    """A benchmark that takes the shared files whole holds them and what touches them."""
    split = split_by_document([draft(1, ["a"])], [draft(2, ["a", "b"]), draft(3, ["c"])], None)
    assert [True, True, True, False] == [
        split.is_held_out(d)
        for d in (draft(1, ["a"]), draft(2, ["a", "b"]), draft(4, ["b"]), draft(3, ["c"]))
    ]


def test_a_component_of_extra_rows_alone_is_never_held():
    """The benchmark would gain nothing from rows that it does not read."""
    split = split_by_document([], [draft(1, ["a"])], 1.0)
    assert not split.is_held_out(draft(1, ["a"]))


def test_a_row_without_documents_stands_under_its_own_id():
    """Such rows are split one by one and never join others."""
    assert ("row:r7",) == documents_of(draft(7))


def test_places_are_fixed_and_even():
    """The hash of a name never changes between machines and spreads evenly over 0..1."""
    assert 0.05123359420032392 == hash_fraction("a document")
    places = [hash_fraction(f"document {i}") for i in range(4000)]
    assert 0.18 < sum(p < 0.2 for p in places) / 4000 < 0.22
