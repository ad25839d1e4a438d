"""A causal model's weights and tokenizer from disk, ready to be asked.

Takes a base (a folder or a hub name) and perhaps an adapter's folder, gives the model in
evaluation mode with plain greedy defaults, its tokenizer, and a name that tells its weights from
any others'.

Left out deliberately: what is asked (``resources.evaluation.local_model``), and training.
"""

import hashlib
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

from decomposerl.errors import EngineError

DataType = Literal["float32", "bfloat16", "float16"]
_ADAPTER = "adapter_model.safetensors"
_READ = frozenset({".safetensors", ".json", ".jinja", ".txt", ".model"})
_SHOWN = 12


@dataclass(frozen=True)
class Weights:
    """Which weights, where and in which numbers.

    ``base`` is a model folder (merged weights, too) or a hub name with its ``revision``;
    ``adapter`` a folder of LoRA weights on it, empty for none. ``device`` is torch's name.
    """

    base: str
    adapter: str = ""
    revision: str = "main"
    device: str = "cpu"
    dtype: DataType = "float32"

    @cached_property
    def name(self) -> str:
        """Base, adapter and number type, with the digests of files that training may rewrite.

        Raises:
            EngineError: the adapter's folder holds no adapter.
        """
        folder = Path(self.base)
        local = folder.is_dir()
        parts = [
            f"{folder.name}:{weights_digest(folder)}" if local else f"{self.base}@{self.revision}"
        ]
        if self.adapter:
            if not (Path(self.adapter) / _ADAPTER).is_file():
                raise EngineError(f"{self.adapter} holds no {_ADAPTER}; train the policy first")
            parts.append(f"adapter:{weights_digest(Path(self.adapter))}")
        return " ".join([*parts, self.dtype])

    def load(self) -> "LoadedModel":
        """Read them; takes as long as the weights are large.

        Raises:
            OSError: there is no such model.
            EngineError: another run replaced the adapter since ``name`` was read.
        """
        import torch
        import transformers
        from transformers import AutoModelForCausalLM, AutoTokenizer

        tokenizer: Any = AutoTokenizer.from_pretrained(self.base, revision=self.revision)
        model: Any = AutoModelForCausalLM.from_pretrained(
            self.base, revision=self.revision, dtype=getattr(torch, self.dtype)
        )
        ends = _ends(model.generation_config.eos_token_id, tokenizer.eos_token_id)
        padding = tokenizer.pad_token_id if tokenizer.pad_token_id is not None else ends[0]
        # Defaults that come with weights (a penalty, a temperature) are not greedy decoding.
        defaults: Any = transformers.GenerationConfig
        model.generation_config = defaults(eos_token_id=ends, pad_token_id=padding)
        if self.adapter:
            from peft import PeftModel

            with quiet_about_checkpointing():
                model = PeftModel.from_pretrained(model, self.adapter)
            if f"adapter:{weights_digest(Path(self.adapter))}" not in self.name:
                raise EngineError(f"{self.adapter} was replaced while it was read: start again")
        return LoadedModel(model.to(self.device).eval(), tokenizer, tuple(ends), padding)


@dataclass(frozen=True, slots=True)
class LoadedModel:
    """A model of transformers with its tokenizer; ``ends`` are the tokens that end a reply."""

    model: Any
    tokenizer: Any
    ends: tuple[int, ...]
    padding: int

    @property
    def context(self) -> int:
        """Most tokens of prompt and reply together."""
        return int(self.model.config.max_position_embeddings)


@contextmanager
def quiet_about_checkpointing() -> Iterator[None]:
    """For peft, which asks transformers for a flag by its former name."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", ".*is_gradient_checkpointing", FutureWarning)
        yield


def _ends(*ids: int | list[int] | None) -> list[int]:
    """All token ids, each once, in order."""
    flat = [one for each in ids if each is not None for one in _listed(each)]
    return list(dict.fromkeys(flat))


def _listed(ids: int | list[int]) -> list[int]:
    return ids if isinstance(ids, list) else [ids]


def weights_digest(folder: Path) -> str:
    """12 hex digits of SHA-256 over weights, settings, tokenizer and chat template."""
    digest = hashlib.sha256()
    for path in sorted(one for one in folder.iterdir() if one.suffix in _READ):
        with path.open("rb") as handle:
            digest.update(path.name.encode() + b"\0")
            digest.update(hashlib.file_digest(handle, "sha256").digest())
    return digest.hexdigest()[:_SHOWN]
