"""Sentence embeddings in this process, by any sentence-transformers model.

Gives unit-normalised float32 vectors. The model is a folder, or a hub name in the hub's local cache
(``hf download``); nothing is downloaded here. Only safetensors are read, and no model code runs.
"""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from decomposerl.errors import ConfigError, EngineError, EngineMissing
from decomposerl.extras import require
from resources.hub.locks import Pin, as_named, cached_model, digest_of


@dataclass(frozen=True)
class SentenceEmbedder:
    """An ``Embedder`` on sentence-transformers; the model is loaded at the first text.

    ``revision`` is a branch or commit of a hub model. ``device`` is a torch device (``cpu``,
    ``cuda:0``). ``prompt`` precedes every text (empty: the model's default). ``pin`` gives the
    commit that is loaded for ``revision``.
    """

    model: str
    revision: str = "main"
    device: str = "cpu"
    dtype: Literal["float32", "bfloat16", "float16"] = "float32"
    batch_size: int = 64
    prompt: str = ""
    pin: Pin = as_named

    def __post_init__(self) -> None:
        """Reject invalid settings."""
        if self.batch_size < 1:
            raise ConfigError("batch_size of the sentence embedder must be at least 1")

    @cached_property
    def engine(self) -> str:
        """Model with its commit (or a folder's content hash), number type and prompt.

        Raises:
            EngineMissing: the model is not on this machine (the message has the command).
        """
        folder = self._folder
        if Path(self.model).is_dir():
            name = f"{folder.name}-{digest_of(folder)}"
        else:
            name = f"{self.model}@{folder.name[:12]}"
        prompt = hashlib.sha256(self.prompt.encode()).hexdigest()[:8]
        return f"sentence:{name}:{self.dtype}" + (f":prompt-{prompt}" if self.prompt else "")

    def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Unit vectors, shape (n, d); texts are truncated to the model's limit.

        Raises:
            EngineMissing: sentence-transformers, torch or the model is not installed.
            EngineError: torch cannot use the device, or a vector is not finite.
        """
        if not texts:
            return np.empty((0, 0), dtype=np.float32)
        encoded = self._model.encode(
            list(texts),
            batch_size=self.batch_size,
            prompt=self.prompt or None,
            convert_to_tensor=True,
            show_progress_bar=False,
        )
        raw = encoded.float().cpu().numpy()
        lengths = np.linalg.norm(raw, axis=1, keepdims=True)
        if not (np.isfinite(lengths).all() and (lengths > 0).all()):
            raise EngineError(f"'{self.model}' gives vectors that are zero or not finite")
        return np.asarray(raw / lengths, dtype=np.float32)

    @cached_property
    def _folder(self) -> Path:
        folder = Path(self.model)
        if folder.is_dir():
            return folder
        revision, cached = self.revision, None
        if self.model.count("/") < 2:  # noqa: PLR2004 - owner/name
            revision = self.pin(self.model, self.revision)
            cached = cached_model(self.model, revision)
        if cached is None:
            raise EngineMissing(
                f"the model '{self.model}' is neither a folder nor in the hub's local cache: "
                f"hf download {self.model} --revision {revision}"
            )
        return cached

    @cached_property
    def _model(self) -> Any:  # noqa: ANN401 - sentence-transformers carries no types
        require("sentence_transformers", "torch")
        import torch
        from sentence_transformers import SentenceTransformer
        from transformers.utils import logging

        # A progress bar for loading would hide the run's own.
        logging.disable_progress_bar()  # type: ignore[no-untyped-call]
        try:
            return SentenceTransformer(
                str(self._folder),
                device=self.device,
                local_files_only=True,
                model_kwargs={"dtype": getattr(torch, self.dtype), "use_safetensors": True},
            )
        except (RuntimeError, AssertionError) as error:
            raise EngineError(
                f"torch cannot load '{self.model}' on device '{self.device}': {error}"
            ) from error
        except (OSError, ValueError) as error:
            raise EngineMissing(
                f"the folder {self._folder} has no readable model: {error}"
            ) from error
