"""A device of torch on the processor that refuses what a CUDA tensor refuses, and counts.

Its tensors have a device of their own, so torch itself refuses ``numpy`` and ``__array__``. An
operation runs on the processor if all its tensors are on the device; a copy and an index may
come from the host, as on CUDA. What is not listed does not exist. Other libraries of a process
would use the device: so this is a program, which prints how often each operation ran.
"""

import json
from collections import Counter
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch.utils.backend_registration import _setup_privateuseone_for_python_backend

from decomposerl.kernels import cosine_parts
from decomposerl.kernels.cosine_filter import best_cross_cosine, cosine_pairs, keep_first_cosine
from decomposerl.ports import Tasks
from fakes import MemoryArrays, ShuffledMapper
from perf.inputs import clustered_vectors

STAND_IN = "standin"
SEEN: Counter[str] = Counter()
_OPERATIONS = "view view.dtype slice.Tensor numpy_T zero_ mm ge.Scalar nonzero index.Tensor stack"


class DeviceTensor(torch.Tensor):
    """A tensor whose numbers are out of reach for the host."""

    numbers: torch.Tensor
    __torch_function__ = torch._C._disabled_torch_function_impl


def _on_device(numbers: torch.Tensor) -> torch.Tensor:
    tensor = torch._C._acc.create_empty_tensor(numbers.shape, numbers.dtype)
    tensor.__class__ = DeviceTensor
    tensor.numbers = numbers
    return tensor


def _read(value: object, *, from_host: bool = False) -> Any:  # noqa: ANN401 - an argument of torch
    if isinstance(value, list | tuple):
        return type(value)(_read(part, from_host=from_host) for part in value)
    if isinstance(value, torch.Tensor) and not (from_host or isinstance(value, DeviceTensor)):
        raise RuntimeError("Expected all tensors to be on the same device")
    return getattr(value, "numbers", value)


def _kernel(name: str) -> Callable[..., Any]:
    packet, _, overload = name.partition(".")
    operation = getattr(getattr(torch.ops.aten, packet), overload or "default")

    def run(*args: object, **settings: object) -> object:
        SEEN[name] += 1
        result = operation(*_read(args, from_host=packet == "index"), **settings)
        return args[0] if packet.endswith("_") else _on_device(result)

    return run


def _copy_from(source: torch.Tensor, target: torch.Tensor, _: object = None) -> torch.Tensor:
    where = "copy" if isinstance(source, DeviceTensor) else "to device"
    SEEN.update({where: 1, f"bytes {where}": source.nbytes})
    _read(target).copy_(_read(source, from_host=True))
    return target


def _to_copy(source: torch.Tensor, **how: Any) -> Any:  # noqa: ANN401 - as torch's
    to_host = how.get("device") == torch.device("cpu")
    where = "to host" if to_host else "copy" if isinstance(source, DeviceTensor) else "to device"
    numbers = _read(source, from_host=True).to(how.get("dtype") or source.dtype, copy=True)
    SEEN.update({where: 1, f"bytes {where}": numbers.nbytes})
    return numbers if to_host else _on_device(numbers)


def _mm_wide(left: torch.Tensor, right: torch.Tensor, out_dtype: torch.dtype) -> torch.Tensor:
    SEEN["mm"] += 1
    return _on_device(torch.mm(_read(left).to(out_dtype), _read(right).to(out_dtype)))


def searches(device: str) -> list[np.ndarray]:
    """What every search finds: both sides of a block, several blocks, copies and ties."""
    vectors, others = clustered_vectors(9_000, 48), clustered_vectors(900, 48)
    vectors[8_500:], others[::7] = vectors[100:600], vectors[:1]
    tasks = Tasks(ShuffledMapper(1), MemoryArrays())
    halves = [vectors[:1_500], vectors[1_500:]]
    parts = cosine_parts.VectorBlocks.write(tasks.arrays, "vectors", halves)
    matches = [
        keep_first_cosine(vectors, 0.7, device=device, threads=2),
        cosine_parts.keep_first_in_blocks(parts, 0.7, tasks, device=device),
        best_cross_cosine(others, vectors, 0.6, device=device, threads=2),
        cosine_parts.best_cross_in_blocks([others], parts, 0.6, tasks, device=device),
    ]
    pairs = cosine_pairs(vectors, 0.8, device=device, threads=2)
    found = [column for match in matches for column in (match.matched, match.similarity)]
    return [*found, pairs.earlier, pairs.later, pairs.similarity]


if __name__ == "__main__":
    _setup_privateuseone_for_python_backend(STAND_IN)
    library = torch.library.Library("aten", "IMPL")
    kernels = {name: _kernel(name) for name in _OPERATIONS.split()} | {
        "empty.memory_format": lambda size, dtype, **_: _on_device(torch.empty(size, dtype=dtype)),
        "_copy_from": _copy_from,
        "_to_copy": _to_copy,
        "mm.dtype": _mm_wide,
    }
    for key in ("PrivateUse1", "AutogradPrivateUse1"):  # autograd would copy a view's tensor
        for name, run in kernels.items():
            library.impl(name, run, key)
    for expected, actual in zip(searches("cpu"), searches(STAND_IN), strict=True):
        np.testing.assert_array_equal(expected, actual)
    print(json.dumps(SEEN))  # noqa: T201 - for the test
