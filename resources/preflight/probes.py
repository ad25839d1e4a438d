"""Looks at one thing that a run needs, and says what to do where it is missing.

Takes names, folders and URLs, gives a ``ReadinessCheck`` each. Looking changes nothing and loads
no model: packages are asked for their version, folders for their files, endpoints for
their list of models. A key is sent to its endpoint and stands in no finding.

Left out deliberately: which profile needs what (``dagster_project.doctor``).
"""

import json
import os
import shutil
import subprocess
import urllib.error
from http.client import HTTPException
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from pydantic import SecretStr

from decomposerl.errors import EngineMissing
from decomposerl.reports.readiness import ReadinessCheck, State
from resources.chat.connection import Moved, fetched
from resources.entities.spacy_models import SpacyModel, install_hint
from resources.hub.download import cached_model
from resources.tokens.model_tokens import tokenizer_file
from resources.verifier.chunk_tokens import BYTES

_TIMEOUT_S = 3.0
_GIB = 2**30
_LISTED = 5
_BYTES_LOSE = (
    "no tokenizer.json; chunks are measured in bytes, so evidence above 32 kB (about 8,000 tokens) "
    "is judged in parts where the model reads 32,468 tokens at once"
)


def package(name: str, mend: str, *, required: bool = True) -> ReadinessCheck:
    """Whether a distribution is installed, and its version."""
    try:
        return ReadinessCheck("package", name, "ok", version(name))
    except PackageNotFoundError:
        return ReadinessCheck("package", name, _absent(required=required), "not installed", mend)


def spacy_model(name: str) -> ReadinessCheck:
    """Whether a spaCy model is installed or a folder, and its version."""
    try:
        return ReadinessCheck("spaCy", name, "ok", SpacyModel(name).label)
    except EngineMissing:
        return ReadinessCheck("spaCy", name, "missing", "not installed", install_hint(name))


def hub_model(name: str, files: str = "", *, required: bool = True) -> ReadinessCheck:
    """Whether a model is a folder or lies in the hub's local cache.

    ``files`` are those that are needed, apart by spaces; empty for the whole model.
    """
    absent = _absent(required=required)
    command = " ".join(["hf download", name, *files.split()])
    try:
        folder = Path(name) if Path(name).is_dir() else cached_model(name, "main")
    except EngineMissing as error:
        return ReadinessCheck("model", name, absent, str(error), command)
    except ValueError:  # no name that the hub could have
        mend = "name a folder that is there, or a model of the hub as organisation/name"
        return ReadinessCheck("model", name, absent, "neither a folder nor a name of the hub", mend)
    lacking = [file for file in files.split() if folder is None or not (folder / file).is_file()]
    if folder is None or lacking:
        said = f"no {', '.join(lacking)}" if lacking else "not on this machine"
        return ReadinessCheck("model", name, absent, said, command)
    return ReadinessCheck("model", name, "ok", str(folder))


def chunk_tokenizer(named: str, model: str) -> ReadinessCheck:
    """What the hosted verifier's chunks are measured in; bytes are safe, and smaller chunks."""
    what = f"tokenizer of the chunks for {model}"
    if named == BYTES:
        return ReadinessCheck(
            "model", what, "ok", "none: chunks are measured in bytes, as asked for"
        )
    try:
        file = tokenizer_file(named or model)
    except EngineMissing:
        file = None
    if file is not None:
        return ReadinessCheck("model", what, "ok", str(file))
    if named:
        return hub_model(named, "tokenizer.json")
    mend = f"hf download {model} tokenizer.json, or name a folder in DECOMPOSERL_VERIFIER_TOKENIZER"
    return ReadinessCheck("model", what, "note", _BYTES_LOSE, mend)


def key(variable: str, value: SecretStr, *, required: bool) -> ReadinessCheck:
    """Whether a key is there; it is never shown."""
    if value.get_secret_value():
        return ReadinessCheck("key", variable, "ok", "set (never shown)")
    if required:
        return ReadinessCheck("key", variable, "missing", "not set", f"export {variable}=...")
    return ReadinessCheck("key", variable, "note", "not set; asked without a key")


def endpoint(
    url: str, model: str, value: SecretStr, mend: str, *, required: bool = True
) -> ReadinessCheck:
    """Whether ``<url>/models`` answers within three seconds and lists ``model``.

    No ``model``: whatever it serves will do.
    """
    what, absent = f"{url} for {model}" if model else url, _absent(required=required)
    try:
        answer = json.loads(fetched(f"{url}/models", value.get_secret_value(), _TIMEOUT_S))
        served = [str(one["id"]) for one in answer["data"]]
    except Moved as error:
        said = str(error)
    except urllib.error.HTTPError as error:
        said = f"answered with status {error.code}"
    except OSError as error:
        said = f"does not answer: {getattr(error, 'reason', error)}"
    except (HTTPException, ValueError, KeyError, TypeError, RecursionError):
        said = "answered with no list of models"
    else:
        listed = ", ".join(served[:_LISTED]) or "nothing"
        if not model:
            return ReadinessCheck("endpoint", what, "ok", f"answers and serves {listed}")
        if model in served:
            return ReadinessCheck("endpoint", what, "ok", "answers and lists the model")
        said = f"serves {listed}, not the model"
    return ReadinessCheck("endpoint", what, absent, said, mend)


def program(name: str, mend: str) -> ReadinessCheck:
    """Whether a program is found."""
    found = shutil.which(name)
    if found is None:
        return ReadinessCheck("program", name, "missing", "not found", mend)
    return ReadinessCheck("program", name, "ok", found)


def gpus(command: str = "nvidia-smi", *, required: bool) -> list[ReadinessCheck]:
    """Memory of each GPU, as ``nvidia-smi`` tells it."""
    query = ["--query-gpu=name,memory.total,memory.free", "--format=csv,noheader,nounits"]
    try:
        told = subprocess.run(  # noqa: S603 - the words are ours
            [command, *query], capture_output=True, text=True, timeout=10, check=True
        ).stdout
        cards = [line.rsplit(",", 2) for line in told.splitlines() if line.strip()]
        found = [
            ReadinessCheck(
                "GPU", f"{i} {name.strip()}", "ok", f"{int(all_):,} MiB, {int(free):,} MiB free"
            )
            for i, (name, all_, free) in enumerate(cards)
        ]
    except (OSError, subprocess.SubprocessError, ValueError):
        found = []
    if found:
        return found
    mend = "run on a machine with a GPU, or name a server that runs elsewhere" * required
    return [
        ReadinessCheck("GPU", "none", _absent(required=required), f"{command} finds no card", mend)
    ]


def disk(folder: Path, needed_gib: float) -> ReadinessCheck:
    """Free space where ``folder`` is or will be."""
    place = folder
    while not place.exists():
        place = place.parent
    free = shutil.disk_usage(place).free / _GIB
    said = f"{free:,.1f} GiB free, about {needed_gib:g} needed"
    if not os.access(place, os.W_OK):
        return ReadinessCheck(
            "disk", str(folder), "missing", "cannot be written", "set DECOMPOSERL_DATA"
        )
    if free < needed_gib:
        return ReadinessCheck(
            "disk", str(folder), "missing", said, "set DECOMPOSERL_DATA to a larger disk"
        )
    return ReadinessCheck("disk", str(folder), "ok", said)


def compiled_loops() -> ReadinessCheck:
    """Whether the machine code of the loops can be kept, so that it is compiled once."""
    from decomposerl.kernels import text_loops

    loop: Any = text_loops.scan_rows  # as numba has it
    folder = loop.stats.cache_path
    if folder and os.access(folder, os.W_OK):
        return ReadinessCheck("cache", "compiled loops", "ok", str(folder))
    mend = "set NUMBA_CACHE_DIR to a folder that can be written"
    return ReadinessCheck("cache", "compiled loops", "note", "compiled anew in each process", mend)


def _absent(*, required: bool) -> State:
    return "missing" if required else "note"
