"""Tokens of the evidence that give the label away: known leaks, chance, and the proved bound."""

import random
from math import comb

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from decomposerl.claims.catalogue import SOURCES
from decomposerl.claims.load import LoadSettings, load_source
from decomposerl.claims.source import Source
from decomposerl.reports.giveaways import ALPHA, giveaways, giveaways_text
from project import ROOT
from resources.corpora.folder import FolderCorpora
from strategies import LAW

CORPORA = ROOT.parent / "shared" / "corpora"
WORDS = [f"word{number}" for number in range(2_000)]


def made(rows: int, seed: int, **marks: list[tuple[float, str]]) -> pl.DataFrame:
    """Claims of random words; by label, a text that stands in a share of the evidence."""
    draw = random.Random(seed)
    claims = []
    for _ in range(rows):
        label = draw.choice(["Supported", "Refuted"])
        said = [text for share, text in marks.get(label, []) if draw.random() < share]
        claims.append((label, " ".join([*draw.choices(WORDS, k=60), *said])))
    return pl.DataFrame(claims, ["label", "evidence"], orient="row")


LEAKS = {
    "PubHealth: the article states its verdict": (
        {"Refuted": [(0.3, "Our ruling: False.")], "Supported": [(0.02, "Nothing false here.")]},
        {("false", "Refuted"), ("ruling", "Refuted"), ("our", "Refuted")},
    ),
    "ClaimDecomp: the justification names the rating": (
        {
            "Refuted": [(0.15, "We rate it Pants on Fire!")],
            "Supported": [(0.2, "We rate it True.")],
        },
        {(word, "Refuted") for word in ("pants", "on", "fire")} | {("true", "Supported")},
    ),
    "Climate-FEVER: evidence objects with their label": (
        {"Refuted": [(0.5, "| REFUTES | 0.94")], "Supported": [(0.5, "| SUPPORTS | 0.02")]},
        {("refutes", "Refuted"), ("94", "Refuted")}
        | {("supports", "Supported"), ("02", "Supported")},
    ),
    "a script without spaces": (
        {"Refuted": [(0.4, "这个说法是假的")], "Supported": [(0.4, "这个说法是真的")]},
        {("假", "Refuted"), ("真", "Supported")},
    ),
}


@pytest.mark.parametrize("leak", LEAKS)
def test_a_known_leak_is_found_whatever_the_batches(leak: str):
    """Its words with their label and no other; a row that is there twice counts once."""
    marks, tokens = LEAKS[leak]
    claims = made(600, 1, **marks)
    found = giveaways([claims])
    assert tokens == set(found.select("token", "label").rows())
    assert found.equals(giveaways([claims[:200], claims[:300], claims[200:]]))
    said = giveaways_text(found)
    assert all(f"'{token}'" in said for token, _ in sorted(tokens)[:1])


def test_without_a_leak_a_corpus_is_hardly_ever_warned_of():
    """Labels that say nothing about the text: at most ``ALPHA``; nothing to compare, no token."""
    warned = sum(giveaways([made(300, seed)]).height > 0 for seed in range(100))
    assert warned <= 100 * ALPHA
    whole = made(300, 1, Supported=[(1, "yes")])
    for claims in (whole.filter(label="Supported"), whole.clear(), whole.with_columns(label=None)):
        assert "" == giveaways_text(giveaways([claims.cast({"label": pl.String()})]))


@LAW
@given(st.integers(1, 40), st.integers(1, 40), st.data())
def test_a_warning_holds_by_fishers_exact_test(supported: int, refuted: int, data: st.DataObject):
    """The bound is never below the exact tail: what stands out does so by exact counts, too."""
    yes, no = data.draw(st.integers(0, supported)), data.draw(st.integers(0, refuted))
    sides = {"Supported": (supported, yes), "Refuted": (refuted, no)}
    rows = [
        (label, f"n{row} x{' mark' * (row < marked)}")
        for label, (whole, marked) in sides.items()
        for row in range(whole)
    ]
    claims = pl.DataFrame(rows, ["label", "evidence"], orient="row")
    found = giveaways([claims]).filter(pl.col("token") == "mark")
    total, tests = supported + refuted, 2 * (max(supported, refuted) + 1 + (yes + no > 0))
    for label, units, right in found.select("label", "units", "right").rows():
        of_label = sides[label][0]
        tail = sum(
            comb(of_label, k) * comb(total - of_label, units - k)
            for k in range(right, min(units, of_label) + 1)
        )
        assert tests * tail / comb(total, units) <= ALPHA


@pytest.mark.skipif(not CORPORA.is_dir(), reason="the corpora are not there")
@pytest.mark.parametrize("source", [one for one in SOURCES if one.name in {"hover", "wice"}])
def test_a_public_corpus_without_a_leak_is_not_warned_of(source: Source):
    """Evidence from Wikipedia states no verdict."""
    loaded = load_source(source, None, FolderCorpora(CORPORA), LoadSettings())
    assert "" == giveaways_text(giveaways([loaded.claims]))
