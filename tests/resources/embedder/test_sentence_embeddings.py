"""Sentence vectors in process, from a tiny BERT built here and computed plainly besides."""

import shutil
from pathlib import Path

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from transformers import AutoModel, AutoTokenizer, BertConfig, BertModel, BertTokenizer

from decomposerl.errors import ConfigError, EngineError, EngineMissing
from resources.embedder.sentence_transformers_engine import SentenceEmbedder
from resources.embedder.stored import StoredEmbedder
from resources.store.result_store import ResultStores

WORDS = "[PAD] [UNK] [CLS] [SEP] [MASK] a cat sat on the mat query : long short".split()
TEXTS = ["a cat", "the cat sat on the mat", "long", "unknown words on a mat", ""]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tiny BERT with mean pooling, saved as sentence-transformers saves its models."""
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.sentence_transformer.modules import Pooling, Transformer

    plain, saved = (tmp_path_factory.mktemp(name) for name in ("bert", "tiny"))
    (plain / "vocab.txt").write_text("\n".join(WORDS), "utf-8")
    torch.manual_seed(7)
    config = BertConfig(
        vocab_size=len(WORDS),
        hidden_size=16,
        num_hidden_layers=2,
        num_attention_heads=2,
        intermediate_size=32,
        initializer_range=0.5,
    )
    BertModel(config).eval().save_pretrained(plain)
    BertTokenizer(str(plain / "vocab.txt")).save_pretrained(plain)
    body = Transformer(str(plain), max_seq_length=32)
    SentenceTransformer(modules=[body, Pooling(16, pooling_mode="mean")], device="cpu").save(
        str(saved)
    )
    return saved


def plainly(folder: Path, texts: list[str]) -> NDArray[np.float32]:
    """Each text alone through the bare model; the mean over its tokens, unit length."""
    tokenizer, model = AutoTokenizer.from_pretrained(folder), AutoModel.from_pretrained(folder)
    rows = []
    for text in texts:
        with torch.no_grad():
            hidden = model.eval()(**tokenizer(text, return_tensors="pt")).last_hidden_state
        mean = hidden[0].mean(dim=0).numpy()
        rows.append(mean / np.linalg.norm(mean))
    return np.array(rows, dtype=np.float32)


@pytest.mark.parametrize("batch_size", [1, 3])
def test_vectors_equal_a_plain_computation(folder: Path, batch_size: int):
    """In any batches: the mean of the token vectors, unit length, in the order asked."""
    vectors = SentenceEmbedder(str(folder), batch_size=batch_size).embed(TEXTS)
    assert (np.float32, (5, 16)) == (vectors.dtype, vectors.shape)
    assert np.allclose(plainly(folder, TEXTS), vectors, atol=1e-5)
    assert np.ptp(vectors, axis=0).max() > 0.1
    assert 0 == len(SentenceEmbedder(str(folder)).embed([]))


def test_the_prompt_stands_before_every_text(folder: Path):
    """A prompt gives the vector of prompt and text together."""
    vectors = SentenceEmbedder(str(folder), prompt="query : ").embed(TEXTS[:2])
    expected = plainly(folder, [f"query : {text}" for text in TEXTS[:2]])
    assert np.allclose(expected, vectors, atol=1e-5)
    assert not np.allclose(plainly(folder, TEXTS[:2]), vectors, atol=1e-2)


def test_half_precision_is_near_and_another_engine(folder: Path):
    """Vectors in bfloat16 differ a little, are unit in float32, and are stored apart."""
    full, half = SentenceEmbedder(str(folder)), SentenceEmbedder(str(folder), dtype="bfloat16")
    one, two = full.embed(TEXTS), half.embed(TEXTS)
    assert np.float32 == two.dtype
    assert np.allclose(1.0, np.linalg.norm(two, axis=1), atol=1e-5)
    assert not np.array_equal(one, two)
    assert np.sum(one * two, axis=1).min() > 0.99
    assert full.engine != half.engine


def test_the_engine_names_all_that_decides_a_vector(folder: Path, tmp_path: Path):
    """Content of the folder, number type and prompt part engines; the batch size does not."""
    name = SentenceEmbedder(str(folder)).engine
    assert name.startswith(f"sentence:{folder.name}-")
    assert name == SentenceEmbedder(str(folder), batch_size=1).engine
    assert name != SentenceEmbedder(str(folder), prompt="query : ").engine
    copy = tmp_path / folder.name
    shutil.copytree(folder, copy)
    assert name == SentenceEmbedder(str(copy)).engine
    (copy / "modules.json").write_text("[]", "utf-8")
    assert name != SentenceEmbedder(str(copy)).engine


def test_stored_vectors_are_the_models(folder: Path, tmp_path: Path):
    """Behind the store the same bits come back, without asking the model again."""
    store = ResultStores(tmp_path)
    first = StoredEmbedder(SentenceEmbedder(str(folder)), store).embed(TEXTS)
    again = StoredEmbedder(SentenceEmbedder(str(folder)), store)
    assert first.tobytes() == again.embed(TEXTS).tobytes()
    assert 0 == again.calls


def test_a_model_that_is_not_here_is_a_download_command(tmp_path: Path):
    """A hub name that is not in the cache, and a folder without a model, say what to do."""
    with pytest.raises(ConfigError):
        SentenceEmbedder("m", batch_size=0)
    missing = SentenceEmbedder("no-such-org/no-such-model", revision="a1b2")
    with pytest.raises(EngineMissing, match="no-such-org/no-such-model --revision a1b2"):
        missing.embed(["a"])
    (tmp_path / "config.json").write_text("{}", "utf-8")
    with pytest.raises(EngineMissing, match=str(tmp_path)):
        SentenceEmbedder(str(tmp_path)).embed(["a"])


def test_a_device_that_torch_cannot_use_is_an_error(folder: Path):
    """The error names the device; nothing falls back to the processor."""
    if torch.cuda.is_available():
        pytest.skip("torch can use a GPU here")
    with pytest.raises(EngineError, match="'cuda'"):
        SentenceEmbedder(str(folder), device="cuda").embed(["a"])
