"""The lexical verifier, and the chunks and batches of every verifier: laws."""

import random
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tokenizers import Tokenizer, models, pre_tokenizers

from decomposerl.errors import EngineError, EngineMissing
from decomposerl.kernels.text_scan import sentences
from decomposerl.text.sentences import split_sentences
from resources.verifier.chunks import (
    ChunkTokens,
    ClaimSplit,
    Measure,
    chunks,
    combined,
    questions,
    utf8_bytes,
    words,
)
from resources.verifier.evidence_match import FEATURES, match
from resources.verifier.lexical import LexicalVerifier, load_weights
from resources.verifier.local import batches
from strategies import LAW, law

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


def test_plain_claims_are_likely_and_contradicted_ones_are_not():
    """One sentence says it, or says it with another number, name, polarity or opposite word."""
    assert {} == {claim: _p(claim) for claim in SUPPORTED if _p(claim) <= 0.8}
    assert {} == {claim: _p(claim) for claim in REFUTED if _p(claim) >= 0.2}


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
    """A wrong number, name, polarity or opposite never helps; nor evidence that doubts it."""
    assert _p(better) > _p(worse)
    doubted = EVIDENCE.replace("in Bergen.", "in Bergen. That statement is false.")
    assert _p("Keller was born in Oslo in 1963.", doubted) < _p("Keller was born in Oslo in 1963.")


@law(60)
@given(evidence=st.text(max_size=80), claim=st.text(max_size=40))
def test_any_pair_gets_a_probability(evidence: str, claim: str):
    """Any text gives a finite probability, and features within a fixed range."""
    assert 0.0 <= _p(claim, evidence) <= 1.0
    assert np.all(np.abs(match(evidence, claim)) <= 1.0)


@law(20)
@given(order=st.permutations(range(len(SUPPORTED + REFUTED))))
def test_the_batch_does_not_matter(order: list[int]):
    """A pair's probability depends on the pair alone, bit for bit in the same batch."""
    claims = SUPPORTED + REFUTED
    together = VERIFIER.support_probability([(EVIDENCE, claims[i]) for i in order])
    assert np.allclose([_p(claims[i]) for i in order], together, atol=1e-6)
    again = LexicalVerifier().support_probability([(EVIDENCE, claims[i]) for i in order])
    assert np.array_equal(again, together)
    assert 0 == len(VERIFIER.support_probability([]))


def test_other_weights_are_refused(tmp_path: Path):
    """Without fingerprint, or of other features; coverage never speaks against a claim."""
    path = tmp_path / "weights.json"
    load_weights().save(path)
    assert load_weights() == load_weights(path)
    path.write_text(path.read_text("utf-8").replace('"rules": 2', '"rules": 3'), "utf-8")
    with pytest.raises(EngineError, match="fingerprint"):
        load_weights(path)
    replace(load_weights(), features=("one",)).save(path)
    with pytest.raises(EngineError, match="other features"):
        load_weights(path)
    assert f"lexical_verifier:{load_weights().fingerprint}" == VERIFIER.engine
    weights = dict(zip(FEATURES, load_weights().weights, strict=True))
    assert all(weights[name] >= 0 for name in ("overlap", "overlap_all", "near"))
    against = [n for n in FEATURES if n.startswith(("near_", "swapped_", "doubt", "numbers_"))]
    assert all(weights[name] <= 0 for name in against)


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
    """In the part with most of its words; a full stop after an abbreviation ends no sentence."""
    near = FEATURES.index("near")
    claim = " ".join(WORDS[:200])
    for evidence in (f"{claim} " + "filler " * 50_000, "filler " * 50_000 + claim):
        assert match(evidence, claim)[near] == 1.0
    assert ["Mr. A. B went to U.S. Steel."] == split_sentences(" Mr. A. B went to U.S. Steel. ")
    assert ["A.", "B."] == split_sentences("A.\nB.")


sentence = st.lists(st.text("abcdeé", min_size=1, max_size=6), min_size=1, max_size=7).map(
    lambda parts: " ".join(["X", *parts]) + "."
)
documents = st.lists(st.tuples(sentence, st.sampled_from([" ", "\n", "  ", "\n\n"])), max_size=15)
prose = documents.map(lambda parts: "".join(text + gap for text, gap in parts))
measures = st.sampled_from([words, utf8_bytes])
budgets = st.integers(1, 40)


@LAW
@given(st.text(), budgets)
def test_no_text_loses_anything_but_white_space(document: str, budget: int):
    """Whatever the evidence holds, its characters come out in order."""
    assert "".join(document.split()) == "".join("".join(chunks(document, budget, words)).split())


@LAW
@given(prose, budgets, measures)
def test_chunks_hold_all_sentences_in_order(document: str, budget: int, measure: Measure):
    """None is lost, cut or moved; a chunk over the budget is one sentence, others are full."""
    found = chunks(document, budget, measure)
    assert sentences(document) == [one for chunk in found for one in sentences(chunk)]
    sizes = [sum(measure(sentences(chunk))) for chunk in found]
    for chunk, size in zip(found, sizes, strict=True):
        assert size <= budget or len(sentences(chunk)) == 1
        sent = len(chunk.encode()) if measure is utf8_bytes else 0
        assert sent <= budget or len(sentences(chunk)) == 1
    for size, following in zip(sizes, found[1:], strict=False):
        assert size + measure(sentences(following))[0] > budget


def test_lines_stay_lines():
    """Rows of a table keep their breaks; one NaN leaves its own pair without a score."""
    assert ["Ice melts. Rain falls.\nE f"] == chunks(
        "Ice melts.  Rain falls.\n\n  E f \n", 500, words
    )
    assert [] == chunks(" \n ", 500, words)
    with pytest.raises(ValueError, match="at least 1"):
        chunks("Ice melts.", 0, words)
    found = questions([("Ice melts. Rain falls.", "X"), ("Ice melts.", "X")], 2, words, "whole")
    assert 3 == len(found.asked)
    scores = combined(np.array([0.9, np.nan, 0.2]), found.shapes)
    assert np.isnan(scores[0])
    assert 0.2 == scores[1]


@LAW
@given(
    st.lists(st.tuples(prose, prose), max_size=4),
    budgets,
    st.sampled_from(["whole", "min_over_sentences"]),
    st.integers(0, 2**32 - 1),
)
def test_the_best_chunk_counts_for_the_weakest_part(
    pairs: list[tuple[str, str]], budget: int, split: ClaimSplit, seed: int
):
    """Combined scores are the plain double loop's, for any pairs."""
    rng = random.Random(seed)
    found = questions(pairs, budget, words, split)
    table = {asked: rng.random() for asked in found.asked}
    expected = []
    for evidence, claim in pairs:
        parts = [claim] if split == "whole" else sentences(claim)
        parts = parts if len(parts) > 1 else [claim]
        pieces = chunks(evidence, budget, words) or [""]
        expected.append(min(max(table[piece, part] for piece in pieces) for part in parts))
    scores = np.array([table[asked] for asked in found.asked], dtype=np.float64)
    assert expected == combined(scores, found.shapes).tolist()


@LAW
@given(st.lists(st.integers(0, 12), max_size=25), st.integers(1, 60))
def test_batches_hold_each_row_once(lengths: list[int], most: int):
    """Longest first; no batch is above the limit, padding included, but a lone row."""
    made = list(batches(lengths, most))
    rows = [row for batch in made for row in batch]
    assert sorted(rows) == list(range(len(lengths)))
    assert sorted(lengths, reverse=True) == [lengths[row] for row in rows]
    assert all(len(batch) * max(lengths[batch[0]], 1) <= most or 1 == len(batch) for batch in made)


def test_batches_are_little_padding():
    """Of rows of 10 to 500 tokens, padding is below a tenth; in the order given, over a third."""
    rng = random.Random(5)
    lengths = [rng.randint(10, 500) for _ in range(400)]
    padded = sum(len(batch) * lengths[batch[0]] for batch in batches(lengths, 8_192))
    given_size = sum(16 * max(lengths[at : at + 16]) for at in range(0, 400, 16))
    assert padded < 1.1 * sum(lengths)
    assert given_size > 1.33 * sum(lengths)


@pytest.fixture(scope="module")
def bpe(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a byte-level tokenizer without merges: a token a byte."""
    folder = tmp_path_factory.mktemp("bytes-model")
    letters = sorted(pre_tokenizers.ByteLevel.alphabet())
    tokenizer = Tokenizer(models.BPE({one: i for i, one in enumerate(letters)}, []))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.save(str(folder / "tokenizer.json"))
    return folder


@LAW
@given(texts=st.lists(sentence | st.text(), max_size=5))
def test_chunks_are_measured_by_the_models_tokenizer_where_it_is_here(bpe: Path, texts: list[str]):
    """Its tokens and one a sentence for what joins; bytes where there is none, or by name."""
    own, named = ChunkTokens("", str(bpe)), ChunkTokens(str(bpe), "nobody/nothing", "abc")
    assert utf8_bytes(texts) == own.count(texts).tolist() == named.count(texts).tolist()
    assert f"tokens:{bpe.name}+joint" == own.unit == named.unit

    for counter in (ChunkTokens("", "nobody/nothing"), ChunkTokens("bytes", "x", "abc")):
        assert utf8_bytes(texts) == counter.count(texts).tolist()
        assert "bytes" == counter.unit


def test_a_tokenizer_that_was_named_and_is_not_there_is_an_error():
    """Bytes never stand in for what a person asked for."""
    with pytest.raises(EngineMissing, match=r"hf download nobody/nothing tokenizer\.json"):
        ChunkTokens("nobody/nothing", "org/model").count(["one"])
