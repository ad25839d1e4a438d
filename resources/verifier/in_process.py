"""A verifier's model and tokenizer of transformers in this process, each read at its first use."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from decomposerl.endpoint import NumberType
from decomposerl.errors import EngineMissing
from decomposerl.extras import require
from resources.hub.access import cached_model
from resources.hub.locks import MAIN, Pin


def model_folder(model: str, revision: str, pin: Pin, path: str = "") -> Path:
    """The folder ``path``, or ``model`` where that is one, else the hub's cached model.

    ``pin`` gives the commit for ``revision``. Nothing is downloaded.

    Raises:
        EngineMissing: the model is not there; the message has the command that gets it.
    """
    folder: Path | None = Path(path or model)
    if not path and not Path(model).is_dir():
        revision = pin(model, revision) or MAIN
        try:
            folder = cached_model(model, revision)
        except ValueError as error:
            raise EngineMissing(f"{model} is neither a folder nor a hub model") from error
    if folder is None or not (folder / "config.json").is_file():
        raise EngineMissing(
            f"the model {model} is not in {path or 'the local cache of the hub'}: "
            f"hf download {model} --revision {revision}" + (f" --local-dir {path}" if path else "")
        )
    return folder


def batches(lengths: Sequence[int], most_tokens: int) -> Iterator[list[int]]:
    """Rows of similar length, at most ``most_tokens`` ids with padding; a longer row comes alone.

    The longest come first: what does not fit into memory fails at the start.
    """
    order = sorted(range(len(lengths)), key=lambda row: -lengths[row])
    while order:
        wide = max(most_tokens // max(lengths[order[0]], 1), 1)
        yield order[:wide]
        order = order[wide:]


@dataclass(frozen=True)
class InProcess:
    """A model with its tokenizer. ``kind`` is the class of transformers that loads it."""

    folder: Path
    kind: str
    dtype: NumberType
    device: str

    def ids(self, texts: Sequence[str]) -> list[list[int]]:
        """The token ids of each text, without the special ones."""
        if not texts:
            return []
        encoded = self.tokenizer(list(texts), add_special_tokens=False, verbose=False)
        return [list(ids) for ids in encoded["input_ids"]]

    def sizes(self, texts: Sequence[str]) -> list[int]:
        """The number of those ids."""
        return [len(ids) for ids in self.ids(texts)]

    def padded(self, rows: Sequence[Mapping[str, list[int]]]) -> Any:  # noqa: ANN401 - tensors
        """The tokenizer's fields of some rows as tensors on the device, with their mask."""
        columns = {name: [row[name] for row in rows] for name in rows[0]}
        return self.tokenizer.pad(columns, return_tensors="pt").to(self.device)

    @cached_property
    def tokenizer(self) -> Any:  # noqa: ANN401 - one of many classes without types
        """The tokenizer; a decoder's may have no padding, and then pads with its end."""
        require("transformers", "torch")
        from transformers import AutoTokenizer

        tokenizer = AutoTokenizer.from_pretrained(self.folder, local_files_only=True)
        if tokenizer.pad_token is None:
            tokenizer.pad_token = tokenizer.eos_token
        return tokenizer

    @cached_property
    def model(self) -> Any:  # noqa: ANN401 - one of many classes without types
        """The model on its device.

        Raises:
            EngineMissing: torch or transformers is not installed, or torch finds no such device.
        """
        require("transformers", "torch")
        import torch
        import transformers
        from transformers.utils import logging

        if self.device.startswith("cuda") and not torch.cuda.is_available():
            raise EngineMissing(f"torch finds no GPU for device '{self.device}': use device 'cpu'")
        # A progress bar for loading weights would hide the real ones.
        logging.disable_progress_bar()  # type: ignore[no-untyped-call]
        model = getattr(transformers, self.kind).from_pretrained(
            self.folder, local_files_only=True, dtype=getattr(torch, self.dtype)
        )
        if model.config.pad_token_id is None:  # a decoder finds the end of a row by it
            model.config.pad_token_id = self.tokenizer.pad_token_id
        return model.eval().to(self.device)
