"""The tiny policy's checkpoints: Qwen2s of 0.4 million parameters, small enough for two cores.

The project includes each as an ordinary model folder: config, safetensors, tokenizer, and the
prompt it was trained with. The models decompose claims about invented things and mark what the
evidence contains and lacks. The first has the habits that ``sample.policy_flaws`` plants, the
second saw clean traces only; a smaller one did so too, and one goes on from the second to a third
verdict. ``python -m studies.warm_start`` makes them.
"""

import hashlib
import json
import math
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from decomposerl.extras import require
from decomposerl.training.experiment import (
    BASE_POLICY,
    CLEAN_POLICY,
    SMALL_POLICY,
    THREE_WAY_POLICY,
)
from decomposerl.training.experiments import TINY_VIEW
from resources.store.temporary import folder_aside, publish_folder

CHECKPOINTS: Mapping[str, Path] = {
    BASE_POLICY: Path(__file__).with_name("tiny_policy"),
    CLEAN_POLICY: Path(__file__).with_name("tiny_policy_clean"),
    SMALL_POLICY: Path(__file__).with_name("tiny_policy_small"),
    THREE_WAY_POLICY: Path(__file__).with_name("tiny_policy_three_way"),
}
"""The checkpoints of the project by base, in 16 bits."""
CHECKPOINT = CHECKPOINTS[BASE_POLICY]
PROMPT = Path(__file__).with_name("policy.md")
SETTINGS_FILE = "warm_start.json"
VIEW = TINY_VIEW
"""The view of the evidence in warm start and recipes."""
# transformers adds <|endoftext|> to any Qwen2 tokenizer; unless it is ours, it has no embedding.
PAD, START, END = "<|endoftext|>", "<|im_start|>", "<|im_end|>"
TAGS = tuple(
    f"<{slash}{kind}>"
    for kind in ("think", "question", "answer", "verification")
    for slash in ("", "/")
)
"""Its tokenizer's special tokens, and the tags of a trace, which are tokens of their own."""


def load_base_policy(folder: Path, base: str = BASE_POLICY) -> Path:
    """Replace ``folder`` atomically by the project's checkpoint of a base."""
    aside = folder_aside(folder)
    shutil.rmtree(aside, ignore_errors=True)
    shutil.copytree(CHECKPOINTS[base], aside)
    publish_folder(aside, folder)
    return folder


@dataclass(frozen=True, slots=True)
class BasePolicyFacts:
    """A model folder's SHA-256 of the weights, number of parameters, and settings."""

    digest: str
    parameters: int
    settings: dict[str, Any]


def base_policy_facts(folder: Path) -> BasePolicyFacts:
    """The facts of a folder that ``load_base_policy`` or the study wrote.

    Raises:
        EngineMissing: ``safetensors`` is not installed.
    """
    require("safetensors")
    from safetensors import safe_open

    weights = folder / "model.safetensors"
    with safe_open(weights, framework="np") as tensors:
        sizes = [math.prod(tensors.get_slice(name).get_shape()) for name in tensors.keys()]  # noqa: SIM118 - not a dict
    settings = json.loads((folder / SETTINGS_FILE).read_text("utf-8"))
    digest = hashlib.sha256(weights.read_bytes()).hexdigest()
    return BasePolicyFacts(digest, sum(sizes), settings)
