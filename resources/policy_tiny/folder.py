"""The tiny policy's folder: a Qwen2 of 0.4 million parameters, small enough for two cores.

Takes a folder, gives it the checkpoint that comes with the project (config, safetensors,
tokenizer, and the prompt that it was trained with), a model folder like any other. The model
takes claims about invented things apart and marks what the evidence has and has not, and has
the habits that ``sample.policy_flaws`` plants. GRPO starts from it as from any base policy.

Left out deliberately: how the checkpoint is made (``resources.policy_tiny.warm_start``).
"""

import hashlib
import json
import math
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from decomposerl.training.experiments import TINY_VIEW
from resources.store.temporary import folder_aside, publish_folder

CHECKPOINT = Path(__file__).with_name("checkpoint")
"""The folder of the checkpoint that comes with the project, in 16 bits."""
PROMPT = Path(__file__).with_name("policy.md")
VIEW = TINY_VIEW
"""What the model reads, in its warm start as in the recipes."""


def load_base_policy(folder: Path) -> Path:
    """Copy the project's checkpoint to ``folder``, in place of what is there.

    The copy is made beside it and renamed, so that ``folder`` is never half there.
    """
    aside = folder_aside(folder)
    shutil.rmtree(aside, ignore_errors=True)
    shutil.copytree(CHECKPOINT, aside)
    publish_folder(aside, folder)
    return folder


@dataclass(frozen=True, slots=True)
class BasePolicyFacts:
    """What a model folder says of itself: SHA-256 of its weights, their number, its settings."""

    digest: str
    parameters: int
    settings: dict[str, Any]


def base_policy_facts(folder: Path) -> BasePolicyFacts:
    """Read the facts of a folder that ``load_base_policy`` or a warm start wrote."""
    from safetensors import safe_open

    weights = folder / "model.safetensors"
    with safe_open(weights, framework="np") as tensors:
        sizes = [math.prod(tensors.get_slice(name).get_shape()) for name in tensors.keys()]  # noqa: SIM118 - not a dict
    settings = json.loads((folder / "warm_start.json").read_text("utf-8"))
    digest = hashlib.sha256(weights.read_bytes()).hexdigest()
    return BasePolicyFacts(digest, sum(sizes), settings)
