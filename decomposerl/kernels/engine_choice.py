"""Which engine compares the rows of a search: by the processor's units, then by a short trial.

1. A precision for which the processor has no unit is no candidate: its products would be
   emulated, and loading torch would gain nothing.
2. Bare products of growing size are timed, once per process and dimension. An engine that
   falls behind the first one is dropped.
3. The others compare some of the rows, as many as cost ``TRIAL_SHARE`` of the search.

The choice affects only the time of a search, never its result. Nothing is stored on disk.
"""

from collections.abc import Callable
from importlib.util import find_spec
from typing import Literal, TypeVar

import numpy as np

from decomposerl.errors import ConfigError, EngineError
from decomposerl.kernels.cosine_blocks import Side
from decomposerl.kernels.products import Floats, Products, is_sound
from decomposerl.kernels.threads import Team

Precision = Literal["auto", "int8", "bf16", "f32"]
Result = TypeVar("Result")

LARGE_WORK = 3e11  # multiplications from which trying out engines is worth its time
SHARES = (3 / 4, 1 / 2, 3 / 8, 1 / 4, 3 / 16, 1 / 8, 1 / 16)
UNITS = {
    "int8": {"avx512vnni", "avxvnni", "avxvnniint8", "amx-int8", "dotprod", "i8mm"},
    "bf16": {"avx512bf16", "amx-bf16", "bf16"},
}
"""Processor units for each precision, by LLVM's names."""
RATE_ROWS = {8: 8.0, 32: 4.0, 128: 1.25}
"""Rows of a timed product, and how many times the first engine's time it may take."""
TRIAL_SHARE, FEWEST_ROWS, MOST_ROWS, TRIALS = 0.02, 128, 512, 2
LEAST_S = 1e-9  # some clocks do not advance in so short a time
_SHARES_TRIED = 3.0  # cost of trying narrower shares, in products of the best engine


def candidate_engines(
    precision: Precision, device: str, left: Floats, right: Floats
) -> list[Products]:
    """The engines that can compare these rows; loads torch if one of them needs it.

    Raises:
        ConfigError: a precision that the device is not used with.
        EngineMissing: a precision that needs torch was set, and torch is not installed.
        EngineError: there is no such device.
    """
    auto = precision == "auto"
    low: list[str] = [] if auto else [precision]
    if auto and _is_large(left, right) and find_spec("torch"):
        low = supported_precisions(processor_units())
    if device == "cpu" and (precision == "f32" or not low):
        return [Products()]
    from decomposerl.kernels.torch_products import Bf16Products, DeviceProducts, Int8Products

    if device != "cpu":
        if precision not in ("auto", "bf16"):
            raise ConfigError(f"device '{device}' multiplies in bf16, not in {precision}")
        return [DeviceProducts(device)]
    kinds: dict[str, type[Products]] = {"int8": Int8Products, "bf16": Bf16Products}
    return [*([Products()] if auto else []), *(kinds[kind]() for kind in low)]


def choose_engine(
    candidates: list[Products], left: Floats, right: Floats, threshold: float, team: Team
) -> Products:
    """The engine, with its share of numbers, that is fastest on a sample of these rows.

    Only engines whose bound holds on this machine are tried. A trial includes the exact
    cosines of the pairs that it leaves open. Small searches and devices have no trial.

    Raises:
        EngineError: the only candidate exceeds its error bound on this machine.
    """
    dimensions = left.shape[1]
    if candidates[0].on_device or not _is_large(left, right):
        return _sound(candidates, dimensions)[0]
    rates = pair_seconds(candidates, dimensions)
    sound = _sound([engine for engine in candidates if engine.name in rates], dimensions)
    spared = TRIAL_SHARE * len(left) * len(right) / 2 / team.size
    size = _trial_rows([rates[engine.name] for engine in sound], spared)
    rows = _some(left, 0, size), _some(right, 1, size)
    costs = {engine: _cost(engine, rows, threshold, team) for engine in sound}
    best = min(costs, key=costs.__getitem__)
    for share in SHARES:
        narrower = best.of_share(share)
        costs[narrower] = _cost(narrower, rows, threshold, team)
        if costs[narrower] >= costs[best]:
            break
        best = narrower
    return best


def pair_seconds(candidates: list[Products], dimensions: int) -> dict[str, float]:
    """Seconds per pair of rows by engine name, without engines slower than the first."""
    # The first engine, single precision, leaves the fewest pairs open, so an engine with slower
    # products cannot win. Sizes grow, so that the slowest costs only a few small products.
    key = (*(engine.name for engine in candidates), dimensions)
    if key not in _PAIR_SECONDS:
        racing, rates = candidates, dict[str, float]()
        for rows, slack in RATE_ROWS.items():
            taken = {engine: _product_seconds(engine, rows, dimensions) for engine in racing}
            first = taken[candidates[0]]
            racing = [e for e in racing if e is candidates[0] or taken[e] <= slack * first]
            rates = {engine.name: taken[engine] / rows**2 for engine in racing}
        _PAIR_SECONDS[key] = rates
    return _PAIR_SECONDS[key]


def processor_units() -> frozenset[str]:
    """The processor's units by LLVM's names; numba's setting overrides them, as for its loops."""
    from numba import config
    from numba.core.codegen import get_host_cpu_features

    listed: str = config.CPU_FEATURES or get_host_cpu_features()
    return frozenset(name[1:] for name in listed.split(",") if name.startswith("+"))


def supported_precisions(available: frozenset[str]) -> list[str]:
    """Precisions that the processor has units for; all if it names no unit."""
    return [kind for kind, units in UNITS.items() if not available or units & available]


def _product_seconds(engine: Products, rows: int, dimensions: int) -> float:
    """Seconds of a bare product of ``rows`` x ``rows``, infinite if there is none."""
    # Zeros, because encoding would have to be compiled first. The first call is not counted: a
    # library may prepare itself in it.
    codes = engine.room(np.zeros((rows, dimensions), np.float32)).codes
    codes[...] = 0
    try:
        engine.multiply(codes, codes)
    except RuntimeError:  # torch has no such product here
        return np.inf
    return max(_timed(engine, lambda: engine.multiply(codes, codes))[1], LEAST_S)


def _timed(engine: Products, task: Callable[[], Result]) -> tuple[Result, float]:
    """The result of ``task``, and the fewest seconds that it took by the engine's clock."""
    taken = []
    for _ in range(TRIALS):
        start = engine.clock()
        result = task()
        taken.append(engine.clock() - start)
    return result, min(taken)


def _trial_rows(rates: list[float], spared_pairs: float) -> int:
    """Rows of a trial that costs as much as ``spared_pairs`` of the fastest engine."""
    of_all = TRIALS * (sum(rates) / min(rates) + _SHARES_TRIED)
    return min(max(int((spared_pairs / of_all) ** 0.5), FEWEST_ROWS), MOST_ROWS)


def _some(vectors: Floats, offset: int, rows: int) -> Floats:
    """Up to ``rows`` rows at regular distances; another offset gives other rows."""
    step = max(len(vectors) // rows, 1)
    return np.ascontiguousarray(vectors[offset % step :: step][:rows])


def _cost(engine: Products, rows: tuple[Floats, Floats], threshold: float, team: Team) -> float:
    """Seconds to compare these rows: the products, and exact cosines of the pairs left open."""
    from decomposerl.kernels.cosine_loops import pair_cosines

    left, right = (Side.of(some, engine, team) for some in rows)
    (open_left, open_right, _), spent = _timed(
        engine, lambda: engine.near(left.encoded, right.encoded, threshold)
    )
    some = slice(0, MOST_ROWS)
    pairs = open_left[some].astype(np.int64), open_right[some].astype(np.int64)
    _, exact = _timed(engine, lambda: pair_cosines(left.exact(), pairs[0], right.exact(), pairs[1]))
    return spent + exact * len(open_left) / max(len(pairs[0]), 1)


def _is_large(left: Floats, right: Floats) -> bool:
    return len(left) * right.size >= LARGE_WORK


def _sound(candidates: list[Products], dimensions: int) -> list[Products]:
    """The engines whose bound holds: single precision does by IEEE 754, others are tested once."""
    for engine in candidates:
        tried = (engine.name, dimensions)
        if tried not in _SOUND:
            _SOUND[tried] = type(engine) is Products or is_sound(engine, dimensions)
    sound_engines = [engine for engine in candidates if _SOUND[engine.name, dimensions]]
    if not sound_engines:
        raise EngineError(f"{candidates[0].name} products fail or exceed their error bound here")
    return sound_engines


_SOUND: dict[tuple[str, int], bool] = {}
_PAIR_SECONDS: dict[tuple[object, ...], dict[str, float]] = {}
