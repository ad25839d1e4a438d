"""``docs/reference/commands.md``: every command with its arguments, options and exit codes."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from types import UnionType
from typing import Annotated, Literal, Union, get_args, get_origin, get_type_hints

import typer
from typer.core import TyperArgument, TyperCommand, TyperOption

from dagster_project.cli import app
from studies.reference.markdown import MADE, code, paragraphs, table


@dataclass(frozen=True, slots=True)
class Example:
    """A call of a command, without the program's name, and what its help does not say."""

    words: str
    more: str = ""


PROGRAM = ".venv/bin/decomposerl"
_STAGES = "`decomposerl run --help` and [the catalogue](catalogue.md#assets) list the stages."
_FAILED = "The exit code is 1 if a part of the graph failed."
EXAMPLES: Mapping[str, Example] = {
    "verify": Example("verify --claim 'Ada Brown was born in Odense.' --evidence evidence.txt"),
    "run": Example("run funnel --upstream --config configs/demo.yaml", f"{_STAGES} {_FAILED}"),
    "train": Example("train tiny --seed 1 --steps 30", _FAILED),
    "evaluate": Example("evaluate cot-rules-faithful --benchmarks fever,hover --limit 100"),
    "score": Example("score traces.jsonl --reading grounding=required"),
    "serve-rewards": Example("serve-rewards --port 8005"),
    "fetch": Example(
        "fetch scifact hover --pages --accept-terms",
        "Proxies are those of the environment. See "
        "[how each corpus is obtained](catalogue.md#how-the-files-are-obtained).",
    ),
    "build-pages": Example(
        "build-pages fever --only-needed", "See [page databases](../how-to/page-databases.md)."
    ),
    "init corpus": Example("init corpus notes --from notes.csv --corpora corpora"),
    "init systems": Example("init systems"),
    "view": Example("view --system cot-rules-faithful --html traces.html"),
    "leaderboard": Example("leaderboard --format csv"),
    "metrics": Example("metrics predictions.jsonl labels.csv --id id,set --verdict verdict"),
    "attrition": Example("attrition --against paper --format markdown"),
    "explain": Example("explain 1f6a3c"),
    "sources": Example("sources"),
    "doctor": Example("doctor --json"),
    "rehearse": Example("rehearse --report rehearsal.md"),
}
"""In the order of the page."""
_INTRODUCTION = f"""\
The program is `{PROGRAM}`; `decomposerl COMMAND --help` prints the same as this page. Profile and
folders come from [environment variables](variables.md); `--data` overrides the folder.

Exit codes: 0 success; 2 wrong use or an error, which is one red line on standard error; 130 after
Ctrl-C, 143 after SIGTERM. Further codes are described with their command.
"""
_MAKE = """\
`make demo` runs the whole graph on the bundled sample, and `make ui` opens Dagster's UI; `make
help` lists the others. `dagster asset materialize` and `dagster job execute` work as in any
Dagster project, with `-m dagster_project.definitions`; [the catalogue](catalogue.md) names assets
and jobs.
"""
_KINDS: Mapping[object, str] = {
    bool: "",
    str: "TEXT",
    Path: "PATH",
    int: "INTEGER",
    float: "NUMBER",
}


def page() -> str:
    """The page as Markdown."""
    every = commands()
    panels = {"Run": "Run and verify", "Look": "Look at results", "Check": "Check"}
    parts: list[str] = []
    for panel, title in panels.items():
        rows = [
            (f"[`{name}`](#{name.replace(' ', '-')})", _first(one))
            for name, (one, where) in every.items()
            if where == panel
        ]
        parts += [f"**{title}**", table(("Command", "What it does"), rows)]
    sections = [part for name, (one, _) in every.items() for part in _section(name, one)]
    return paragraphs(
        "# Commands", _INTRODUCTION, MADE, *parts, *sections, "## make and dagster", _MAKE
    )


def commands() -> dict[str, tuple[TyperCommand, str]]:
    """Each command with the panel of the help that it is in."""
    found = {}
    for name, one in typer.main.get_command(app).commands.items():  # type: ignore[attr-defined]
        inner = getattr(one, "commands", {})
        found |= {f"{name} {sub}": (two, one.rich_help_panel) for sub, two in inner.items()}
        found |= {} if inner else {name: (one, one.rich_help_panel)}
    return {name: found[name] for name in EXAMPLES}


def _first(command: TyperCommand) -> str:
    return command.help.split("\n\n")[0].replace("\n", " ")


def _section(name: str, command: TyperCommand) -> Iterator[str]:
    example = EXAMPLES[name]
    yield f"## {name}"
    for paragraph in command.help.split("\n\n"):
        yield _pages(paragraph)
    yield f"```sh\n{PROGRAM} {example.words}\n```"
    yield table(("Argument or option", "Default", "Meaning"), _parameters(command))
    yield example.more


def _pages(text: str) -> str:
    """Pages by their place as links from this one."""
    words = []
    for word in text.split():
        place = word.rstrip(".")
        if place.startswith("docs/") and place.endswith(".md"):
            page = place.removeprefix("docs/")
            words.append(f"[{Path(page).stem}](../{page})" + word[len(place) :])
        else:
            words.append(word)
    return " ".join(words)


def _parameters(command: TyperCommand) -> Iterator[tuple[str, str, str]]:
    hints = get_type_hints(command.callback, include_extras=True)
    for one in command.params:
        kind, choices = _kind(hints[one.name])
        meaning = _pages(one.help or "")
        if choices:
            meaning += f" One of {', '.join(map(code, choices))}."
        least = getattr(get_args(hints[one.name])[1], "min", None)
        if least:
            meaning += f" At least {least}."
        names = _spelled(one, one.metavar or kind)
        yield ", ".join(map(code, names)), _default(one), meaning.strip()


def _spelled(parameter: TyperArgument | TyperOption, kind: str) -> list[str]:
    """An argument's name, or an option's spellings with the word for its value."""
    if isinstance(parameter, TyperArgument):
        return [parameter.metavar or parameter.name.upper()]
    spellings = sorted(parameter.opts, key=len, reverse=True)
    return [f"{one} {kind}".strip() for one in (*spellings, *parameter.secondary_opts)]


def _kind(hint: object) -> tuple[str, list[str]]:
    """The word for a value of this type, and the words that are allowed."""
    if get_origin(hint) is Annotated:
        return _kind(get_args(hint)[0])
    if get_origin(hint) in {Union, UnionType, list}:
        return _kind(next(one for one in get_args(hint) if one is not type(None)))
    if get_origin(hint) is Literal:
        return "WORD", list(get_args(hint))
    if isinstance(hint, type) and issubclass(hint, StrEnum):
        return "WORD", [one.value for one in hint]
    if get_origin(hint) is tuple:
        return " ".join(_KINDS[part] for part in get_args(hint)), []
    return _KINDS[hint], []


def _default(parameter: TyperArgument | TyperOption) -> str:
    if parameter.required:
        return "required"
    value = parameter.default
    return "" if value is None or value is False or value == "" else code(str(value))
