"""Rates of this machine (matrix products, memory reads), peak memory, and a description.

Rates are measured at the first call with all cores. They are the hardware limits that the
table compares the kernels with.
"""

import os
import platform
import resource
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
from threadpoolctl import threadpool_info

from perf.older_processor import is_emulated
from perf.timing import timed

ROWS, COLUMNS, INNER = 1_024, 8_192, 3_072
FEW_COLUMNS = 64
FLOP = 2.0 * ROWS * COLUMNS * INNER
READ_BYTES = 400_000_000
MOST_PRODUCT_S = 1.0  # a slower product is timed on fewer columns
PAYING = 1.5  # least speed-up over f32 that shows hardware support for fewer bits


@dataclass(frozen=True, slots=True)
class Product:
    """One matrix product per call, and its floating-point operations."""

    run: Callable[[], object]
    flop: float


@dataclass(frozen=True, slots=True)
class Rates:
    """Operations per second by kind of product: f32 always, others if torch supports them."""

    products: dict[str, float]
    read_bytes: float

    @property
    def best(self) -> float:
        """Rate of the fastest product."""
        return max(self.products.values())

    @property
    def fewer_bits_pay(self) -> bool:
        """Whether the machine has hardware support for products in fewer bits than f32."""
        return self.best >= PAYING * self.products["f32"]


@cache
def products() -> dict[str, Product]:
    """Matrix products by kind, with inputs allocated.

    ``ROWS`` x ``COLUMNS`` x ``INNER``, or as many columns as take about ``MOST_PRODUCT_S``.
    """
    return {kind: sized(product) for kind, product in _kinds().items()}


def sized(product: Callable[[int], object]) -> Product:
    """``product`` with as many columns as fit in ``MOST_PRODUCT_S``, after one warm-up call."""
    product(FEW_COLUMNS)
    column_s = timed(partial(product, FEW_COLUMNS))[0] / FEW_COLUMNS
    columns = min(max(int(MOST_PRODUCT_S / column_s), FEW_COLUMNS), COLUMNS)
    return Product(partial(product, columns), FLOP * columns / COLUMNS)


def _kinds() -> dict[str, Callable[[int], object]]:
    """By kind: a product with the first ``n`` columns of the right-hand side."""
    rng = np.random.default_rng(0)
    left = rng.standard_normal((ROWS, INNER), dtype=np.float32)
    right = rng.standard_normal((COLUMNS, INNER), dtype=np.float32)
    out = np.empty(ROWS * COLUMNS, np.float32)
    kinds: dict[str, Callable[[int], object]] = {
        "f32": lambda n: np.matmul(left, right[:n].T, out=out[: ROWS * n].reshape(ROWS, n))
    }
    try:
        import torch
    except ImportError:
        return kinds
    torch.set_num_threads(os.cpu_count() or 1)
    halves = [torch.from_numpy(part).to(torch.bfloat16) for part in (left, right)]
    bytes_ = [
        torch.from_numpy(np.clip(part * 32, -127, 127)).to(torch.int8) for part in (left, right)
    ]
    kinds["bf16"] = lambda n: halves[0] @ halves[1][:n].T
    int_mm: Any = getattr(torch, "_int_mm", None)
    if int_mm is not None:
        kinds["int8"] = lambda n: int_mm(bytes_[0], bytes_[1][:n].T)
    return kinds


@cache
def rates() -> Rates:
    """Median of three calls each, after one warm-up call."""
    by_kind = {}
    for kind, product in products().items():
        product.run()
        by_kind[kind] = product.flop / median(timed(product.run)[0] for _ in range(3))
    block = np.ones(READ_BYTES // 8)
    read = median(timed(block.sum)[0] for _ in range(3))
    return Rates(by_kind, READ_BYTES / read)


def peak_mb() -> float:
    """Peak memory of this process, in MB of 10^6 bytes."""
    # VmHWM counts this program alone; ru_maxrss includes the parent that forked it.
    status = Path("/proc/self/status")
    if status.is_file():
        line = next(row for row in status.read_text().splitlines() if row.startswith("VmHWM"))
        return int(line.split()[1]) * 1024 / 1e6
    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit / 1e6


def is_older() -> bool:
    """Whether this processor multiplies no bytes (no VNNI), or is kept to AVX2."""
    return is_emulated() or "avx512_vnni" not in _vector_units(_processor())


def _processor() -> dict[str, str]:
    info = Path("/proc/cpuinfo")
    rows = info.read_text().splitlines() if info.is_file() else []
    return {row.split(":")[0].strip(): row.split(":")[1].strip() for row in rows if ":" in row}


def _vector_units(facts: Mapping[str, str]) -> list[str]:
    wanted = ("avx2", "avx512f", "avx512_vnni", "avx512_bf16", "amx_bf16", "amx_int8")
    return [unit for unit in wanted if unit in facts.get("flags", "").split()]


def description() -> str:
    """Cores, processor, memory, Python and libraries in one paragraph."""
    facts = _processor()
    units = _vector_units(facts)
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    pools = sorted({f"{pool['internal_api']} {pool['version']}" for pool in threadpool_info()})
    emulated = ", restricted to AVX2 to emulate an older one" if is_emulated() else ""
    return (
        f"{os.cpu_count()} cores ({facts.get('model name', platform.machine())}; "
        f"{', '.join(units) or 'no vector units listed'}{emulated}), {memory:.0f} GiB, "
        f"Python {platform.python_version()}, NumPy {np.__version__}, {', '.join(pools)}"
    )
