"""Tokens of the evidence that give the label away: known leaks, chance, and the proved bound."""

import random
from math import comb

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from decomposerl.reports.giveaways import ALPHA, giveaways, giveaways_text
from decomposerl.schemas import LABELS
from strategies import LAW

WORDS = [f"word{number}" for number in range(2_000)]
# Each corpus's known leak: a text in a share of the Supported and of the Refuted evidence, and
# the tokens that give each label away.
LEAKS = {
    "pubhealth": ((0.02, "Not false."), (0.3, "Our ruling: False."), "", "false our ruling"),
    "claimdecomp": ((0.2, "It is True."), (0.15, "It is Pants on Fire!"), "true", "fire on pants"),
    "climate_fever": ((0.5, "SUPPORTS 0.02"), (0.5, "REFUTES 0.94"), "02 supports", "94 refutes"),
    "no spaces": ((0.4, "这个说法是真的"), (0.4, "这个说法是假的"), "真", "假"),
}


def made(rows: int, seed: int, *texts: tuple[float, str]) -> pl.DataFrame:
    """Claims of random words; by label, a text that stands in a share of the evidence."""
    draw, claims = random.Random(seed), []
    for _ in range(rows):
        side = draw.randrange(2)
        said = [text for share, text in texts[side : side + 1] if draw.random() < share]
        claims.append((LABELS[side], " ".join([*draw.choices(WORDS, k=60), *said])))
    return pl.DataFrame(claims, ["label", "evidence"], orient="row")


@pytest.mark.parametrize("leak", LEAKS)
def test_a_known_leak_is_found_whatever_the_batches(leak: str):
    """Its words with their label and no other; a row that is there twice counts once."""
    *texts, supported, refuted = LEAKS[leak]
    claims = made(600, 1, *texts)
    found = giveaways([claims]).sort("token")
    assert supported.split() == found.filter(label="Supported")["token"].to_list()
    assert refuted.split() == found.filter(label="Refuted")["token"].to_list()
    assert found.equals(giveaways([claims[:200], claims[:300], claims[200:]]).sort("token"))
    assert f"'{refuted.split()[-1]}'" in giveaways_text(found)


def test_without_a_leak_a_corpus_is_hardly_ever_warned_of():
    """Labels that say nothing about the text: at most ``ALPHA``; nothing to compare, no token."""
    warned = sum(giveaways([made(300, seed)]).height > 0 for seed in range(100))
    assert warned <= 100 * ALPHA
    whole = made(300, 1, (1, "yes"))
    for claims in (whole.filter(label="Supported"), whole.clear(), whole.with_columns(label=None)):
        assert "" == giveaways_text(giveaways([claims.cast({"label": pl.String()})]))


@LAW
@given(st.tuples(st.integers(1, 40), st.integers(1, 40)), st.data())
def test_a_warning_holds_by_fishers_exact_test(sizes: tuple[int, int], data: st.DataObject):
    """The bound is never below the exact tail: what stands out does so by exact counts, too."""
    marked = [data.draw(st.integers(0, size)) for size in sizes]
    rows = [
        (label, f"n{row} x{' mark' * (row < some)}")
        for label, size, some in zip(LABELS, sizes, marked, strict=True)
        for row in range(size)
    ]
    found = giveaways([pl.DataFrame(rows, ["label", "evidence"], orient="row")])
    total, tests = sum(sizes), 2 * (max(sizes) + 1 + (sum(marked) > 0))
    found = found.filter(pl.col("token") == "mark")
    for label, units, right in found.select("label", "units", "right").rows():
        size = sizes[LABELS.index(label)]
        counts = range(right, min(units, size) + 1)
        tail = sum(comb(size, k) * comb(total - size, units - k) for k in counts)
        assert tests * tail / comb(total, units) <= ALPHA
