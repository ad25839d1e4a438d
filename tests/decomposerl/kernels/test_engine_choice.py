"""The engine of a search: which are offered, and what trying them may cost."""

import json
import os
import subprocess
import sys
from itertools import count

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from decomposerl.errors import ConfigError, EngineError
from decomposerl.kernels import cosine_blocks, engine_choice
from decomposerl.kernels.cosine_filter import keep_first_cosine
from decomposerl.kernels.cosine_loops import pair_cosines
from decomposerl.kernels.matches import Matches
from decomposerl.kernels.products import GUARD, Codes, Products, hostile_rows, is_sound
from decomposerl.kernels.threads import Team
from decomposerl.kernels.torch_products import Bf16Products, DeviceProducts, Int8Products
from strategies import EACH_LAW, LAW

Vectors = NDArray[np.float32]
ROWS, DIMENSIONS = 100_000, 64
NUMBERS = count()


class Paced(Products):
    """Single precision by a clock of its own, which counts products alone."""

    def __init__(self, pace: float, share: float = 1.0, name: str = "") -> None:
        """``pace`` is in pairs of full rows a second."""
        super().__init__(share)
        self.name = name or f"paced {next(NUMBERS)}"  # what is kept for the process is not shared
        self.pace, self.spent = pace, 0.0
        self.narrower: list[Paced] = []

    def clock(self) -> float:  # type: ignore[override]
        """The seconds that its products took."""
        return self.spent

    def of_share(self, share: float) -> "Paced":
        """The same pace, where fewer numbers take less time."""
        self.narrower.append(Paced(self.pace, share, self.name))
        return self.narrower[-1]

    def multiply(self, left: Codes, right: Codes) -> Vectors:
        """The product, and its time."""
        self.spent += len(left) * len(right) * self.share / self.pace
        return np.asarray(super().multiply(left, right))

    @property
    def trial(self) -> float:
        """Seconds spent so far, those of narrower forms too."""
        return self.spent + sum(one.spent for one in self.narrower)


class Missing(Paced):
    """A product that torch does not have on this machine."""

    def multiply(self, left: Codes, right: Codes) -> Vectors:  # noqa: ARG002 - as its parent
        """As torch says it."""
        raise RuntimeError('"addmm_impl_cpu_" not implemented')


class Wrong(Paced):
    """A product that is fast and off by more than its bound."""

    def multiply(self, left: Codes, right: Codes) -> Vectors:
        """Half of what it should be."""
        return super().multiply(left, right) / 2


def chosen(
    entrants: list[Paced], rows: int = ROWS, threads: int = 2, dimensions: int = DIMENSIONS
) -> str:
    """The choice for as many rows as are wanted, in the memory of one."""
    pool = np.broadcast_to(np.eye(1, dimensions, dtype=np.float32), (rows, dimensions))
    with Team(threads) as team:
        return engine_choice.choose_engine([*entrants], pool, pool, 0.7, team).name


@LAW
@given(
    others=st.lists(st.sampled_from((1e-3, 0.01, 0.03, 0.15, 0.5, 0.9, 1.5, 4.0)), max_size=3),
    rows=st.sampled_from((ROWS, 3 * ROWS, 20 * ROWS)),
    threads=st.sampled_from((1, 2, 4)),
)
def test_a_trial_costs_a_small_share_of_the_search(others: list[float], rows: int, threads: int):
    """At most 5 percent of what the fastest engine needs, however slow the others are."""
    pace = 2e7
    entrants = [Paced(pace), *(Paced(pace * other) for other in others)]
    best = chosen(entrants, rows, threads)
    fastest = max(entrant.pace for entrant in entrants)
    assert fastest == next(entrant.pace for entrant in entrants if entrant.name == best)
    spent = sum(entrant.trial for entrant in entrants)
    assert spent <= 0.05 * rows**2 / 2 / fastest / threads


def test_engines_without_a_product_wrong_ones_and_coarse_clocks_are_borne():
    """Single precision does the work of others; a clock that stands still decides nothing."""
    fine = Paced(2e7)
    assert fine.name == chosen([fine, Missing(9e7), Wrong(9e7)])
    with pytest.raises(EngineError, match="exceed their error bound"):
        chosen([Wrong(9e7)])
    entrants = [Paced(np.inf), Paced(np.inf)]
    assert chosen(entrants) in {entrant.name for entrant in entrants}


UNITS = {
    "avx2 fma f16c": [],
    "avx2 avx512f avx512bw": [],
    "avx2 avx512f avx512vnni": ["int8"],
    "avx2 avxvnni": ["int8"],
    "avx2 avx512vnni avx512bf16 amx-int8 amx-bf16": ["int8", "bf16"],
    "neon dotprod": ["int8"],
    "neon dotprod i8mm bf16": ["int8", "bf16"],
    "": ["int8", "bf16"],
}


def test_only_precisions_with_units_of_their_own_are_offered():
    """An emulated precision is no candidate; a processor that names nothing is tried."""
    for named, offered in UNITS.items():
        assert offered == engine_choice.supported_precisions(frozenset(named.split())), named


def test_precision_and_device_are_offered_as_asked():
    """Small work is done by NumPy; large work may try what has units; a name is obeyed."""
    few = np.zeros((10, 4), np.float32)
    many = np.broadcast_to(few[:1], (1_000_000, 4))

    def names(precision: engine_choice.Precision, rows: Vectors) -> list[str]:
        return [
            engine.name for engine in engine_choice.candidate_engines(precision, "cpu", rows, rows)
        ]

    supported_precisions = engine_choice.supported_precisions(engine_choice.processor_units())
    assert ["f32"] == names("auto", few) == names("f32", many)
    assert ["f32", *supported_precisions] == names("auto", many)
    assert (["int8"], ["bf16"]) == (names("int8", few), names("bf16", few))
    with pytest.raises(ConfigError, match=r"bf16.*int8"):
        engine_choice.candidate_engines("int8", "cuda", few, few)


def test_a_small_search_and_a_processor_without_units_never_load_torch():
    """Start-up is paid by searches that are worth it, and not by a large one on AVX2 alone."""
    settings = {**os.environ, "NUMBA_CPU_FEATURES": "+avx2,+fma", "NUMBA_CPU_NAME": "haswell"}
    program = (
        "import sys, numpy as np\n"
        "from decomposerl.kernels.cosine_filter import keep_first_cosine\n"
        "from decomposerl.kernels.engine_choice import candidate_engines\n"
        "keep_first_cosine(np.eye(50, dtype=np.float32), 0.7)\n"
        "rows = np.broadcast_to(np.zeros((1, 4), np.float32), (1_000_000, 4))\n"
        "assert ['f32'] == [one.name for one in candidate_engines('auto', 'cpu', rows, rows)]\n"
        "assert 'torch' not in sys.modules\n"
    )
    command = [sys.executable, "-c", program]
    done = subprocess.run(command, capture_output=True, check=False, env=settings)
    assert (0, b"") == (done.returncode, done.stderr)


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
    products = engine.on_host(engine.multiply(left.encoded.codes, right.encoded.codes))
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
    wanted = zip(*map(np.ndarray.tolist, np.nonzero(cosines >= threshold)), strict=True)
    assert {*wanted} <= {*given_places}
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
    assert not is_sound(Int8Products(), 140_000)
    np.testing.assert_allclose(1, np.linalg.norm(hostile_rows(64), axis=1), atol=1e-6)


def test_a_device_whose_tensors_are_no_arrays_gives_the_same_bits_in_few_copies():
    """As on CUDA: one copy back and one compaction per product, none row by row."""
    where = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    program = [sys.executable, "-m", "stand_in_device"]
    done = subprocess.run(program, capture_output=True, check=False, env=where, text=True)
    assert (0, "") == (done.returncode, done.stderr)
    seen = json.loads(done.stdout)
    # One copy per tile; beside them one per engine that is made, and one to check the bound.
    assert seen["nonzero"] + seen["zero_"] + 1 == seen["to host"]


def test_a_device_that_is_not_there_is_refused():
    """By name, before anything is computed."""
    for device in ("cuda:77", "abacus"):
        with pytest.raises(EngineError, match=f"'{device}'"):
            keep_first_cosine(rows_of("normal", 5, 8, 0), 0.7, device=device)


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
