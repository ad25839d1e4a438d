"""What this machine can do: rates of matrix products and of reading memory, peak memory.

Takes nothing, gives numbers measured now with every core. They are the limits that the
table holds the kernels against.

Left out deliberately: names of processors as a basis of any decision.
"""

import os
import platform
import resource
import sys
from collections.abc import Callable
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
PAYING = 1.5  # how much faster than f32 a product in fewer bits is where its units exist


@dataclass(frozen=True, slots=True)
class Product:
    """One matrix product a call, of so many operations."""

    run: Callable[[], object]
    flop: float


@dataclass(frozen=True, slots=True)
class Rates:
    """Operations a second by kind of product (f32 always, others where torch has them)."""

    products: dict[str, float]
    read_bytes: float

    @property
    def best(self) -> float:
        """The fastest product's rate."""
        return max(self.products.values())

    @property
    def fewer_bits_pay(self) -> bool:
        """Whether the machine has units for products in fewer bits than f32: its class."""
        return self.best >= PAYING * self.products["f32"]


@cache
def products() -> dict[str, Product]:
    """Matrix products by kind, with their inputs made.

    ``ROWS`` x ``COLUMNS`` x ``INNER``, or as many columns as take about ``MOST_PRODUCT_S``.
    """
    return {kind: sized(product) for kind, product in _kinds().items()}


def sized(product: Callable[[int], object]) -> Product:
    """As many columns as the rate of a small product allows; the first call is not counted."""
    product(FEW_COLUMNS)
    column_s = timed(partial(product, FEW_COLUMNS))[0] / FEW_COLUMNS
    columns = min(max(int(MOST_PRODUCT_S / column_s), FEW_COLUMNS), COLUMNS)
    return Product(partial(product, columns), FLOP * columns / COLUMNS)


def _kinds() -> dict[str, Callable[[int], object]]:
    """A product with the first columns of the right side, by kind."""
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
    """Median of three calls each, after one that is not counted."""
    found = {}
    for kind, product in products().items():
        product.run()
        found[kind] = product.flop / median(timed(product.run)[0] for _ in range(3))
    block = np.ones(READ_BYTES // 8)
    read = median(timed(block.sum)[0] for _ in range(3))
    return Rates(found, READ_BYTES / read)


def peak_mb() -> float:
    """Most memory this process ever held, in MB of 10^6 bytes.

    The kernel's own count of this program; ``ru_maxrss`` also remembers the parent that
    started it.
    """
    status = Path("/proc/self/status")
    if status.is_file():
        line = next(row for row in status.read_text().splitlines() if row.startswith("VmHWM"))
        return int(line.split()[1]) * 1024 / 1e6
    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit / 1e6


def description() -> str:
    """Cores, processor, memory, Python and libraries in one paragraph."""
    info = Path("/proc/cpuinfo")
    rows = info.read_text().splitlines() if info.is_file() else []
    facts = {row.split(":")[0].strip(): row.split(":")[1].strip() for row in rows if ":" in row}
    wanted = ("avx2", "avx512f", "avx512_vnni", "avx512_bf16", "amx_bf16", "amx_int8")
    units = [unit for unit in wanted if unit in facts.get("flags", "").split()]
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    pools = sorted({f"{pool['internal_api']} {pool['version']}" for pool in threadpool_info()})
    emulated = ", kept to AVX2: an emulation of an older one" if is_emulated() else ""
    return (
        f"{os.cpu_count()} cores ({facts.get('model name', platform.machine())}; "
        f"{', '.join(units) or 'no vector units listed'}{emulated}), {memory:.0f} GiB, "
        f"Python {platform.python_version()}, NumPy {np.__version__}, {', '.join(pools)}"
    )
