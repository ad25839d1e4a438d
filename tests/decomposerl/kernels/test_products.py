"""Products in low precision: the bound holds, whatever the rows."""

import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from decomposerl.errors import EngineError
from decomposerl.kernels import cosine_blocks, engine_choice
from decomposerl.kernels.cosine_filter import keep_first_cosine
from decomposerl.kernels.cosine_loops import pair_cosines
from decomposerl.kernels.matches import Matches
from decomposerl.kernels.products import GUARD, Products, hostile_rows, is_sound
from decomposerl.kernels.threads import Team
from decomposerl.kernels.torch_products import Bf16Products, DeviceProducts, Int8Products
from strategies import EACH_LAW

Vectors = NDArray[np.float32]


class TinyTiles(Products):
    """Blocks and tiles so small that every seam is crossed."""

    block, tile = 8, 3


class DeviceTiles(DeviceProducts):
    """The device's own code, on the processor and in small tiles."""

    block, tile = 16, 5


ENGINES = [
    Products(),
    Products(0.4),
    TinyTiles(),
    Int8Products(),
    Int8Products(0.5),
    Bf16Products(),
    Bf16Products(0.1),
    DeviceTiles("cpu"),
    DeviceTiles("cpu", 0.7),
]


def name_of(engine: Products) -> str:
    return f"{type(engine).__name__}-{engine.share}"


KINDS = ["normal", "clustered", "heavy", "one-hot", "extreme", "tiny"]


def rows_of(kind: str, rows: int, dimensions: int, seed: int) -> Vectors:
    random = np.random.default_rng(seed)
    made = {
        "normal": lambda: random.normal(size=(rows, dimensions)),
        "clustered": lambda: 1 + 0.3 * random.normal(size=(rows, dimensions)),
        "heavy": lambda: random.standard_cauchy((rows, dimensions)) ** 3,
        "one-hot": lambda: np.eye(dimensions)[random.integers(dimensions, size=rows)],
        "extreme": lambda: random.choice([-1.0, 1.0], (rows, dimensions)),
        "tiny": lambda: random.normal(size=(rows, dimensions)) * 1e-3 + np.eye(dimensions)[0],
    }[kind]()
    return (made / np.linalg.norm(made, axis=1, keepdims=True)).astype(np.float32)


def side(vectors: Vectors, engine: Products) -> cosine_blocks.Side:
    with Team(1) as team:
        return cosine_blocks.Side.of(vectors, engine, team)


def exact(left: cosine_blocks.Side, right: cosine_blocks.Side) -> NDArray[np.float64]:
    rows = np.arange(len(left.vectors)).repeat(len(right.vectors))
    columns = np.tile(np.arange(len(right.vectors)), len(left.vectors))
    flat = pair_cosines(left.exact(), rows, right.exact(), columns)
    return np.asarray(flat).reshape(len(left.vectors), -1)


@pytest.mark.parametrize("engine", ENGINES, ids=name_of)
@EACH_LAW
@given(
    kinds=st.tuples(st.sampled_from(KINDS), st.sampled_from(KINDS)),
    dimensions=st.sampled_from((2, 7, 64, 200, 1_030)),
    seed=st.integers(0, 1_000),
)
def test_no_product_is_further_off_than_its_bound(
    engine: Products, kinds: tuple[str, str], dimensions: int, seed: int
):
    """Measured error <= both rows' errors + the engine's own, for every pair of rows."""
    left, right = (side(rows_of(kind, 12, dimensions, seed), engine) for kind in kinds)
    products = np.asarray(engine.multiply(left.encoded.codes, right.encoded.codes), np.float64)
    scales = [s.encoded.scales.astype(np.float64) for s in (left, right)]
    x, y = (s.encoded.errors.astype(np.float64) for s in (left, right))
    off = np.abs(products * np.outer(*scales) - exact(left, right))
    bound = x[:, None] + y + engine.rounding(left.encoded.codes.shape[1]) + GUARD
    assert (off <= bound).all()


@pytest.mark.parametrize("engine", ENGINES, ids=name_of)
@EACH_LAW
@given(
    kind=st.sampled_from(KINDS),
    threshold=st.sampled_from((0.05, 0.5, 0.9, 1.0)),
    seed=st.integers(0, 1_000),
)
def test_what_is_ruled_out_is_below_and_what_is_given_is_at_most_as_said(
    engine: Products, kind: str, threshold: float, seed: int
):
    """No pair at or above the threshold is missing; places come row by row."""
    left, right = side(rows_of(kind, 20, 70, seed), engine), side(rows_of(kind, 9, 70, 1), engine)
    rows, columns, most = engine.near(left.encoded, right.encoded, threshold)
    cosines = exact(left, right)
    given_places = list(zip(rows.tolist(), columns.tolist(), strict=True))
    assert sorted(given_places) == given_places
    assert set(zip(*map(np.ndarray.tolist, np.nonzero(cosines >= threshold)), strict=True)) <= set(
        given_places
    )
    assert (cosines[rows, columns] <= most).all()


@pytest.mark.parametrize("engine", ENGINES, ids=name_of)
@EACH_LAW
@given(kind=st.sampled_from(KINDS), threshold=st.sampled_from((0.1, 0.6)), seed=st.integers(0, 100))
def test_engines_and_tiles_cannot_be_told_apart(
    engine: Products, kind: str, threshold: float, seed: int
):
    """Searches through any engine and tile give the same bits as those in one large tile."""
    vectors, others = rows_of(kind, 70, 130, seed), rows_of(kind, 30, 130, seed + 1)

    def answers(used: Products, team: Team) -> list[NDArray[np.generic]]:
        left = cosine_blocks.Side.of(vectors, used, team)
        kept = cosine_blocks.keep_first(left, threshold, used, team)
        best = cosine_blocks.best_across(left, others, threshold, used, team)
        pairs = cosine_blocks.all_pairs(left, threshold, used, team, 10_000)
        return [kept.matched, kept.similarity, best.matched, best.similarity, *pairs]

    with Team(2) as team:
        for expected, found in zip(answers(Products(), team), answers(engine, team), strict=True):
            np.testing.assert_array_equal(expected, found)


def test_brain_floats_are_rounded_as_torch_does():
    """Nearest, ties to even."""
    import torch

    vectors = rows_of("heavy", 50, 33, 0)
    expected = torch.from_numpy(vectors).bfloat16().view(torch.int16).numpy()
    np.testing.assert_array_equal(
        expected, side(vectors, Bf16Products()).encoded.codes.view(np.int16)
    )


class Saturating(Int8Products):
    """A processor that adds pairs of products in sixteen bits."""

    def multiply(self, left: NDArray[np.int8], right: NDArray[np.int8]) -> NDArray[np.int64]:
        """Pairs of products of shifted codes cut at 32,767, as without whole-number units."""
        shifted = (left.astype(np.int64) + 128)[:, None, :] * right.astype(np.int64)[None]
        pairs = shifted[..., ::2] + shifted[..., 1::2]
        offset = 128 * right.astype(np.int64).sum(axis=1)
        return np.asarray(np.clip(pairs, -32_768, 32_767).sum(axis=2) - offset)


def test_an_engine_that_breaks_its_bound_is_found_out():
    """Every shipped engine passes on hostile rows; saturating and overflowing ones do not."""
    assert all(is_sound(engine, 64) for engine in ENGINES)
    assert not is_sound(Saturating(), 64)
    assert not is_sound(Int8Products(), 200_000)
    np.testing.assert_allclose(1, np.linalg.norm(hostile_rows(64), axis=1), atol=1e-6)


def test_an_unsound_engine_is_not_chosen_and_not_forced():
    """It is passed over where others are on offer, refused where it was asked for."""
    vectors = rows_of("normal", 10, 64, 0)
    broken, fine = Saturating(), Products()
    broken.name = "saturating"
    with Team(1) as team:
        assert fine is engine_choice.choose_engine([broken, fine], vectors, vectors, 0.7, team)
        with pytest.raises(EngineError, match="saturating products exceed their error bound"):
            engine_choice.choose_engine([broken], vectors, vectors, 0.7, team)


@pytest.mark.parametrize("device", ["cuda:77", "abacus"])
def test_a_device_that_is_not_there_is_refused(device: str):
    """By name, before anything is computed."""
    with pytest.raises(EngineError, match=f"device '{device}' cannot be used"):
        keep_first_cosine(rows_of("normal", 5, 8, 0), 0.7, device=device)


def test_small_searches_never_load_torch():
    """Start-up is paid by searches that are worth it."""
    program = (
        "import sys, numpy as np\n"
        "from decomposerl.kernels.cosine_filter import keep_first_cosine\n"
        "keep_first_cosine(np.eye(50, dtype=np.float32), 0.7)\n"
        "assert 'torch' not in sys.modules\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, check=False)
    assert (0, b"") == (done.returncode, done.stderr)


def test_many_copies_need_few_exact_cosines():
    """2,000 equal rows: each is compared with the one kept row, not with each other."""
    compared = 0

    class Counting(Products):
        def near(self, *asked):  # noqa: ANN002, ANN202 - as its parent
            nonlocal compared
            hits = super().near(*asked)
            compared += len(hits[0])
            return hits

    vectors = np.repeat(rows_of("normal", 1, 16, 0), 3_000, axis=0)
    with Team(2) as team:
        engine = Counting()
        found: Matches = cosine_blocks.keep_first(
            cosine_blocks.Side.of(vectors, engine, team), 0.7, engine, team
        )
    assert 1 == np.sum(~found.is_matched)
    assert compared < 3_000 * 1_024
