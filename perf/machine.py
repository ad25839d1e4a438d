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
from functools import cache
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
from threadpoolctl import threadpool_info

from perf.timing import timed

ROWS, COLUMNS, INNER = 1_024, 8_192, 3_072
FLOP = 2.0 * ROWS * COLUMNS * INNER
READ_BYTES = 400_000_000
Product = Callable[[], object]


@dataclass(frozen=True, slots=True)
class Rates:
    """Operations a second by kind of product (f32 always, others where torch has them)."""

    products: dict[str, float]
    read_bytes: float

    @property
    def best(self) -> float:
        """The fastest product's rate."""
        return max(self.products.values())


@cache
def products() -> dict[str, Product]:
    """One matrix product of ``FLOP`` operations a call, by kind, with its inputs made."""
    rng = np.random.default_rng(0)
    left = rng.standard_normal((ROWS, INNER), dtype=np.float32)
    right = rng.standard_normal((COLUMNS, INNER), dtype=np.float32)
    out = np.empty((ROWS, COLUMNS), np.float32)
    kinds: dict[str, Product] = {"f32": lambda: np.matmul(left, right.T, out=out)}
    try:
        import torch
    except ImportError:
        return kinds
    torch.set_num_threads(os.cpu_count() or 1)
    halves = [torch.from_numpy(part).to(torch.bfloat16) for part in (left, right)]
    bytes_ = [
        torch.from_numpy(np.clip(part * 32, -127, 127)).to(torch.int8) for part in (left, right)
    ]
    kinds["bf16"] = lambda: halves[0] @ halves[1].T
    int_mm: Any = getattr(torch, "_int_mm", None)
    if int_mm is not None:
        kinds["int8"] = lambda: int_mm(bytes_[0], bytes_[1].T)
    return kinds


@cache
def rates() -> Rates:
    """Median of three calls each, after one that is not counted."""
    found = {}
    for kind, product in products().items():
        product()
        found[kind] = FLOP / median(timed(product)[0] for _ in range(3))
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
    return (
        f"{os.cpu_count()} cores ({facts.get('model name', platform.machine())}; "
        f"{', '.join(units) or 'no vector units listed'}), {memory:.0f} GiB, "
        f"Python {platform.python_version()}, NumPy {np.__version__}, {', '.join(pools)}"
    )
