"""Text length in a model's tokens, by its ``tokenizer.json``; the weights are not needed.

Special tokens of a chat template do not count (paper, "Rule-Based Filtering"). Tokenizers without
that file are not supported.
"""

import json
from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from decomposerl.errors import EngineError, EngineMissing
from decomposerl.extras import require
from resources.hub.locks import Pin, as_named, cached_model

Ints = NDArray[np.int64]
_BATCH = 1_024
_NFC_GROWTH = 3  # most that NFC can multiply a text's UTF-8 length (Unicode, annex 15)


class ModelTokens:
    """A ``TokenCounter`` over the tokenizer of one model."""

    def __init__(self, model: str, revision: str = "main", pin: Pin = as_named) -> None:
        """``model`` is a folder, or a hub name whose files are in the hub's local cache.

        ``pin`` gives the commit that is read for ``revision``.
        """
        self._model, self._branch, self._pin = model, revision, pin

    @property
    def unit(self) -> str:
        """The name recorded as ``token_unit``: the model, with the revision of a hub model."""
        if Path(self._model).is_dir():
            return f"tokens:{Path(self._model).name}"
        return f"tokens:{self._model}@{self._revision}"

    def count(self, texts: Sequence[str]) -> Ints:
        """Number of tokens of each text, shape (n,).

        Raises:
            EngineMissing: ``tokenizers`` or the model's file is missing; names the install command.
        """
        counts = np.empty(len(texts), np.int64)
        for start in range(0, len(texts), _BATCH):
            batch = list(texts[start : start + _BATCH])
            encodings = self._tokenizer.encode_batch_fast(batch, add_special_tokens=False)
            counts[start : start + len(batch)] = [len(encoding) for encoding in encodings]
        return counts

    def bounds(self, words: Ints, utf8_bytes: Ints) -> tuple[Ints, Ints]:
        """Bounds of byte-level BPE (GPT-2, Llama 3, Qwen) if it is one, else trivial bounds.

        - words <= tokens. The text is split into pre-tokens before any merge. No pre-token has
          characters of two words, because white space is only at its ends or is all of it. So
          each word has its own pre-token, which gives at least one token.
        - tokens <= bytes. The tokens of a text partition its bytes into non-empty parts. A
          normaliser that grows the text breaks this; NFC grows only a few rare letters.

        Not valid for SentencePiece models, whose tokens may span words, and for texts with the
        control characters U+001C to U+001F, which are white space in Python alone.
        """
        growth = self._growth
        if growth is None:
            return np.zeros_like(words), np.full_like(words, np.iinfo(np.int64).max)
        return words, growth * utf8_bytes

    @cached_property
    def _revision(self) -> str:
        return self._pin(self._model, self._branch)

    @cached_property
    def _file(self) -> Path:
        file = tokenizer_file(self._model, self._revision)
        if file is None:
            raise EngineMissing(
                f"the tokenizer of '{self._model}' is not on this machine; get it with: "
                f"hf download {self._model} tokenizer.json --revision {self._revision}"
            )
        return file

    @cached_property
    def _tokenizer(self) -> Any:  # noqa: ANN401 - the library has no types
        require("tokenizers")
        from tokenizers import Tokenizer

        try:
            tokenizer = Tokenizer.from_file(str(self._file))
        except Exception as error:  # the library raises nothing narrower
            raise EngineError(f"{self._file} is not a tokenizer: {error}") from error
        tokenizer.no_truncation()  # the file may set the limit of its training
        tokenizer.no_padding()
        return tokenizer

    @cached_property
    def _growth(self) -> int | None:
        """The most tokens per byte of a text; None where unknown."""
        config = json.loads(self._file.read_text("utf-8"))
        normaliser = (config.get("normalizer") or {"type": None})["type"]
        if config["model"]["type"] != "BPE" or normaliser not in {None, "NFC"}:
            return None
        return (_NFC_GROWTH if normaliser else 1) if _is_byte_level(config) else None


def tokenizer_file(model: str, revision: str = "main") -> Path | None:
    """The ``tokenizer.json`` of a folder, or of a hub name in the local cache, if present.

    Raises:
        EngineMissing: ``huggingface_hub`` is not installed (the message has the command).
    """
    folder = Path(model)
    try:
        base = folder if folder.is_dir() else cached_model(model, revision)
    except ValueError:  # not a valid name on the hub
        return None
    file = None if base is None else base / "tokenizer.json"
    return file if file is not None and file.is_file() else None


def _is_byte_level(config: dict[str, Any]) -> bool:
    """Whether pre-tokens are bytes and no space is put before a text."""
    splitter = config.get("pre_tokenizer") or {"type": None}
    steps = splitter["pretokenizers"] if splitter["type"] == "Sequence" else [splitter]
    bytes_of = [step for step in steps if step["type"] == "ByteLevel"]
    return bool(bytes_of) and not any(step.get("add_prefix_space") for step in bytes_of)
