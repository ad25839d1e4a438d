"""Chunks, batches and the way scores of chunks make one score: laws."""

import random
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tokenizers import Tokenizer, models, pre_tokenizers

from decomposerl.errors import EngineMissing
from decomposerl.kernels.text_scan import sentences
from resources.verifier.batches import batches
from resources.verifier.chunks import ChunkTokens, Measure, chunks, utf8_bytes, words
from resources.verifier.questions import ClaimSplit, combined, questions
from strategies import LAW

sentence = st.lists(st.text("abcdeé", min_size=1, max_size=6), min_size=1, max_size=7).map(
    lambda parts: " ".join(["X", *parts]) + "."
)
documents = st.lists(st.tuples(sentence, st.sampled_from([" ", "\n", "  ", "\n\n"])), max_size=15)
prose = documents.map(lambda parts: "".join(text + gap for text, gap in parts))
measures = st.sampled_from([words, utf8_bytes])
budgets = st.integers(1, 40)


@LAW
@given(prose, budgets, measures)
def test_chunks_hold_all_sentences_in_order(document: str, budget: int, measure: Measure):
    """No sentence is lost, doubled, cut or moved."""
    found = chunks(document, budget, measure)
    assert sentences(document) == [one for chunk in found for one in sentences(chunk)]


@LAW
@given(st.text(), budgets)
def test_no_text_loses_anything_but_white_space(document: str, budget: int):
    """Whatever the evidence holds, its characters come out in order."""
    assert "".join(document.split()) == "".join("".join(chunks(document, budget, words)).split())


@LAW
@given(prose, budgets, measures)
def test_a_chunk_over_the_budget_is_one_sentence(document: str, budget: int, measure: Measure):
    """And a chunk is closed only where the next sentence would not have fitted."""
    found = chunks(document, budget, measure)
    sizes = [sum(measure(sentences(chunk))) for chunk in found]
    for chunk, size in zip(found, sizes, strict=True):
        assert size <= budget or len(sentences(chunk)) == 1
    for size, following in zip(sizes, found[1:], strict=False):
        assert size + measure(sentences(following))[0] > budget


@LAW
@given(prose, budgets)
def test_a_budget_in_bytes_bounds_the_chunk_itself(document: str, budget: int):
    """What joins sentences is counted too, so the chunk as sent is within the budget."""
    for chunk in chunks(document, budget, utf8_bytes):
        assert len(chunk.encode()) <= budget or len(sentences(chunk)) == 1


def test_lines_stay_lines():
    """Rows of a table keep their line breaks; blank lines go."""
    assert ["Ice melts. Rain falls.\nE f"] == chunks(
        "Ice melts.  Rain falls.\n\n  E f \n", 500, words
    )
    assert [] == chunks(" \n ", 500, words)
    with pytest.raises(ValueError, match="at least 1"):
        chunks("Ice melts.", 0, words)


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
        parts = sentences(claim) if split != "whole" and claim.strip() else [claim]
        pieces = chunks(evidence, budget, words) or [""]
        expected.append(min(max(table[piece, part] for piece in pieces) for part in parts))
    scores = np.array([table[asked] for asked in found.asked], dtype=np.float64)
    assert expected == combined(scores, found.shapes).tolist()


def test_an_unanswered_question_leaves_its_pair_without_a_score():
    """One NaN among a pair's questions is a NaN of that pair alone."""
    found = questions([("Ice melts. Rain falls.", "X"), ("Ice melts.", "X")], 2, words, "whole")
    assert 3 == len(found.asked)
    scores = combined(np.array([0.9, np.nan, 0.2]), found.shapes)
    assert np.isnan(scores[0])
    assert 0.2 == scores[1]


rows = st.lists(st.lists(st.integers(1, 9), max_size=12), max_size=25)


@LAW
@given(rows, st.integers(1, 60))
def test_batches_hold_each_row_once(some: list[list[int]], most: int):
    """Every row comes back whole where it stood, no batch is above the limit but a lone row."""
    seen: dict[int, list[int]] = {}
    for batch in batches(some, most):
        padded, mask = batch.padded(0), batch.mask()
        assert padded.size <= most or 1 == len(batch.rows)
        for row, ids, flags in zip(batch.rows, padded, mask, strict=True):
            assert row not in seen
            seen[row] = ids[flags == 1].tolist()
            assert (ids[flags == 0] == 0).all()
    assert dict(enumerate(some)) == seen


def test_batches_are_little_padding():
    """Of rows of 10 to 500 tokens, padding is below a tenth; in the order given, over a third."""
    rng = random.Random(5)
    some = [[1] * rng.randint(10, 500) for _ in range(400)]
    tokens = sum(map(len, some))
    sorted_size = sum(batch.padded(0).size for batch in batches(some, 8_192))
    given_size = sum(16 * max(map(len, some[at : at + 16])) for at in range(0, 400, 16))
    assert sorted_size < 1.1 * tokens
    assert given_size > 1.33 * tokens


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
@given(texts=st.lists(sentence, max_size=5))
def test_chunks_are_measured_by_the_models_tokenizer_where_it_is_here(bpe: Path, texts: list[str]):
    """Its tokens and one a sentence for what joins; the same whichever way it was named."""
    own, named = ChunkTokens("", str(bpe)), ChunkTokens(str(bpe), "nobody/nothing", "abc")
    assert utf8_bytes(texts) == own.count(texts).tolist() == named.count(texts).tolist()
    assert f"tokens:{bpe.name}+joint" == own.unit == named.unit


@LAW
@given(texts=st.lists(st.text(), max_size=5))
def test_chunks_are_measured_in_bytes_where_there_is_no_tokenizer(texts: list[str]):
    """Which is safe, and said in the unit; asked for by name it holds for any model."""
    for counter in (ChunkTokens("", "nobody/nothing"), ChunkTokens("bytes", "x", "abc")):
        assert utf8_bytes(texts) == counter.count(texts).tolist()
        assert "bytes" == counter.unit


def test_a_tokenizer_that_was_named_and_is_not_there_is_an_error():
    """Bytes never stand in for what a person asked for."""
    with pytest.raises(EngineMissing, match=r"hf download nobody/nothing tokenizer\.json"):
        ChunkTokens("nobody/nothing", "org/model").count(["one"])
