"""Engines that answer from recorded tables."""

from pathlib import Path

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from decomposerl.errors import EngineError
from studies import replay

RECORDED = [f"claim {row}" for row in range(6)]
RECORDED_PAIRS = [(f"evidence {row}", text) for row, text in enumerate(RECORDED)]
RECORDED_VECTORS = np.arange(24, dtype=np.float32).reshape(6, 4)
FORMS = [["a"] * row for row in range(6)]
QUESTIONS = [None, [], ["q"], ["q", "r"], ["q"], ["s"]]
PLACES = st.lists(st.integers(0, 5), max_size=12)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("answers")
    single = [(text,) for text in RECORDED]
    replay.record(folder, replay.ReplayEmbedder, single, RECORDED_VECTORS)
    replay.record(folder, replay.ReplayEntities, single, pl.Series(FORMS))
    replay.record(folder, replay.ReplayVerifier, RECORDED_PAIRS, pl.Series(np.arange(6) / 10))
    replay.record(folder, replay.ReplayDecomposer, RECORDED_PAIRS, pl.Series(QUESTIONS))
    return folder


@given(indices=PLACES)
def test_every_port_answers_in_the_order_asked(folder: Path, indices: list[int]):
    """Any items in any order, repeated or none, get their own records."""
    ports = {name: one.open() for name, one in replay.replay_resources(folder).items()}
    texts = [RECORDED[index] for index in indices]
    pairs = [RECORDED_PAIRS[index] for index in indices]
    assert RECORDED_VECTORS[indices].tolist() == ports["embedder"].embed(texts).tolist()
    assert [FORMS[index] for index in indices] == ports["entities"].entities(texts)
    scores = ports["verifier"].support_probability(pairs).tolist()
    assert [index / 10 for index in indices] == scores
    assert [QUESTIONS[index] for index in indices] == ports["decomposer"].decompose(pairs)
    assert {(0, len(indices))} == {(port.calls, port.hits) for port in ports.values()}


def test_an_input_without_a_record_is_an_error_that_names_it(folder: Path):
    """No default answer: the claim is shown."""
    with pytest.raises(EngineError, match="embedder has no record of 'never said'"):
        replay.ReplayEmbedder(folder).embed([RECORDED[0], "never said"])
    with pytest.raises(EngineError, match="verifier has no record of 'claim 0'"):
        replay.ReplayVerifier(folder).support_probability([("other evidence", RECORDED[0])])


def test_a_folder_without_the_table_is_an_error_that_names_it(tmp_path: Path):
    """The path that was looked for is in the message."""
    with pytest.raises(EngineError, match=r"entities\.parquet"):
        replay.ReplayEntities(tmp_path).entities(["anything"])


def test_a_second_recording_takes_the_place_of_the_first(tmp_path: Path):
    """The later answer counts, and within one recording the later row."""
    for answer in (1.0, 2.0):
        vectors = np.full((1, 3), answer, np.float32)
        replay.record(tmp_path, replay.ReplayEmbedder, [("x",)], vectors)
    assert [[2.0] * 3] == replay.ReplayEmbedder(tmp_path).embed(["x"]).tolist()
    replay.record(tmp_path, replay.ReplayVerifier, [("e", "c")] * 2, pl.Series([0.1, 0.9]))
    assert [0.9] == replay.ReplayVerifier(tmp_path).support_probability([("e", "c")]).tolist()
