"""The product engines that need torch: int8, bfloat16, and bfloat16 on a device."""

import math
import threading
from typing import Any

import numpy as np
from numpy.typing import NDArray

from decomposerl.errors import EngineError
from decomposerl.extras import require
from decomposerl.kernels.products import (
    GUARD,
    SINGLE,
    Codes,
    Doubles,
    Encoded,
    Floats,
    Hits,
    Products,
)

Library = Any  # torch's own types would have to be imported
BRAIN = 2.0**-8  # half the distance of neighbouring bfloat16 numbers, relative
INT32_LIMIT = 2**31
IN_FLIGHT = 2  # tiles at a time: one is multiplied while the hits of another are copied


class _TorchProducts(Products):
    def __init__(self, share: float = 1.0) -> None:
        """Torch is loaded here, so that a team can cap its threads."""
        super().__init__(share)
        _torch()


class Int8Products(_TorchProducts):
    """Integers in -127..127 with a scale per row, summed exactly in 32 bits (torch)."""

    name = "int8"

    def encode(self, vectors: Floats, squares: Doubles, into: Encoded) -> None:
        """Round each row to 255 steps of its largest number."""
        from decomposerl.kernels.cosine_loops import encode_int8

        encode_int8((vectors, squares), into.codes, into.scales, into.errors)

    def rounding(self, used: int) -> float:
        """Zero: integer sums are exact while they fit into 32 bits, else infinite."""
        return 0.0 if used * 127**2 < INT32_LIMIT else math.inf

    def multiply(self, left: Codes, right: Codes) -> NDArray[Any]:
        """Integer products of all pairs of codes."""
        torch = _torch()
        out = self.space("products", (len(left), len(right)), np.int32)
        multiply: Any = torch._int_mm  # noqa: SLF001 - torch has no other integer product
        multiply(torch.from_numpy(left), torch.from_numpy(right).T, out=torch.from_numpy(out))
        return out

    def _codes(self, vectors: Floats, used: int) -> Codes:
        return np.empty((len(vectors), used), np.int8)


class Bf16Products(_TorchProducts):
    """bfloat16 rows, summed in single precision, returned in bfloat16 (torch)."""

    name = "bf16"

    def encode(self, vectors: Floats, squares: Doubles, into: Encoded) -> None:
        """Round each number to eight binary digits."""
        from decomposerl.kernels.cosine_loops import encode_bf16

        encode_bf16((vectors, squares), into.codes, into.scales, into.errors)

    def rounding(self, used: int) -> float:
        """Rounding of the sum to bfloat16, and of the additions."""
        return 1.02 * (BRAIN + used * SINGLE)

    def multiply(self, left: Codes, right: Codes) -> NDArray[Any]:
        """Products of all pairs of codes, widened to single precision."""
        torch = _torch()
        shape = (len(left), len(right))
        narrow = torch.from_numpy(self.space("narrow", shape, np.int16)).view(torch.bfloat16)
        torch.mm(_bf16(left), _bf16(right).T, out=narrow)
        out = self.space("products", shape, np.float32)
        torch.from_numpy(out).copy_(narrow)
        return out

    def _codes(self, vectors: Floats, used: int) -> Codes:
        return np.empty((len(vectors), used), np.uint16)


class DeviceProducts(Bf16Products):
    """bfloat16 products on a torch device: only hits come back, in one copy per product.

    Rows are rounded on the host by all workers, which halves the bytes of their one copy to the
    device. Exact cosines stay on the host, so the device holds 2 bytes per number, twice in a
    keep-first search (the kept rows lie side by side), and ``IN_FLIGHT`` tiles. A tile is six
    operations with two waits: 11 bytes of traffic per cell, 8 bytes copied per hit. A million
    rows that are all kept are 2,457 tiles; 100,000 are 79.
    """

    block, tile, parts = 4_096, 65_536, 1
    on_device = True

    def __init__(self, device: str) -> None:
        """Check that the device works.

        Raises:
            EngineMissing: torch is not installed.
            EngineError: torch does not find the device, or it has no such product.
        """
        super().__init__()
        torch = _torch()
        try:
            self._device = torch.device(device)
            tried = torch.zeros((16, 16), dtype=torch.bfloat16, device=self._device)
            torch.mm(tried, tried).cpu()
        except (RuntimeError, AssertionError) as error:
            reason = str(error).splitlines()[0]
            raise EngineError(f"device '{device}' cannot be used: {reason}") from error
        self._multiplies_wide = False
        try:
            torch.mm(tried, tried, out_dtype=torch.float32)
        except (RuntimeError, TypeError):  # an older torch, or not a CUDA device
            self._multiplies_wide = True
        self._in_flight = threading.BoundedSemaphore(IN_FLIGHT)
        self.name = f"bf16_{self._device.type}"

    def encode(self, vectors: Floats, squares: Doubles, into: Encoded) -> None:
        """Round on the host, copy to the device without waiting."""
        torch = _torch()
        # From pinned memory, which torch keeps for the next slice once this copy has ended.
        host = torch.empty(
            into.codes.shape, dtype=torch.int16, pin_memory=self._device.type == "cuda"
        )
        codes = host.numpy().view(np.uint16)
        super().encode(vectors, squares, Encoded(codes, into.scales, into.errors))
        into.codes.copy_(host.view(torch.bfloat16), non_blocking=True)

    def rounding(self, used: int) -> float:
        """That of single-precision sums, times four: those of a device may truncate."""
        return 4 * super(Bf16Products, self).rounding(used)

    def multiply(self, left: Codes, right: Codes) -> Codes:
        """Products of all pairs of codes, single precision, on the device."""
        torch = _torch()
        if self._multiplies_wide:  # sums must not be rounded to bfloat16
            return torch.mm(left.float(), right.float().T)
        return torch.mm(left, right.T, out_dtype=torch.float32)

    def on_host(self, products: Codes) -> NDArray[Any]:
        """One copy from the device; waits for what was launched before."""
        copied: NDArray[Any] = products.cpu().numpy()
        return copied

    def near(self, left: Encoded, right: Encoded, threshold: float) -> Hits:
        """See ``Products.near``."""
        # One bound for all cells: scales of unit rows are 1 up to rounding, and the errors of
        # bfloat16 rows nearly equal, so it leaves few more pairs open than a bound per row would.
        allowance = self.rounding(left.codes.shape[1]) + GUARD
        least = threshold - allowance - float(left.errors.max()) - float(right.errors.max())
        scale = np.ndarray.max if least > 0 else np.ndarray.min
        least /= float(scale(left.scales)) * float(scale(right.scales))
        with self._in_flight:
            cells, bits = self._hits(left.codes, right.codes, least)
        rows, columns = np.divmod(cells, np.int32(len(right.scales)))
        most = bits.view(np.float32).astype(np.float64)
        most *= left.scales[rows] * right.scales[columns].astype(np.float64)
        most += left.errors[rows] + right.errors[columns].astype(np.float64) + allowance
        return rows, columns, np.minimum(most, 1.0)

    def _hits(self, left: Codes, right: Codes, least: float) -> NDArray[np.int32]:
        """Flat places of the products of at least ``least``, and these products' bits."""
        torch = _torch()
        products = self.multiply(left, right).view(-1)
        places = torch.nonzero(products >= least).view(-1)
        packed = torch.stack((places.int(), products[places].view(torch.int32)))
        return self.on_host(packed)

    def _codes(self, vectors: Floats, used: int) -> Codes:
        torch = _torch()
        return torch.empty((len(vectors), used), dtype=torch.bfloat16, device=self._device)


def _torch() -> Library:
    require("torch")
    import torch

    return torch


def _bf16(codes: NDArray[np.uint16]) -> Codes:
    torch = _torch()
    return torch.from_numpy(codes.view(np.int16)).view(torch.bfloat16)
