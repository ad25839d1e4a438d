"""The oldest vLLM that may serve a model here, and which one a program or server is.

Below it, two faults run code of a model's repository although that was not allowed
(CVE-2026-27893, CVE-2026-22807). A program is asked before it loads a model, through the
interpreter in its first line; a server by its page ``/version``.
"""

import json
import shutil
import subprocess
import urllib.error
from collections.abc import Callable, Mapping, Sequence
from http.client import HTTPException
from pathlib import Path
from typing import Any

from packaging.version import InvalidVersion, Version

from decomposerl.errors import EngineError

MINIMUM = "0.22"
_ASK = "from importlib.metadata import version; print(version('vllm'))"
_ASK_S = 20.0
_FIRST_LINE = 1_024


def version_problem(found: str) -> str:
    """Why a version of vLLM is refused; empty where it is not, or where it cannot be compared."""
    try:
        version = Version(found)
    except InvalidVersion:
        return ""
    # A build without its history calls itself 0.1.dev1.
    if version >= Version(MINIMUM) or (version.is_devrelease and version.release == (0, 1)):
        return ""
    return (
        f"vLLM {found} is refused: below {MINIMUM} it may run code of a model's repository without "
        "being allowed to (CVE-2026-27893, CVE-2026-22807). pip install 'vllm>="
        f"{MINIMUM},<=0.31'"
    )


def installed_version(program: str) -> str:
    """The version of vLLM in the environment of a Python script; empty where it is not known.

    It is read from the environment's list of packages, so nothing of vLLM is imported.
    """
    path = shutil.which(program)
    interpreter = _interpreter(Path(path)) if path else []
    if not interpreter:
        return ""
    try:
        done = subprocess.run(  # noqa: S603 - the script's own interpreter, our words
            [*interpreter, "-I", "-c", _ASK],
            capture_output=True,
            text=True,
            timeout=_ASK_S,
            check=False,
        )
    except (OSError, subprocess.SubprocessError):
        return ""
    return done.stdout.strip() if done.returncode == 0 else ""


def server_version_problem(
    root: str, models: Sequence[Mapping[str, Any]], get: Callable[[str], bytes]
) -> str:
    """Why the server at ``root`` is refused for its version; empty where it is not known.

    ``models`` is its list of models, whose owner says whether it is vLLM; ``get`` fetches a page.
    """
    if not any(model.get("owned_by") == "vllm" for model in models):
        return ""
    try:
        found = json.loads(get(f"{root}/version"))["version"]
    except urllib.error.HTTPError as error:
        error.close()
        return ""
    except (EngineError, HTTPException, OSError, ValueError, LookupError, TypeError):
        return ""
    return version_problem(str(found))


def _interpreter(script: Path) -> list[str]:
    """The words of a script's first line if they start a Python; none where it cannot be read."""
    try:
        with script.open("rb") as stream:
            first = stream.readline(_FIRST_LINE)
    except OSError:
        return []
    words = first[2:].decode("utf-8", "replace").split() if first.startswith(b"#!") else []
    return words if words and any("python" in Path(word).name for word in words) else []
