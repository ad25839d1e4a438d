"""Whether a loaded adapter changes its model: peft only warns where it does not."""

import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from decomposerl.endpoint import is_path
from decomposerl.errors import ConfigError, EngineMissing
from decomposerl.evaluation.entries import SystemEntry
from resources.hub.locks import cached_model

ADAPTER_FILE = "adapter_model.safetensors"
_FACTOR = re.compile(r"(lora_(?:embedding_)?)([AB])((?:\.weight)?)$")
_SHOWN = 3


def adapter_folder(entry: SystemEntry) -> Path:
    """The folder of an entry's adapter on this machine; ``ConfigError`` where there is no such one.

    ``EngineMissing``: the hub's adapter was not downloaded.
    """
    own, name = is_path(entry.adapter), f"[{entry.name}] adapter: "
    try:
        folder = Path(entry.adapter) if own else cached_model(entry.adapter, entry.adapter_revision)
    except ValueError as error:
        raise ConfigError(f"{name}no name of the hub: {entry.adapter}") from error
    if folder is None:
        get = f"hf download {entry.adapter} --revision {entry.adapter_revision}"
        raise EngineMissing(f"{name}{entry.adapter} is not on this machine: {get}")
    if not (folder / ADAPTER_FILE).is_file():
        raise ConfigError(f"{name}{folder} holds no {ADAPTER_FILE}")
    return folder.resolve()


def adapter_problem(model: Any, folder: Path, *, trained: bool = True) -> str:  # noqa: ANN401 - peft's
    """Why the adapter of ``folder`` is not that of ``model``, into which it is loaded; else empty.

    It has tensors that the model has no place for, leaves places unset, or, where it must be
    ``trained``, its product is zero everywhere. The text names the first three.
    """
    from peft import get_peft_model_state_dict
    from safetensors.torch import load_file

    def plain(name: str) -> str:
        """As peft compares it; a magnitude was stored in two ways."""
        return name.removesuffix(".weight") if "lora_" in name else name

    stored = load_file(folder / ADAPTER_FILE)
    wanted = set(map(plain, get_peft_model_state_dict(model, save_embedding_layers=False)))
    places = wanted | set(model.state_dict())  # a grown embedding is stored as it is
    if homeless := [name for name in stored if plain(name) not in places]:
        return f"the model has no place for {_first(homeless)}: it is of another base"
    if unset := sorted(wanted - set(map(plain, stored))):
        return f"it leaves unset {_first(unset)}"
    return zero_product(stored) if trained else ""


def first_tensors(folder: Path) -> str:
    """``: `` and the names of an adapter's first tensors; empty where its file is not readable."""
    from safetensors import SafetensorError, safe_open

    with suppress(OSError, SafetensorError), safe_open(folder / ADAPTER_FILE, "numpy") as file:
        return f": {_first(list(file.keys()))}"
    return ""


def zero_product(stored: Mapping[str, Any]) -> str:
    """The reason to refuse an adapter whose low-rank products are zero everywhere; else empty."""
    if not stored or not all(map(_FACTOR.search, stored)):
        return ""  # a bias, a magnitude or whole layers were trained beside it
    for name, down in stored.items():
        up = stored.get(_FACTOR.sub(r"\1B\3", name))
        if up is None or up is down or not (down.any() and up.any()):
            continue
        matrices = up.ndim == down.ndim == 2  # noqa: PLR2004 - else the factors are convolutions
        if not matrices or (up.float() @ down.float()).any():
            return ""
    return f"its product is zero everywhere, so it changes nothing: {_first(list(stored))}"


def _first(names: Sequence[str]) -> str:
    more = len(names) - _SHOWN
    return ", ".join(names[:_SHOWN]) + (f" and {more} more" if more > 0 else "")
