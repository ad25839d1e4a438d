"""Length of a text in the tokens of a model, by the model's own tokenizer file.

Takes texts, gives whole numbers; special tokens that a chat template would add do not
count (paper, "Rule-Based Filtering"). Only ``tokenizer.json`` is read, so a model's
weights need not be there.

Left out deliberately: tokenizers without that file, and Python tokenizers.
"""

import json
from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from decomposerl.errors import EngineError, EngineMissing
from resources.hub.download import cached_model
from resources.tokens.counting import byte_level_bpe_bounds

Ints = NDArray[np.int64]
_BATCH = 1_024
_NFC_GROWTH = 3  # the most times that NFC can grow a text in UTF-8 (Unicode, annex 15)


class ModelTokens:
    """A ``TokenCounter`` over the tokenizer of one model."""

    def __init__(self, model: str, revision: str = "main") -> None:
        """``model`` is a folder, or a hub name that lies in the hub's local cache."""
        self._model, self._revision = model, revision

    @property
    def unit(self) -> str:
        """The name recorded as ``token_unit``: the model, and the revision of a hub's."""
        if Path(self._model).is_dir():
            return f"tokens:{Path(self._model).name}"
        return f"tokens:{self._model}@{self._revision}"

    def count(self, texts: Sequence[str]) -> Ints:
        """Number of tokens of each text, shape (n,).

        Raises:
            EngineMissing: ``tokenizers`` or the model's file is not there; says the command.
        """
        found = np.empty(len(texts), np.int64)
        for start in range(0, len(texts), _BATCH):
            batch = list(texts[start : start + _BATCH])
            coded = self._tokenizer.encode_batch_fast(batch, add_special_tokens=False)
            found[start : start + len(batch)] = [len(one) for one in coded]
        return found

    def bounds(self, words: Ints, utf8_bytes: Ints) -> tuple[Ints, Ints]:
        """Bounds of byte-level BPE where the file says it is one, else none."""
        growth = self._growth
        if growth is None:
            return np.zeros_like(words), np.full_like(words, np.iinfo(np.int64).max)
        least, most = byte_level_bpe_bounds(words, utf8_bytes)
        return least, growth * most

    @cached_property
    def _file(self) -> Path:
        found = tokenizer_file(self._model, self._revision)
        if found is None:
            raise EngineMissing(
                f"the tokenizer of '{self._model}' is not on this machine; get it with: "
                f"hf download {self._model} tokenizer.json --revision {self._revision}"
            )
        return found

    @cached_property
    def _tokenizer(self) -> Any:  # noqa: ANN401 - the library has no types
        try:
            from tokenizers import Tokenizer
        except ModuleNotFoundError as error:
            raise EngineMissing(
                "counting a model's tokens needs: pip install tokenizers"
            ) from error
        try:
            tokenizer = Tokenizer.from_file(str(self._file))
        except Exception as error:  # the library raises nothing narrower
            raise EngineError(f"{self._file} is no tokenizer: {error}") from error
        tokenizer.no_truncation()  # a file may carry the limit it was trained with
        tokenizer.no_padding()
        return tokenizer

    @cached_property
    def _growth(self) -> int | None:
        """How often its bytes a text may have tokens; None where nothing is known."""
        said = json.loads(self._file.read_text("utf-8"))
        normaliser = (said.get("normalizer") or {"type": None})["type"]
        if said["model"]["type"] != "BPE" or normaliser not in {None, "NFC"}:
            return None
        return (_NFC_GROWTH if normaliser else 1) if _is_byte_level(said) else None


def tokenizer_file(model: str, revision: str = "main") -> Path | None:
    """The ``tokenizer.json`` of a folder, or of a hub name in the local cache, if it is there.

    Raises:
        EngineMissing: ``huggingface_hub`` is not installed (message gives the command).
    """
    folder = Path(model)
    try:
        found = folder if folder.is_dir() else cached_model(model, revision)
    except ValueError:  # no name that the hub could have
        return None
    file = None if found is None else found / "tokenizer.json"
    return file if file is not None and file.is_file() else None


def _is_byte_level(said: dict[str, Any]) -> bool:
    """Whether pre-tokens are bytes and nothing is put before a text."""
    cutter = said.get("pre_tokenizer") or {"type": None}
    steps = cutter["pretokenizers"] if cutter["type"] == "Sequence" else [cutter]
    bytes_of = [step for step in steps if step["type"] == "ByteLevel"]
    return bool(bytes_of) and not any(step.get("add_prefix_space") for step in bytes_of)
