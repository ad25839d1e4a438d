"""The tokenizer is asked only where the bounds leave an answer open, and nothing changes."""

from statistics import NormalDist

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from polars.testing import assert_frame_equal
from tokenizers import ByteLevelBPETokenizer

from decomposerl.errors import EngineError
from decomposerl.funnel import catalogue
from decomposerl.funnel.settings import RuleSettings, TrainingSettings
from decomposerl.funnel.step import StageResult
from decomposerl.schemas import CLAIMS, DIVERSITY_SELECTED, SILVER_DECOMPOSED
from fakes import CapitalisedWords, WordCounter
from resources.tokens.counting import TalliedTokens, byte_level_bpe_bounds
from strategies import FRAME_LAW, LAW, any_text, example_row, frame_of, frames, sentence

RULES = RuleSettings(min_sentences=0, min_tokens=6, max_tokens=12, min_entities=0)
LONG = TrainingSettings(long_evidence_tokens=9)
slack = st.sampled_from([0, 1, 3])


def ruled(frame: pl.DataFrame, counter: WordCounter, rules: RuleSettings = RULES) -> StageResult:
    return catalogue.rule_filter(frame, rules, counter, CapitalisedWords())


def assembled(frame: pl.DataFrame, counter: WordCounter) -> StageResult:
    chosen = frame[::3].with_columns(
        bucket=pl.lit("Supported|hover"),
        selection_rank=pl.lit(0, dtype=pl.Int64()),
        selection_gain=pl.lit(1.0),
    )
    return catalogue.assemble_training(frame, DIVERSITY_SELECTED.conform(chosen), LONG, counter)


@FRAME_LAW
@given(frames(CLAIMS), slack)
def test_bounds_decide_what_counting_would(frame: pl.DataFrame, width: int):
    """Who stays, who leaves and why are the same; the drops are judged on the same side."""
    exact, bounded = WordCounter(), WordCounter(slack=width)
    counted, decided = ruled(frame, exact), ruled(frame, bounded)
    same = ("claim_id", "step", "reason", "threshold")
    assert_frame_equal(counted.drops.select(same), decided.drops.select(same))
    assert_frame_equal(counted.kept.drop("evidence_tokens"), decided.kept.drop("evidence_tokens"))
    for few in (True, False):
        drops = decided.drops.filter(reason="too_few_tokens" if few else "too_many_tokens")
        beyond = drops["value"] < drops["threshold"] if few else drops["value"] > drops["threshold"]
        assert beyond.all()
    assert sum(bounded.asked) <= sum(exact.asked)


@FRAME_LAW
@given(frames(CLAIMS), slack)
def test_counts_are_exact_or_null(frame: pl.DataFrame, width: int):
    """A length that stands in the table is the length; words are known for every row."""
    kept = ruled(frame, WordCounter(slack=width)).kept
    words = [len(text.split()) for text in kept["evidence"]]
    assert words == kept["evidence_words"].to_list()
    known = kept.filter(pl.col("evidence_tokens").is_not_null())
    assert known["evidence_words"].equals(known["evidence_tokens"])
    if width == 0:
        assert known.height == kept.height


def test_counts_that_the_bounds_give_ask_nobody():
    """Where least and most are equal the counter never sees a text."""
    counter = WordCounter(slack=0)
    frame = frame_of(CLAIMS, [example_row()] * 3)
    assert [10, 10, 10] == ruled(frame, counter).kept["evidence_tokens"].to_list()
    assert [] == counter.asked


@FRAME_LAW
@given(frames(SILVER_DECOMPOSED), slack | st.none())
def test_every_training_claim_has_its_exact_length(frame: pl.DataFrame, width: int | None):
    """Long evidence is recognized as if all rows were counted, and no survivor stays uncounted."""
    blank = frame.with_columns(evidence_tokens=pl.lit(None, dtype=pl.Int64()))
    counter = WordCounter(slack=width)
    done = assembled(blank, counter)
    assert done.kept["evidence_tokens"].to_list() == done.kept["evidence_words"].to_list()
    whole = frame.with_columns(evidence_tokens="evidence_words")
    assert_frame_equal(assembled(whole, WordCounter()).kept, done.kept)
    assert sum(counter.asked) <= frame["evidence"].n_unique()


def test_lengths_of_two_units_are_not_mixed():
    """Claims counted in another unit stop the stage instead of being compared."""
    frame = frame_of(SILVER_DECOMPOSED, [example_row()]).with_columns(token_unit=pl.lit("pieces"))
    with pytest.raises(EngineError, match="pieces"):
        assembled(frame, WordCounter())


def test_under_a_third_of_realistic_evidence_is_counted():
    """Log-normal lengths with median 540 words and mean 830, words and bytes as bounds."""

    class Pieces(WordCounter):
        def bounds(self, words: np.ndarray, utf8_bytes: np.ndarray) -> tuple[np.ndarray, ...]:
            return byte_level_bpe_bounds(words, utf8_bytes)

    shares = [(step + 0.5) / 400 for step in range(400)]
    lengths = np.exp([NormalDist(np.log(540), 0.93).inv_cdf(share) for share in shares])
    texts = [f"{row} " + "sixth " * int(words) for row, words in enumerate(lengths.clip(80, 7_000))]
    rows = [example_row(evidence=text, passages=[text]) for text in texts]
    counter = TalliedTokens(Pieces())
    rules = RuleSettings(min_sentences=0, min_entities=0, overlap_filter=False)
    catalogue.rule_filter(frame_of(CLAIMS, rows), rules, counter, CapitalisedWords())
    assert 0.2 < counter.counted / len(rows) < 1 / 3


@pytest.fixture(scope="module")
def pieces() -> ByteLevelBPETokenizer:
    tokenizer = ByteLevelBPETokenizer(add_prefix_space=False)
    text = ["Ilva Marrek opened the Torbeck bridge in 1921. The river is Ösk's.", "the  the\n\nthe"]
    tokenizer.train_from_iterator(text * 20, vocab_size=600, min_frequency=1, show_progress=False)
    return tokenizer


@LAW
@given(text=any_text | st.lists(sentence).map(" \n".join))
def test_words_and_bytes_bound_byte_level_pieces(pieces: ByteLevelBPETokenizer, text: str):
    """No fewer tokens than words, no more than bytes, in any script."""
    plain = text.translate(dict.fromkeys(range(0x1C, 0x20), " "))  # white space to Python alone
    words, size = np.array([len(plain.split())]), np.array([len(plain.encode())])
    low, high = byte_level_bpe_bounds(words, size)
    assert low[0] <= len(pieces.encode(plain).ids) <= high[0]
