"""The key of a run: what it learns from, as 16 hex digits.

Takes the recipe, the files of claims and base weights, the engines that rule and embed, and
the policy's prompt; gives a hash. A start with the same key goes on from the last checkpoint,
another key begins anew.
"""

import hashlib
import json
from collections.abc import Sequence
from pathlib import Path

from decomposerl.training.experiment import Experiment
from resources.store.parquet import file_sha256
from resources.store.prompts import load_prompt

_READ_WHOLE = 64 * 1024 * 1024


def run_key(
    experiment: Experiment,
    files: Sequence[Path | None],
    base: str,
    engines: Sequence[str],
    prompts: str = "",
) -> str:
    """The key. ``files`` are claims and held-out claims, ``engines`` judge and embedder.

    Raises:
        ConfigError: the policy's prompt file is missing or malformed.
        OSError: a file of claims or of the base cannot be read.
    """
    parts = [
        experiment.digest,
        [None if file is None else file_sha256(file) for file in files],
        base_version(base),
        list(engines),
        load_prompt("policy", prompts).digest,
    ]
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()[:16]


def base_version(base: str) -> str:
    """What identifies base weights: a hub name is itself, a folder is the hash of its files.

    Of files above 64 MiB, which would take minutes to read, name and size count.
    """
    folder = Path(base)
    if not folder.is_dir():
        return base
    told = [
        (str(path.relative_to(folder)), _fingerprint(path))
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    ]
    return hashlib.sha256(json.dumps(told).encode()).hexdigest()


def _fingerprint(path: Path) -> str:
    size = path.stat().st_size
    return str(size) if size > _READ_WHOLE else file_sha256(path)
