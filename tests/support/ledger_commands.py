"""The ledger's row of the commands: their options, and what they answer to wrong calls.

Each wrong call is a shell line: variables, command, options. All run in this process, in one folder
of small files, some of which are damaged.
"""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import polars as pl
import typer

from dagster_project.cli import app
from fixture_data import build
from ledger_inputs import INPUTS, call
from metrics_parts import write
from project import ROOT
from resources.catalogue.database import build_catalogue

_ANSI = re.compile(r"\x1b\[[0-9;]*m")
_FRAME = "│╭╮╰╯─ "


def command_entries(folder: Path) -> Mapping[str, Any]:
    """The options of each command, and exit code and last error line of each wrong call."""
    _write_files(folder)
    calls = INPUTS["commands"]["wrong calls"]
    return {"options": _option_names(), "wrong calls": {one: _answer(one, folder) for one in calls}}


def _option_names() -> dict[str, list[str]]:
    """Each command with its arguments and the names of its options, in the order of the help."""
    named: dict[str, list[str]] = {}

    def add(command: Any, path: tuple[str, ...]) -> None:  # noqa: ANN401 - typer keeps its click
        named[" ".join(path) or "decomposerl"] = [_declared(one) for one in command.params]
        for name, inner in getattr(command, "commands", {}).items():
            add(inner, (*path, name))

    add(typer.main.get_command(app), ())
    return named


def _declared(parameter: Any) -> str:  # noqa: ANN401 - the same
    """An option's names or an argument's place, with what is fixed about its value."""
    if parameter.param_type_name == "argument":
        words = [parameter.name.upper()]
    else:
        words = [*parameter.opts, *parameter.secondary_opts]
    words += ["required"] * parameter.required + ["repeatable"] * parameter.multiple
    return " ".join(words)


def _answer(line: str, folder: Path) -> str:
    """The exit code and the last line on standard error, without the paths of this machine."""
    done = call(line, codes=range(256))
    if done.exception is not None and not isinstance(done.exception, SystemExit):
        return f"{done.exit_code}: {type(done.exception).__name__}: {done.exception}"
    lines = [one.strip(_FRAME) for one in _ANSI.sub("", done.stderr).splitlines()]
    last = next(filter(None, reversed(lines)), "")
    plain = last.replace(str(folder.resolve()), "FOLDER").replace(str(ROOT), "PROJECT")
    return f"{done.exit_code}: {plain}"


def _write_files(folder: Path) -> None:
    """The files that the wrong calls name: small, some of them damaged."""
    for name in ("empty", "broken"):
        (folder / name).mkdir()
    for name, rows in _rows().items():
        write(folder / f"{name}.jsonl", rows)
    for name, text in INPUTS["commands"]["files"].items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text, "utf-8")
    (folder / "latin.jsonl").write_bytes('{"claim": "Das Café"}\n'.encode("latin-1"))
    pl.DataFrame({"id": ["a"], "number": [1]}).write_parquet(folder / "table.parquet")
    build_catalogue(build(folder / "world").data)


def _rows() -> Mapping[str, list[dict[str, object]]]:
    """The rows of the sound files, and of those whose rows do not fit each other."""
    claim = {"claim": "Ada Holm built the mill.", "evidence": "Ada Holm built the mill in 1840."}
    traced = claim | {"trace": "<think>x</think>"}
    gold = ("Supported", "Refuted", "maybe", "Refuted")
    said = [{"id": name, "said": "Refuted", "value": 0.25} for name in "abcd"]
    return {
        "claims": [claim],
        "bare": [{"claim": claim["claim"]}],
        "labelled": [claim | {"label": label} for label in (*gold[:2], *gold)],
        "traces": [traced],
        "half": [traced, claim],
        "labels": [{"id": name, "label": label, "kind": "plain"}
                   for name, label in zip("abcd", gold, strict=True)],
        "predictions": said,
        "extra": [*said[:3], {"id": "e", "said": "Refuted", "value": 0.75}],
        "twice": [said[0], {"id": "a", "said": "Supported", "value": 1.0}],
    }  # fmt: skip
