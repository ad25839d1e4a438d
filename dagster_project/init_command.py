"""``decomposerl init``: starts something of the user's own: a corpus, or a file of systems."""

import os
import shlex
import shutil
import sys
from collections.abc import Mapping
from functools import partial
from importlib import resources
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Annotated

import typer
from rich.prompt import IntPrompt

from dagster_project.environment import corpora_for, read_settings
from dagster_project.evaluation_commands import DataOption
from dagster_project.fetch_command import CorporaOption, corpora_folder
from dagster_project.settings import SYSTEMS_FILE
from dagster_project.terminal import Commands, Terminal, print_text, report_errors
from decomposerl.errors import ConfigError
from resources.store.paths import text_of
from resources.store.temporary import replace_file, replace_text

if TYPE_CHECKING:
    from decomposerl.claims.column_guess import Role, Side, UnclearPolarity

_Column = Annotated[str, typer.Option(metavar="COLUMN", help="Instead of the guess.")]
_Labels = Annotated[list[str] | None, typer.Option(metavar="LABEL", help="Repeatable.")]

init = typer.Typer(
    cls=Commands, no_args_is_help=True, help="Start a corpus or systems of your own."
)


@init.command("corpus")
@report_errors
def corpus(  # noqa: PLR0913 - each is one option of the command
    name: Annotated[str, typer.Argument(help="Lower-case letters, digits and _.")],
    *,
    file: Annotated[Path | None, typer.Option("--from", help="Its rows: a file or folder.")] = None,
    corpora: CorporaOption = None,
    claim: _Column = "",
    evidence: _Column = "",
    label: Annotated[str, typer.Option(metavar="COLUMN", help="Or =WORD, of all rows.")] = "",
    supported: _Labels = None,
    refuted: _Labels = None,
    records: Annotated[str, typer.Option(metavar="KEY", help="Of rows within JSON.")] = "",
    preview: Annotated[
        int | None,
        typer.Option(min=1, metavar="N", help="Show the first N claims; write nothing."),
    ] = None,
) -> None:
    """Write a commented source.toml after looking at the columns and labels of a file.

    A file that is not in the corpora folder is copied there. Nothing is overwritten.
    """
    from dagster_project.own_corpus import guessed, lay_out, preview_text
    from decomposerl.claims.column_guess import UnclearPolarity

    folder = corpora_folder(corpora)
    target = folder / name / "source.toml"
    if file is None:
        if preview is None or not os.path.lexists(target):
            raise ConfigError(f"name the file of its rows with --from, or --preview a {target}")
        print_text(preview_text(text_of(target), target, folder, preview))
        return
    _refuse_taken(name, target, folder)
    columns: Mapping[Role, str] = {"claim": claim, "evidence": evidence, "label": label}
    sides: Mapping[Side, list[str]] = {"supported": supported or [], "refuted": refuted or []}
    with TemporaryDirectory() as made:
        place = Path(made)
        files = lay_out(file, name, folder, records, place)
        try:
            text = guessed(name, place, files, columns, sides)
        except UnclearPolarity as unclear:
            text = guessed(name, place, files, columns, {**sides, **_chosen_reading(unclear)})
        shown = preview_text(text, target, place, preview or 1)
        print_text(f"{text[text.index('[columns]') :]}\n{shown}")
        if preview is not None:
            return
        _copy(place, folder)
        replace_text(target, [text])
    kind = "claims" if any(native.split != "test" for native in files) else "benchmark"
    print_text(f"wrote {target}: check every line of it, then")
    print_text(f"DECOMPOSERL_CORPORA={shlex.quote(str(folder))} decomposerl run {kind}/{name}")


@init.command("systems")
@report_errors
def systems(
    *,
    data: DataOption = None,
    file: Annotated[
        Path | None,
        typer.Option("--systems", help="The file to write; default: systems.toml in the folder."),
    ] = None,
) -> None:
    """Write a commented systems.toml with ready entries for endpoints, adapters and verifiers.

    Nothing is overwritten. Every entry is commented out.
    """
    settings = read_settings()
    target = file or (data / SYSTEMS_FILE if data is not None else settings.paths.systems_file)
    if os.path.lexists(target):
        raise ConfigError(f"{target} is there already; edit it, or name another with --systems")
    text = resources.files("dagster_project").joinpath("systems_template.toml").read_text("utf-8")
    replace_text(target, [text])
    print_text(f"wrote {target}: uncomment the entries that you need, then")
    elsewhere = target.resolve() != settings.paths.systems_file.resolve()
    named = f"DECOMPOSERL_PATHS__SYSTEMS={shlex.quote(str(target))} " * elsewhere
    print_text(f"{named}decomposerl doctor && {named}decomposerl evaluate --list")


def _chosen_reading(unclear: "UnclearPolarity") -> "dict[Side, list[str]]":
    """The reading that a person at the terminal chooses.

    Raises:
        UnclearPolarity: there is no terminal.
    """
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        raise unclear
    terminal = Terminal(stderr=True)
    terminal.print(str(unclear))
    numbers = [str(number) for number, _ in enumerate(unclear.readings, start=1)]
    try:
        number = IntPrompt.ask("reading", console=terminal, choices=numbers)
    except EOFError:
        raise unclear from None
    return {side: [label] for side, label in unclear.readings[number - 1].items()}


def _refuse_taken(name: str, target: Path, folder: Path) -> None:
    if Path(name).name != name or name == "..":  # nothing is laid out elsewhere
        raise ConfigError(f"the folder '{name}' is not below the corpora folder; choose a name")
    if os.path.lexists(target):
        raise ConfigError(f"{target} is there already; edit it, or choose another name")
    settings = read_settings().with_paths(corpora=folder)
    if name in {corpus.name for corpora in corpora_for(settings) for corpus in corpora}:
        raise ConfigError(f"the corpus name '{name}' is taken; choose another")


def _copy(place: Path, folder: Path) -> None:
    """Copy what is laid out in ``place`` and is not yet in the corpora folder."""
    rows = {folder / path.relative_to(place): path for path in place.rglob("*") if path.is_file()}
    copies = {to: path for to, path in rows.items() if to != path.resolve()}
    for to in filter(os.path.lexists, copies):
        raise ConfigError(f"{to} is there already; name it with --from")
    for to, path in copies.items():
        replace_file(to, partial(shutil.copyfile, path))
