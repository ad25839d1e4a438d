"""A causal model's weights and tokenizer from disk, with a name that identifies the weights.

``Weights.load`` gives the model in evaluation mode with plain greedy defaults.
"""

import hashlib
import json
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

from decomposerl.errors import EngineError, EngineMissing
from decomposerl.extras import require
from resources.hub.access import cached_model
from resources.hub.adapters import ADAPTER_FILE, adapter_problem

DataType = Literal["float32", "bfloat16", "float16"]
_ADAPTER_CONFIG = "adapter_config.json"
_BASE = "base_model_name_or_path"
_READ = frozenset({".safetensors", ".json", ".jinja", ".txt", ".model"})
_SHOWN = 12
SMALL = 10_000_000
"""Parameters below which a matrix product is too short to be shared by threads."""


@dataclass(frozen=True)
class Weights:
    """A model's weights, their device and number type.

    ``base`` is a model folder (also of merged weights) or a hub name with its ``revision``;
    ``adapter`` a folder of LoRA weights, empty for none. ``device`` is torch's name.
    """

    base: str
    adapter: str = ""
    revision: str = "main"
    device: str = "cpu"
    dtype: DataType = "float32"

    @cached_property
    def name(self) -> str:
        """Base, adapter and number type, with digests of files that training may rewrite.

        Raises:
            EngineError: the adapter's folder has no adapter.
        """
        folder = Path(self.base)
        local = folder.is_dir()
        parts = [
            f"{folder.name}:{weights_digest(folder)}" if local else f"{self.base}@{self.revision}"
        ]
        if self.adapter:
            if not (Path(self.adapter) / ADAPTER_FILE).is_file():
                raise EngineError(f"{self.adapter} holds no {ADAPTER_FILE}; train the policy first")
            parts.append(f"adapter:{weights_digest(Path(self.adapter))}")
        return " ".join([*parts, self.dtype])

    def load(self) -> "LoadedModel":
        """Read model and tokenizer.

        Raises:
            OSError: there is no such model.
            EngineMissing: torch, transformers or peft is not installed.
            EngineError: the adapter does not change the model, or not all that it should; or
                another run replaced it since ``name`` was read.
        """
        require("torch", "transformers", *(["peft"] if self.adapter else []))
        import torch
        import transformers
        from transformers import AutoModelForCausalLM, AutoTokenizer
        from transformers.utils import logging

        # A progress bar for loading would hide the run's own.
        logging.disable_progress_bar()  # type: ignore[no-untyped-call]
        tokenizer: Any = AutoTokenizer.from_pretrained(self.base, revision=self.revision)
        model: Any = AutoModelForCausalLM.from_pretrained(
            self.base, revision=self.revision, dtype=getattr(torch, self.dtype)
        )
        ends = _ends(model.generation_config.eos_token_id, tokenizer.eos_token_id)
        padding = tokenizer.pad_token_id if tokenizer.pad_token_id is not None else ends[0]
        # Defaults stored with weights (a penalty, a temperature) would not be greedy decoding.
        defaults: Any = transformers.GenerationConfig
        model.generation_config = defaults(eos_token_id=ends, pad_token_id=padding)
        if self.adapter:
            from peft import PeftModel

            with quiet_peft():
                model = PeftModel.from_pretrained(model, self.adapter)
            if problem := adapter_problem(model, Path(self.adapter)):
                raise EngineError(f"the adapter {self.adapter} is refused: {problem}")
            if self.dtype == "float32":  # in fewer bits the sum would lose some of the adapter
                model = model.merge_and_unload()
            if f"adapter:{weights_digest(Path(self.adapter))}" not in self.name:
                raise EngineError(f"{self.adapter} was replaced while it was read: start again")
        return LoadedModel(model.to(self.device).eval(), tokenizer, tuple(ends), padding)


@dataclass(frozen=True, slots=True)
class LoadedModel:
    """A transformers model with its tokenizer; ``ends`` are the tokens that end a reply."""

    model: Any
    tokenizer: Any
    ends: tuple[int, ...]
    padding: int

    @contextmanager
    def threads(self) -> Iterator[None]:
        """One thread of the processor for a small model, for which more only wait for another."""
        import torch

        before = torch.get_num_threads()
        small = sum(one.numel() for one in self.model.parameters()) < SMALL
        torch.set_num_threads(1 if small else before)
        try:
            yield
        finally:
            torch.set_num_threads(before)

    @property
    def context(self) -> int:
        """Maximum number of tokens of prompt and reply together."""
        return int(self.model.config.max_position_embeddings)


@contextmanager
def quiet_peft() -> Iterator[None]:
    """Silence two warnings of peft: of missing keys, which are an error here, and of its own code.

    It reads a transformers flag by its former name.
    """
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Found missing adapter keys", UserWarning)
        warnings.filterwarnings("ignore", ".*is_gradient_checkpointing", FutureWarning)
        yield


def _ends(*ids: int | list[int] | None) -> list[int]:
    """All token ids without repetition, in order."""
    lists = [each if isinstance(each, list) else [each] for each in ids if each is not None]
    return list(dict.fromkeys(token for each in lists for token in each))


def context_of(base: str, revision: str = "main") -> int:
    """Tokens that a model reads, by the configuration on this machine; 0 where there is none."""
    if not base:
        return 0
    try:
        folder = Path(base) if Path(base).is_dir() else cached_model(base, revision)
    except (EngineMissing, ValueError):
        return 0
    file = None if folder is None else folder / "config.json"
    if file is None or not file.is_file():
        return 0
    return int(json.loads(file.read_text("utf-8")).get("max_position_embeddings") or 0)


def weights_digest(folder: Path) -> str:
    """12 hex digits of SHA-256 over weights, config, tokenizer and chat template.

    An adapter has the same digest wherever its base lies.

    Raises:
        EngineError: an adapter's configuration cannot be read.
    """
    digest = hashlib.sha256()
    for path in sorted(one for one in folder.iterdir() if one.suffix in _READ):
        digest.update(path.name.encode() + b"\0")
        if path.name == _ADAPTER_CONFIG:
            digest.update(_adapter_config(path))
            continue
        with path.open("rb") as handle:
            digest.update(hashlib.file_digest(handle, "sha256").digest())
    return digest.hexdigest()[:_SHOWN]


def _adapter_config(path: Path) -> bytes:
    """What peft wrote, without the base's path and the order of a set of modules."""
    try:
        config: dict[str, Any] = dict(json.loads(path.read_text("utf-8")))
    except (ValueError, TypeError) as error:
        raise EngineError(f"{path} is no adapter's configuration: {error}") from error
    config.pop(_BASE, None)
    modules = config.get("target_modules")
    config["target_modules"] = sorted(modules) if isinstance(modules, list) else modules
    return json.dumps(config, sort_keys=True).encode()
