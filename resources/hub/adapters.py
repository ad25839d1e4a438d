"""Whether a loaded adapter changes its model: peft only warns where it does not."""

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

ADAPTER_FILE = "adapter_model.safetensors"
_LORA = "lora_"
_FACTOR = re.compile(r"(lora_(?:embedding_)?)([AB])((?:\.weight)?)$")
_SHOWN = 3


def adapter_problem(model: Any, folder: Path, *, trained: bool = True) -> str:  # noqa: ANN401 - peft's
    """Why the adapter of ``folder`` is not that of ``model``, into which it is loaded; else empty.

    It has tensors that the model has no place for, leaves places unset, or, where it must be
    ``trained``, its product is zero everywhere. The text names the first three.
    """
    from peft import get_peft_model_state_dict
    from safetensors.torch import load_file

    stored = load_file(folder / ADAPTER_FILE)
    wanted = {
        _plain(name) for name in get_peft_model_state_dict(model, save_embedding_layers=False)
    }
    places = wanted | set(model.state_dict())  # a grown embedding is stored as it is
    homeless = [name for name in stored if _plain(name) not in places]
    if homeless:
        return f"the model has no place for {_first(homeless)}: it is of another base"
    if unset := sorted(wanted - {_plain(name) for name in stored}):
        return f"it leaves unset {_first(unset)}"
    return zero_product(stored) if trained else ""


def first_tensors(folder: Path) -> str:
    """``: `` and the names of an adapter's first tensors; empty where its file is not readable."""
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(folder / ADAPTER_FILE, "numpy") as file:
            return f": {_first(list(file.keys()))}"
    except (OSError, SafetensorError):
        return ""


def zero_product(stored: Mapping[str, Any]) -> str:
    """The reason to refuse an adapter whose low-rank products are zero everywhere; else empty."""
    if not stored or not all(map(_FACTOR.search, stored)):
        return ""  # a bias, a magnitude or whole layers were trained beside it
    for name, down in stored.items():
        up = stored.get(_FACTOR.sub(r"\1B\3", name))
        if up is not None and up is not down and _differs_from_zero(down.float(), up.float()):
            return ""
    return f"its product is zero everywhere, so it changes nothing: {_first(list(stored))}"


def _differs_from_zero(down: Any, up: Any) -> bool:  # noqa: ANN401 - tensors
    if not down.any() or not up.any():
        return False
    return bool((up.flatten(1) @ down.flatten(1)).any()) if up.ndim == down.ndim == 2 else True  # noqa: PLR2004 - matrices


def _plain(name: str) -> str:
    """The name of a LoRA's tensor as peft compares it; a magnitude was stored in two ways."""
    return name.removesuffix(".weight") if _LORA in name else name


def _first(names: Sequence[str]) -> str:
    more = len(names) - _SHOWN
    return ", ".join(names[:_SHOWN]) + (f" and {more} more" if more > 0 else "")
