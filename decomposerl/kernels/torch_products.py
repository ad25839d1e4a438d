"""The product engines that need torch: int8, bfloat16, and bfloat16 on a device."""

import math
import threading
import time
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


class Int8Products(Products):
    """Integers in -127..127 with a scale per row, summed exactly in 32 bits (torch)."""

    name = "int8"

    def __init__(self, share: float = 1.0) -> None:
        """Torch is loaded here, so that a team can cap its threads."""
        super().__init__(share)
        _torch()

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


class Bf16Products(Products):
    """bfloat16 rows, summed in single precision, returned in bfloat16 (torch)."""

    name = "bf16"

    def __init__(self, share: float = 1.0) -> None:
        """Torch is loaded here, so that a team can cap its threads."""
        super().__init__(share)
        _torch()

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
    """bfloat16 products on a torch device: the scan runs there, only hits are copied back."""

    block, tile = 4_096, 16_384
    clock = staticmethod(time.perf_counter)  # the work is not this thread's

    def __init__(self, device: str, share: float = 1.0) -> None:
        """Check that the device works.

        Raises:
            EngineMissing: torch is not installed.
            EngineError: torch does not find the device.
        """
        super().__init__(share)
        torch = _torch()
        try:
            torch.zeros(1, device=device).cpu()
        except (RuntimeError, AssertionError, NotImplementedError) as error:
            reason = str(error).splitlines()[0]
            raise EngineError(f"device '{device}' cannot be used: {reason}") from error
        self._device = torch.device(device)
        self._one_at_a_time = threading.Lock()
        self.name = f"bf16_{self._device.type}"

    def of_share(self, share: float) -> "DeviceProducts":
        """The same device, with another share of the numbers."""
        return type(self)(str(self._device), share)

    def encode(self, vectors: Floats, squares: Doubles, into: Encoded) -> None:
        """Round on the host, copy to the device."""
        host = np.empty(into.codes.shape, np.uint16)
        super().encode(vectors, squares, Encoded(host, into.scales, into.errors))
        into.codes.copy_(_bf16(host))

    def rounding(self, used: int) -> float:
        """As on a processor, times four: the sums of a device may truncate."""
        return 1.02 * (BRAIN + 4 * used * SINGLE)

    def multiply(self, left: Codes, right: Codes) -> Codes:
        """Products of all pairs of codes, single precision, on the device."""
        torch = _torch()
        if self._device.type == "cuda":  # sums must not be rounded to bfloat16
            return torch.mm(left, right.T, out_dtype=torch.float32)
        return torch.mm(left, right.T).float()

    def near(self, left: Encoded, right: Encoded, threshold: float) -> Hits:
        """See ``Products.near``."""
        torch = _torch()
        allowance = self.rounding(left.codes.shape[1]) + GUARD
        bounds = ((threshold - allowance - left.errors) / left.scales).astype(np.float32)
        # One at a time, because a tile on a device is large: its memory is needed only once.
        with self._one_at_a_time:
            scales, errors, least = (
                torch.from_numpy(numbers).to(self._device)
                for numbers in (right.scales, right.errors / left.scales.min(initial=1), bounds)
            )
            most = self.multiply(left.codes, right.codes).mul_(scales).add_(errors)
            rows, columns = torch.nonzero(most >= least[:, None], as_tuple=True)
            values = most[rows, columns].cpu().numpy().astype(np.float64)
            cells = rows.int().cpu().numpy(), columns.int().cpu().numpy()
        # The errors were divided by the smallest scale. For a row with a larger one they are too
        # large, which only leaves more pairs to the exact cosines.
        bound = values * left.scales[cells[0]] + left.errors[cells[0]] + allowance
        return *cells, np.minimum(bound, 1.0)

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
