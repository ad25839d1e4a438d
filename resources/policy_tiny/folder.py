"""The tiny policy's checkpoint: a Qwen2 of 0.4 million parameters, small enough for two cores.

The project includes it as an ordinary model folder: config, safetensors, tokenizer, and the prompt
it was trained with. The model decomposes claims about invented things, marks what the evidence
contains and lacks, and has the habits that ``sample.policy_flaws`` plants.
"""

import hashlib
import json
import math
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from decomposerl.extras import require
from decomposerl.training.experiments import TINY_VIEW
from resources.store.temporary import folder_aside, publish_folder

CHECKPOINT = Path(__file__).with_name("tiny_policy")
"""The checkpoint of the project, in 16 bits."""
PROMPT = Path(__file__).with_name("policy.md")
VIEW = TINY_VIEW
"""The view of the evidence in warm start and recipes."""


def load_base_policy(folder: Path) -> Path:
    """Replace ``folder`` atomically by the project's checkpoint."""
    aside = folder_aside(folder)
    shutil.rmtree(aside, ignore_errors=True)
    shutil.copytree(CHECKPOINT, aside)
    publish_folder(aside, folder)
    return folder


@dataclass(frozen=True, slots=True)
class BasePolicyFacts:
    """A model folder's SHA-256 of the weights, number of parameters, and settings."""

    digest: str
    parameters: int
    settings: dict[str, Any]


def base_policy_facts(folder: Path) -> BasePolicyFacts:
    """The facts of a folder that ``load_base_policy`` or a warm start wrote.

    Raises:
        EngineMissing: ``safetensors`` is not installed.
    """
    require("safetensors")
    from safetensors import safe_open

    weights = folder / "model.safetensors"
    with safe_open(weights, framework="np") as tensors:
        sizes = [math.prod(tensors.get_slice(name).get_shape()) for name in tensors.keys()]  # noqa: SIM118 - not a dict
    settings = json.loads((folder / "warm_start.json").read_text("utf-8"))
    digest = hashlib.sha256(weights.read_bytes()).hexdigest()
    return BasePolicyFacts(digest, sum(sizes), settings)
