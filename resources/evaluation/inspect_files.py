"""Writing logs of Inspect with its own package, which is imported when a log is written."""

import logging
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from decomposerl.errors import EngineMissing
from resources.store.temporary import replace_file

ENDING = ".eval"
_ENVIRONMENT = (
    "inspect-ai is not installed. It takes an older fsspec than this project's pins, so give it an "
    "environment of its own: python3 -m venv .venv-inspect && .venv-inspect/bin/pip install -e "
    "'.[inspect]', then run .venv-inspect/bin/decomposerl export-inspect"
)


def require_inspect() -> None:
    """Refuse before any work where the package is not installed.

    Raises:
        EngineMissing: the message has the commands that install it.
    """
    if find_spec("inspect_ai") is None:
        raise EngineMissing(_ENVIRONMENT)


def write_inspect_log(log: Mapping[str, Any], path: Path) -> None:
    """Write a log (``reports.inspect_log``) as ``path``, atomically.

    Raises:
        OSError: the file cannot be written.
        pydantic.ValidationError: the installed version of Inspect has another form of logs.
    """
    from inspect_ai.log import EvalLog, write_eval_log

    checked = EvalLog.model_validate(log)
    logging.getLogger("inspect_ai").setLevel(logging.WARNING)
    replace_file(path, lambda aside: write_eval_log(checked, str(aside), format="eval"))
