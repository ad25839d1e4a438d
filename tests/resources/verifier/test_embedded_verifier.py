"""The lexical verifier: confident where words decide, monotone in plain facts."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from decomposerl.errors import EngineError
from decomposerl.text.sentences import split_sentences
from resources.verifier.evidence_match import FEATURES, match
from resources.verifier.lexical import LexicalVerifier, load_weights
from strategies import law

EVIDENCE = (
    "Maria Keller was a Norwegian painter of the early school.\n"
    "Keller was born in Oslo in 1963 and grew up in Bergen. Her brother Alan Reed wrote novels.\n"
    "The Harbour Prize was awarded to Keller in 1988 for a series of 14 landscapes.\n"
    "The study found that the drug increased survival in older patients."
)
SUPPORTED = (
    "Keller was born in Oslo in 1963.",
    "The Harbour Prize was awarded to Keller in 1988.",
    "The drug increased survival in older patients.",
    "Maria Keller was a Norwegian painter.",
)
REFUTED = (
    "Keller was born in Oslo in 1971 and grew up in Bergen.",
    "The Harbour Prize was awarded to Reed in 1988 for a series of 14 landscapes.",
    "The study found that the drug decreased survival in older patients.",
    "Keller was not born in Oslo in 1963.",
    "Maria Keller was not a Norwegian painter of the early school.",
    "The Harbour Prize was awarded to Keller in 1992 for a series of 14 landscapes.",
)


VERIFIER = LexicalVerifier()


def _p(claim: str, evidence: str = EVIDENCE) -> float:
    return float(VERIFIER.support_probability([(evidence, claim)])[0])


@pytest.mark.parametrize("claim", SUPPORTED)
def test_a_plainly_stated_claim_is_likely(claim: str):
    """One sentence says it with the same numbers and names."""
    assert _p(claim) > 0.8


@pytest.mark.parametrize("claim", REFUTED)
def test_a_plainly_contradicted_claim_is_unlikely(claim: str):
    """One sentence says it with another number, name, polarity or an opposite word."""
    assert _p(claim) < 0.2


def test_pairs_written_by_hand_are_ranked():
    """Every supported claim stands above every refuted one (AUC 1)."""
    assert min(map(_p, SUPPORTED)) > max(map(_p, REFUTED))


def test_the_same_pairs_get_the_same_probabilities():
    """A fresh engine, and the same one again, answer alike."""
    pairs = [(EVIDENCE, claim) for claim in (*SUPPORTED, *REFUTED)]
    first, second = (VERIFIER.support_probability(pairs) for _ in range(2))
    assert np.array_equal(first, second)
    assert np.array_equal(first, LexicalVerifier().support_probability(pairs))


@pytest.mark.parametrize(
    ("better", "worse"),
    [
        ("Keller was born in Oslo in 1963.", "Keller was born in Oslo in 1964."),
        ("The prize went to Keller.", "The prize did not go to Keller."),
        ("Keller lived in Bergen.", "Keller lived in Zagreb."),
        ("A drug increased survival.", "A drug decreased survival."),
    ],
)
def test_a_contradicting_fact_lowers_the_probability(better: str, worse: str):
    """A wrong number, name, polarity or opposite, all else as stated, never helps."""
    assert _p(better) > _p(worse)


def test_doubt_beside_a_statement_lowers_the_probability():
    """Evidence that calls the statement false does not support it."""
    doubted = EVIDENCE.replace("in Bergen.", "in Bergen. That statement is false.")
    assert _p("Keller was born in Oslo in 1963.", doubted) < _p("Keller was born in Oslo in 1963.")


def test_weights_have_the_signs_of_their_meaning():
    """Coverage never speaks against a claim, contradiction never for it."""
    weights = dict(zip(FEATURES, load_weights().weights, strict=True))
    assert all(weights[name] >= 0 for name in ("overlap", "overlap_all", "near"))
    against = [n for n in FEATURES if n.startswith(("near_", "swapped_", "doubt", "numbers_"))]
    assert all(weights[name] <= 0 for name in against)


@law(60)
@given(evidence=st.text(max_size=80), claim=st.text(max_size=40))
def test_any_pair_gets_a_probability(evidence: str, claim: str):
    """Any text gives a finite probability, and features within a fixed range."""
    assert 0.0 <= _p(claim, evidence) <= 1.0
    assert np.all(np.abs(match(evidence, claim)) <= 1.0)


@law(20)
@given(order=st.permutations(range(len(SUPPORTED + REFUTED))))
def test_the_batch_does_not_matter(order: list[int]):
    """A pair's probability depends on the pair alone."""
    claims = SUPPORTED + REFUTED
    together = VERIFIER.support_probability([(EVIDENCE, claims[i]) for i in order])
    assert np.allclose([_p(claims[i]) for i in order], together, atol=1e-6)


def test_no_pair_gives_no_probability():
    """An empty question has an empty answer."""
    assert 0 == len(VERIFIER.support_probability([]))


def test_edited_weights_are_refused(tmp_path: Path):
    """A weights file changed by hand no longer carries its own fingerprint."""
    path = tmp_path / "weights.json"
    load_weights().save(path)
    assert load_weights() == load_weights(path)
    path.write_text(path.read_text("utf-8").replace('"rules": 2', '"rules": 3'), "utf-8")
    with pytest.raises(EngineError, match="fingerprint"):
        load_weights(path)


def test_weights_of_other_features_are_refused(tmp_path: Path):
    """Weights fitted for an earlier feature set are not applied to this one."""
    path = tmp_path / "weights.json"
    replace(load_weights(), features=("one",)).save(path)
    with pytest.raises(EngineError, match="other features"):
        load_weights(path)


def test_the_engine_names_its_weights():
    """They decide the answers, so they keep stored results apart."""
    assert f"lexical_verifier:{load_weights().fingerprint}" == VERIFIER.engine


WORDS = [f"k{chr(97 + i % 26)}{chr(97 + i // 26 % 26)}{chr(97 + i // 676)}" for i in range(4_000)]
HUGE = {
    "one word": ("war " * 5_000, "war " * 500_000),
    "two words": ("war cat " * 2_500, "cat war " * 250_000),
    "words with words between": (
        " ".join(WORDS),
        " ".join(f"{word} " + "filler " * 60 for word in WORDS),
    ),
    "apostrophes": ("a'" * 10_000, "a'" * 1_000_000),
    "abbreviations": ("A. " * 6_000, "A. " * 600_000),
}


@pytest.mark.timeout(120)
@pytest.mark.parametrize("pair", HUGE.values(), ids=HUGE)
def test_a_pair_at_the_limits_of_size_is_read(pair: tuple[str, str]):
    """A claim of 20 kB and evidence of 2 MB in one sentence: seconds, where it took hours."""
    claim, evidence = pair
    assert np.isfinite(match(evidence, claim)).all()


def test_a_claim_is_found_in_a_sentence_that_is_too_long_to_align():
    """The part that holds most of the claim's words is the one that is aligned."""
    near = FEATURES.index("near")
    claim = " ".join(WORDS[:200])
    for evidence in (f"{claim} " + "filler " * 50_000, "filler " * 50_000 + claim):
        assert match(evidence, claim)[near] == 1.0


def test_a_sentence_of_abbreviations_is_one():
    """A full stop after an initial or an abbreviation ends no sentence; a line break does."""
    assert ["Mr. A. B went to U.S. Steel."] == split_sentences(" Mr. A. B went to U.S. Steel. ")
    assert ["A.", "B."] == split_sentences("A.\nB.")
