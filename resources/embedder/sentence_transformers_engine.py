"""Sentence vectors in process, from any sentence-transformers model.

Takes texts, gives unit-normalised float32 vectors. The model is a folder, or a hub name
whose files ``hf download`` has put into the hub's local cache; nothing is downloaded here.
Weights are read from safetensors only, and no code of a model is run.

Left out deliberately: stored results (``resources.store.stored_engine``), several devices, and the
bundled MiniLM (``resources.embedder.minilm``).
"""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from decomposerl.errors import ConfigError, EngineError, EngineMissing
from resources.hub.download import cached_model
from resources.hub.fingerprint import digest_of

INSTALL = "pip install 'decomposerl[embed]'"


@dataclass(frozen=True)
class SentenceEmbedder:
    """An ``Embedder`` on sentence-transformers; the model is loaded at the first text.

    ``revision`` is a branch or commit of a hub model. ``device`` is torch's name (``cpu``,
    ``cuda:0``). ``prompt`` stands before every text; empty means the model's own default.
    """

    model: str
    revision: str = "main"
    device: str = "cpu"
    dtype: Literal["float32", "bfloat16", "float16"] = "float32"
    batch_size: int = 64
    prompt: str = ""

    def __post_init__(self) -> None:
        """Refuse settings that cannot work."""
        if self.batch_size < 1:
            raise ConfigError("batch_size of the sentence embedder is at least 1")

    @cached_property
    def engine(self) -> str:
        """Model with its commit (or a folder's content hash), number type and prompt.

        Raises:
            EngineMissing: the model is not on this machine (message gives the command).
        """
        folder = self._folder
        if Path(self.model).is_dir():
            name = f"{folder.name}-{digest_of(folder)}"
        else:
            name = f"{self.model}@{folder.name[:12]}"
        said = hashlib.sha256(self.prompt.encode()).hexdigest()[:8]
        return f"sentence:{name}:{self.dtype}" + (f":prompt-{said}" if self.prompt else "")

    def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Unit vectors, shape (n, d); texts are cut at the model's own length.

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
        cached = cached_model(self.model, self.revision) if self.model.count("/") < 2 else None  # noqa: PLR2004 - owner/name
        if cached is None:
            raise EngineMissing(
                f"the model '{self.model}' is neither a folder nor in the hub's local cache: "
                f"hf download {self.model} --revision {self.revision}"
            )
        return cached

    @cached_property
    def _model(self) -> Any:  # noqa: ANN401 - sentence-transformers carries no types
        if find_spec("sentence_transformers") is None or find_spec("torch") is None:
            raise EngineMissing(f"sentence-transformers is not installed: {INSTALL}")
        import torch
        from sentence_transformers import SentenceTransformer
        from transformers.utils import logging

        # A bar for loading a model only hides the real ones.
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
                f"the folder {self._folder} holds no model that can be read: {error}"
            ) from error
