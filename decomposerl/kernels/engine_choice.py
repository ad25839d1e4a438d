"""Which engine compares the rows of a search: named by the processor, then tried briefly.

Takes rows and a threshold, gives an engine of ``products`` or ``torch_products``. Three
steps, each cheaper than what it saves:

1. A precision for which the processor names no unit is not offered: its products would be
   emulated, and loading torch would gain nothing.
2. Bare products of growing size are timed, once a process and dimension. An engine that
   falls behind the first one leaves at once: single precision leaves the fewest pairs open,
   so an engine with slower products cannot win.
3. The others compare some of the rows, as many as cost ``TRIAL_SHARE`` of the search.

The choice decides the time of a search, never its answer. Nothing is kept on disk: each
process can ask the processor what it names, and the race takes milliseconds.
"""

from importlib.util import find_spec
from typing import Literal

import numpy as np

from decomposerl.errors import ConfigError, EngineError
from decomposerl.kernels.cosine_blocks import Side
from decomposerl.kernels.products import Floats, Products, is_sound, seconds
from decomposerl.kernels.threads import Team

Precision = Literal["auto", "int8", "bf16", "f32"]

LARGE_WORK = 3e11  # multiplications from which trying out engines is worth its time
SHARES = (3 / 4, 1 / 2, 3 / 8, 1 / 4, 3 / 16, 1 / 8, 1 / 16)
UNITS = {
    "int8": {"avx512vnni", "avxvnni", "avxvnniint8", "amx-int8", "dotprod", "i8mm"},
    "bf16": {"avx512bf16", "amx-bf16", "bf16"},
}
"""The processor's units for each precision, as LLVM names them."""
RATE_ROWS = {8: 8.0, 32: 4.0, 128: 1.25}
"""Rows of a timed product, and how many times the first engine's time it may take."""
TRIAL_SHARE, FEWEST_ROWS, MOST_ROWS, TRIALS = 0.02, 128, 512, 2
LEAST_S = 1e-9  # some clocks stand still for so short a time
_SHARES_TRIED = 3.0  # products of the best engine that the trial of narrower ones costs


def candidate_engines(
    precision: Precision, device: str, left: Floats, right: Floats
) -> list[Products]:
    """The engines that may compare these rows; loads torch if one of them needs it.

    Raises:
        ConfigError: a precision that the device is not used with.
        EngineMissing: an engine was asked for by name, and torch is not installed.
        EngineError: there is no such device.
    """
    auto = precision == "auto"
    low = _low_precisions(left, right) if auto else [precision]
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
    offered: list[Products], left: Floats, right: Floats, threshold: float, team: Team
) -> Products:
    """The engine, with the share of numbers, that is fastest on some of these rows.

    Only engines whose bound holds on this machine are tried. A trial counts the exact
    cosines of the pairs that it leaves open: where rounding or leaving out leaves too many,
    an engine that leaves fewer wins. Small searches are not worth a trial.

    Raises:
        EngineError: the only engine on offer is not exact enough on this machine.
    """
    dimensions = left.shape[1]
    if not _is_large(left, right):
        return _sound(offered, dimensions)[0]
    rates = pair_seconds(offered, dimensions)
    sound = _sound([engine for engine in offered if engine.name in rates], dimensions)
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


def pair_seconds(offered: list[Products], dimensions: int) -> dict[str, float]:
    """Seconds a pair of rows by name of engine, without those slower than the first.

    An engine is dropped as soon as a product takes too many times as long as the first
    engine's, so the slowest costs a few of the smallest products. Kept for the process.
    """
    key = (*(engine.name for engine in offered), dimensions)
    if key not in _PAIR_SECONDS:
        racing, found = offered, dict[str, float]()
        for rows, slack in RATE_ROWS.items():
            taken = {engine: _product_seconds(engine, rows, dimensions) for engine in racing}
            first = taken[offered[0]]
            racing = [e for e in racing if e is offered[0] or taken[e] <= slack * first]
            found = {engine.name: taken[engine] / rows**2 for engine in racing}
        _PAIR_SECONDS[key] = found
    return _PAIR_SECONDS[key]


def named_units() -> frozenset[str]:
    """What the processor has, as LLVM names it; numba's own setting is obeyed, as its loops do."""
    from numba import config
    from numba.core.codegen import get_host_cpu_features

    listed: str = config.CPU_FEATURES or get_host_cpu_features()
    return frozenset(name[1:] for name in listed.split(",") if name.startswith("+"))


def with_units(named: frozenset[str]) -> list[str]:
    """Precisions that a processor multiplies by units of its own; all where it names nothing."""
    return [kind for kind, units in UNITS.items() if not named or units & named]


def _low_precisions(left: Floats, right: Floats) -> list[str]:
    return with_units(named_units()) if _is_large(left, right) and find_spec("torch") else []


def _product_seconds(engine: Products, rows: int, dimensions: int) -> float:
    """Seconds of a bare product of ``rows`` x ``rows``, infinite where there is none.

    Zeros are multiplied, so no encoding has to be compiled. The first call, in which a
    library may prepare itself, is not counted.
    """
    codes = engine.room(np.zeros((rows, dimensions), np.float32)).codes
    codes[...] = 0
    try:
        engine.multiply(codes, codes)
    except RuntimeError:  # how torch says that it has no such product here
        return np.inf
    taken = [seconds(engine, lambda: engine.multiply(codes, codes))[1] for _ in range(TRIALS)]
    return max(min(taken), LEAST_S)


def _trial_rows(rates: list[float], spared_pairs: float) -> int:
    """Rows of a trial that costs as much as ``spared_pairs`` by the fastest engine."""
    of_all = TRIALS * (sum(rates) / min(rates) + _SHARES_TRIED)
    return min(max(int((spared_pairs / of_all) ** 0.5), FEWEST_ROWS), MOST_ROWS)


def _some(vectors: Floats, offset: int, rows: int) -> Floats:
    """Up to ``rows`` rows from everywhere; another offset gives other rows."""
    step = max(len(vectors) // rows, 1)
    return np.ascontiguousarray(vectors[offset % step :: step][:rows])


def _cost(engine: Products, rows: tuple[Floats, Floats], threshold: float, team: Team) -> float:
    """Seconds that comparing these rows takes: the products, and exact cosines of the rest."""
    from decomposerl.kernels.cosine_loops import pair_cosines

    left, right = (Side.of(some, engine, team) for some in rows)
    timed = [
        seconds(engine, lambda: engine.near(left.encoded, right.encoded, threshold))
        for _ in range(TRIALS)
    ]
    open_left, open_right, _ = timed[0][0]
    some = slice(0, MOST_ROWS)
    pairs = open_left[some].astype(np.int64), open_right[some].astype(np.int64)
    exact = [
        seconds(engine, lambda: pair_cosines(left.exact(), pairs[0], right.exact(), pairs[1]))[1]
        for _ in range(TRIALS)
    ]
    share_of_open = len(open_left) / max(len(pairs[0]), 1)
    return min(spent for _, spent in timed) + min(exact) * share_of_open


def _is_large(left: Floats, right: Floats) -> bool:
    return len(left) * right.size >= LARGE_WORK


def _sound(offered: list[Products], dimensions: int) -> list[Products]:
    """Single precision is, by IEEE 754; the others are tried once a process."""
    for engine in offered:
        tried = (engine.name, dimensions)
        if tried not in _SOUND:
            _SOUND[tried] = type(engine) is Products or is_sound(engine, dimensions)
    found = [engine for engine in offered if _SOUND[engine.name, dimensions]]
    if not found:
        raise EngineError(f"{offered[0].name} products are further off than proved on this machine")
    return found


_SOUND: dict[tuple[str, int], bool] = {}
_PAIR_SECONDS: dict[tuple[object, ...], dict[str, float]] = {}
