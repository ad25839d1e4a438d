"""The engine of a search: which are offered, and what trying them may cost."""

import os
import subprocess
import sys
from collections.abc import Callable
from functools import partial
from itertools import count

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from decomposerl.errors import ConfigError
from decomposerl.kernels import engine_choice
from decomposerl.kernels.products import Codes, Products
from decomposerl.kernels.threads import Team
from decomposerl.kernels.torch_products import Bf16Products, DeviceProducts, Int8Products
from strategies import LAW

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


def search_seconds(pace: float, rows: int = ROWS, threads: int = 2) -> float:
    return rows**2 / 2 / pace / threads


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
    assert spent <= 0.05 * search_seconds(fastest, rows, threads)


@pytest.mark.parametrize("other", [1e-3, 0.03, 0.2, 0.8, 1.1, 4.0])
@pytest.mark.parametrize("threads", [1, 2])
def test_the_smallest_search_with_a_trial_bears_it_too(other: float, threads: int):
    """Long vectors, as few rows as are tried at all, two engines beside the first."""
    entrants = [Paced(2e7), Paced(2e7 * other), Paced(1e7 * other)]
    chosen(entrants, 10_000, threads, 3_072)
    fastest = max(entrant.pace for entrant in entrants)
    spent = sum(entrant.trial for entrant in entrants)
    assert spent <= 0.05 * search_seconds(fastest, 10_000, threads)


@pytest.mark.parametrize("slower", [10, 30, 1_000])
def test_a_hopeless_engine_leaves_after_its_first_products(slower: int):
    """Three of the smallest: no slower engine is encoded, checked or tried any further."""
    fine, hopeless = Paced(2e7), Paced(2e7 / slower)
    assert fine.name == chosen([fine, hopeless])
    least = min(engine_choice.RATE_ROWS)
    assert hopeless.spent <= 3 * least**2 / hopeless.pace * 1.001


def test_the_race_is_run_once_a_process():
    """A second search of as many dimensions knows which engines are slow."""
    fine, slow = Paced(2e7), Paced(1e6)
    chosen([fine, slow])
    before = slow.spent
    assert fine.name == chosen([fine, slow])
    assert before == slow.spent


def test_engines_without_a_product_and_wrong_ones_are_passed_over():
    """Torch lacks the product, or it is off: single precision does the work."""
    fine = Paced(2e7)
    assert fine.name == chosen([fine, Missing(9e7), Wrong(9e7)])


def test_a_clock_that_stands_still_decides_nothing():
    """Where a clock is too coarse for the race, engines are chosen all the same."""
    entrants = [Paced(np.inf), Paced(np.inf)]
    assert chosen(entrants) in {entrant.name for entrant in entrants}


@pytest.mark.parametrize("kind", [Bf16Products, Int8Products, partial(DeviceProducts, "cpu")])
def test_every_engine_can_be_raced_alone(kind: Callable[[], Products]):
    """An engine that was asked for by name, or a device, has nobody to compare with."""
    vectors = np.eye(8, dtype=np.float32)
    pool = np.broadcast_to(vectors[:1], (200_000, 8))
    with Team(1) as team:
        assert kind().name == engine_choice.choose_engine([kind()], pool, pool, 0.9, team).name


@pytest.mark.parametrize(
    ("named", "offered"),
    [
        ("avx2 fma f16c", []),
        ("avx2 avx512f avx512bw", []),
        ("avx2 avx512f avx512vnni", ["int8"]),
        ("avx2 avxvnni", ["int8"]),
        ("avx2 avx512vnni avx512bf16 amx-int8 amx-bf16", ["int8", "bf16"]),
        ("neon dotprod", ["int8"]),
        ("neon dotprod i8mm bf16", ["int8", "bf16"]),
        ("", ["int8", "bf16"]),
    ],
)
def test_only_precisions_with_units_of_their_own_are_offered(named: str, offered: list[str]):
    """An emulated precision is no candidate; a processor that names nothing is tried."""
    assert offered == engine_choice.supported_precisions(frozenset(named.split()))


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
    with pytest.raises(ConfigError, match="multiplies in bf16, not in int8"):
        engine_choice.candidate_engines("int8", "cuda", few, few)


def test_a_processor_without_units_never_loads_torch():
    """A large search on AVX2 alone starts multiplying at once."""
    settings = {**os.environ, "NUMBA_CPU_FEATURES": "+avx2,+fma", "NUMBA_CPU_NAME": "haswell"}
    program = (
        "import sys, numpy as np\n"
        "from decomposerl.kernels.engine_choice import candidate_engines\n"
        "rows = np.broadcast_to(np.zeros((1, 4), np.float32), (1_000_000, 4))\n"
        "assert ['f32'] == [one.name for one in candidate_engines('auto', 'cpu', rows, rows)]\n"
        "assert 'torch' not in sys.modules\n"
    )
    command = [sys.executable, "-c", program]
    done = subprocess.run(command, capture_output=True, check=False, env=settings)
    assert (0, b"") == (done.returncode, done.stderr)
