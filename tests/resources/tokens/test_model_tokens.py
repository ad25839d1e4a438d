"""Token counts by a model's own tokenizer file."""

import math
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, trainers

from decomposerl.errors import EngineError, EngineMissing
from resources.tokens.model_tokens import ModelTokens
from resources.tokens.word_tokens import WordTokens
from strategies import LAW, any_text

TEXTS = [
    "The bridge was opened in 1932.",
    "",
    "Ünïcode, déjà vu: 東京",
    " two  spaces\n\nand lines ",
]


def trained(folder: Path, *, nfc: bool = False) -> Tokenizer:
    """A byte-level BPE tokenizer of 300 pieces, saved as a model's folder has it."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    if nfc:
        tokenizer.normalizer = normalizers.NFC()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(vocab_size=300, initial_alphabet=alphabet, show_progress=False)
    tokenizer.train_from_iterator(TEXTS * 9, trainer)
    tokenizer.enable_truncation(3)
    tokenizer.save(str(folder / "tokenizer.json"))
    tokenizer.no_truncation()
    return tokenizer


@pytest.fixture(scope="module", params=[False, True], ids=["plain", "nfc"])
def pair(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory):
    """Our counter and the tokenizer that it reads."""
    folder = tmp_path_factory.mktemp("tiny-model")
    tokenizer = trained(folder, nfc=request.param)
    return ModelTokens(str(folder)), tokenizer


def test_counts_are_the_tokenizers_without_its_limit(pair: tuple[ModelTokens, Tokenizer]):
    """A truncation saved in the file must not make long evidence look short."""
    counter, tokenizer = pair
    assert [len(tokenizer.encode(text).ids) for text in TEXTS] == counter.count(TEXTS).tolist()
    assert max(counter.count(TEXTS)) > 3
    assert counter.unit.startswith("tokens:tiny-model")


@LAW
@given(texts=st.lists(any_text, min_size=1, max_size=5))
def test_bounds_hold(pair: tuple[ModelTokens, Tokenizer], texts: list[str]):
    """No text has fewer tokens than words or more than its bytes, thrice where NFC grows them."""
    counter, _ = pair
    plain = [text.encode("utf-8", "replace").decode() for text in texts]
    plain = ["".join(c for c in text if not "\x1c" <= c <= "\x1f") for text in plain]
    words = np.array([len(text.split()) for text in plain])
    sizes = np.array([len(text.encode()) for text in plain])
    least, most = counter.bounds(words, sizes)
    counts = counter.count(plain)
    assert (least <= counts).all()
    assert (counts <= most).all()


def test_a_letter_that_nfc_grows_stays_within_the_bounds(tmp_path: Path):
    """U+1D160 has 4 bytes and becomes 12: the bound of plain byte-level BPE would be wrong."""
    trained(tmp_path, nfc=True)
    counter = ModelTokens(str(tmp_path))
    text = "\U0001d160" * 5
    _, most = counter.bounds(np.array([1]), np.array([len(text.encode())]))
    assert len(text.encode()) < counter.count([text])[0] <= most[0]


def test_any_other_tokenizer_is_always_asked(tmp_path: Path):
    """Word pieces may span words or lose text: nothing is known before counting."""
    tokenizer = Tokenizer(models.WordLevel({"the": 0, "[UNK]": 1}, "[UNK]"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    tokenizer.save(str(tmp_path / "tokenizer.json"))
    counter = ModelTokens(str(tmp_path))
    least, most = counter.bounds(np.array([5]), np.array([30]))
    assert least.tolist() == [0]
    assert most.tolist() == [np.iinfo(np.int64).max]
    assert [3] == counter.count(["the bridge the"]).tolist()


def test_a_missing_or_broken_tokenizer_is_named(tmp_path: Path):
    """With the command that gets it: nothing is downloaded unless a person asks for it."""
    counter = ModelTokens("nobody/has-this", "v2")
    with pytest.raises(EngineMissing, match=r"hf download nobody/has-this .*--revision v2"):
        counter.count(["x"])
    assert "tokens:nobody/has-this@v2" == counter.unit
    (tmp_path / "tokenizer.json").write_text("{}", "utf-8")
    with pytest.raises(EngineError, match=r"tokenizer\.json"):
        ModelTokens(str(tmp_path)).count(["x"])


@given(words=st.integers(0, 5_000))
def test_tokens_are_words_times_a_fixed_factor(words: int):
    """The count is 1.3 times the words, rounded up, without floating-point excess."""
    assert [math.ceil(13 * words / 10)] == WordTokens().count(["word " * words]).tolist()
