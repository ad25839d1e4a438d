"""``decomposerl init``: starts something of the user's own: a corpus, or a file of systems."""

import os
import shlex
import shutil
from collections import Counter
from collections.abc import Iterator, Mapping
from importlib import resources
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from dagster_project.profiles import (
    SYSTEMS_FILE,
    benchmarks_for,
    profile_from_environment,
    sources_for,
)
from dagster_project.terminal import Commands, print_text, report_errors
from decomposerl.errors import ConfigError
from resources.store.paths import text_of

if TYPE_CHECKING:
    from decomposerl.claims.claim import Record, Reject
    from decomposerl.claims.column_guess import Role, Side, Split
    from decomposerl.claims.source import CorpusFiles, NativeFile

CorporaOption = Annotated[
    Path | None, typer.Option(help="Folder of the corpora; default: DECOMPOSERL_CORPORA.")
]
_Column = Annotated[str, typer.Option(metavar="COLUMN", help="Instead of the guess.")]
_TEMPLATE = "systems_template.toml"
_Labels = Annotated[list[str] | None, typer.Option(metavar="LABEL", help="Repeatable.")]

init = typer.Typer(
    cls=Commands, no_args_is_help=True, help="Start a corpus or a systems.toml of your own."
)


@init.command("corpus")
@report_errors
def corpus(  # noqa: PLR0913 - each is one option of the command
    name: Annotated[str, typer.Argument(help="Lower-case letters, digits and _.")],
    *,
    file: Annotated[
        Path | None, typer.Option("--from", help="Its rows: JSONL, JSON, CSV, TSV or Parquet.")
    ] = None,
    corpora: CorporaOption = None,
    claim: _Column = "",
    evidence: _Column = "",
    label: _Column = "",
    supported: _Labels = None,
    refuted: _Labels = None,
    preview: Annotated[
        int | None,
        typer.Option(
            min=1,
            metavar="N",
            help="Print the first N claims and the counts of all rows; write nothing. Without "
            "--from: of the source.toml that is there.",
        ),
    ] = None,
) -> None:
    """Write a commented source.toml after looking at the columns and labels of a file.

    A file that is not in the corpora folder is copied there. Nothing is overwritten.
    """
    folder = _named_folder(corpora)
    target = folder / name / "source.toml"
    if file is None:
        _preview_existing(target, folder, preview)
        return
    _refuse_taken(name, target, folder)
    named: dict[Role, str] = {"claim": claim, "evidence": evidence, "label": label}
    given: dict[Side, list[str]] = {"supported": supported or [], "refuted": refuted or []}
    columns = {role: column for role, column in named.items() if column}
    _from_file(name, file, folder, columns=columns, given=given, preview=preview)


def _from_file(
    name: str,
    file: Path,
    folder: Path,
    *,
    columns: "Mapping[Role, str]",
    given: "Mapping[Side, list[str]]",
    preview: int | None,
) -> None:
    """Guess and write a source.toml for a file, which is copied there; or only preview it."""
    from decomposerl.claims import column_guess as guessing
    from decomposerl.claims.generic import native_file
    from decomposerl.claims.source_file import source_toml

    target = folder / name / "source.toml"
    inside = _path_inside(file, folder)
    path = inside or f"{name}/{file.name}"
    if inside is None and os.path.lexists(folder / path):
        raise ConfigError(f"{folder / path} is there already; name it with --from")
    split = guessing.guess_split(path)
    native = native_file(path, split)
    guess = guessing.guess_columns(_first_rows(file, native), columns)
    counts = _label_counts(file, native, guess.columns["label"])
    sides = guessing.guess_sides(counts, given)
    text = source_toml(name, native.path, split, guess, sides, counts)
    if preview is not None:
        from dagster_project.corpus_preview import OneFile

        _print_preview(text, target, OneFile(native.path, file), preview)
        return
    _write(text, target, None if inside else (file, folder / path))
    _report(target, guess.columns, sides, split)


@init.command("systems")
@report_errors
def systems(
    *,
    data: Annotated[
        Path | None,
        typer.Option("--data", help="Data folder; default: DECOMPOSERL_DATA, then data/."),
    ] = None,
    file: Annotated[
        Path | None,
        typer.Option("--systems", help="The file to write; default: systems.toml in the folder."),
    ] = None,
) -> None:
    """Write a commented systems.toml with ready entries for endpoints, adapters and verifiers.

    Nothing is overwritten. Every entry is commented out.
    """
    from resources.store.temporary import replace_file

    profile = profile_from_environment()
    target = file or (data / SYSTEMS_FILE if data is not None else profile.systems_file)
    if os.path.lexists(target):
        raise ConfigError(f"{target} is there already; edit it, or name another with --systems")
    text = resources.files("dagster_project").joinpath(_TEMPLATE).read_text("utf-8")
    target.parent.mkdir(parents=True, exist_ok=True)
    replace_file(target, lambda aside: aside.write_text(text, "utf-8"))
    print_text(f"wrote {target}: uncomment the entries that you need, then")
    named = ""
    if target.resolve() != profile.systems_file.resolve():
        named = f"DECOMPOSERL_SYSTEMS={shlex.quote(str(target))} "
    print_text(f"{named}decomposerl doctor && {named}decomposerl evaluate --list")


def corpora_folder(corpora: Path | None) -> Path:
    """The folder that is named, else the environment's; it is made where it is not there.

    Raises:
        ConfigError: neither is set.
    """
    folder = _named_folder(corpora)
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def _named_folder(corpora: Path | None) -> Path:
    if corpora is None:
        corpora = profile_from_environment().corpora
    if corpora is None:
        raise ConfigError("no target folder: give --corpora FOLDER or set DECOMPOSERL_CORPORA")
    return corpora.resolve()


def _preview_existing(target: Path, folder: Path, most: int | None) -> None:
    from resources.corpora.folder import FolderCorpora

    if most is None:
        raise ConfigError("name the file of its rows with --from")
    if not os.path.lexists(target):
        raise ConfigError(f"{target} is not there: name a file of rows with --from")
    _print_preview(text_of(target), target, FolderCorpora(folder), most)


def _print_preview(text: str, target: Path, files: "CorpusFiles", most: int) -> None:
    from dagster_project.corpus_preview import preview_text

    print_text(preview_text(text, str(target), files, most))


def _refuse_taken(name: str, target: Path, folder: Path) -> None:
    from dataclasses import replace

    if os.path.lexists(target):
        raise ConfigError(f"{target} is there already; edit it, or choose another name")
    profile = replace(profile_from_environment(), corpora=folder)
    if name in {corpus.name for corpus in (*sources_for(profile), *benchmarks_for(profile))}:
        raise ConfigError(f"the corpus name '{name}' is taken; choose another")


def _path_inside(file: Path, folder: Path) -> str | None:
    """The file's path below the corpora folder; None where it is elsewhere."""
    path = file.resolve()
    return path.relative_to(folder).as_posix() if path.is_relative_to(folder) else None


def _records(file: Path, native: "NativeFile") -> Iterator["Record | Reject"]:
    from resources.corpora.folder import records_of

    return records_of(file, native)


def _first_rows(file: Path, native: "NativeFile") -> list[Mapping[str, object]]:
    """The fields of the first rows.

    Raises:
        ConfigError: no row can be read.
    """
    from decomposerl.claims.claim import Record, Reject
    from decomposerl.claims.column_guess import SAMPLE_ROWS

    outcomes = list(islice(_records(file, native), SAMPLE_ROWS))
    rows = [one.fields for one in outcomes if isinstance(one, Record)]
    if not rows:
        first = next((one for one in outcomes if isinstance(one, Reject)), None)
        why = f": {first.reason}, {first.detail}" if first is not None else ""
        raise ConfigError(f"{file} has no row that can be read{why}")
    return rows


def _label_counts(file: Path, native: "NativeFile", column: str) -> Counter[str]:
    """The rows of each label in the whole file, most frequent first."""
    from decomposerl.claims.claim import Record
    from decomposerl.claims.generic_rows import label_of

    labels = (
        label_of(one.fields, column) for one in _records(file, native) if isinstance(one, Record)
    )
    return Counter(dict(Counter(label for label in labels if label).most_common()))


def _write(text: str, target: Path, copied: tuple[Path, Path] | None) -> None:
    """Write the file, which must load, and copy the rows."""
    from decomposerl.claims.generic import parse_source_toml
    from resources.store.temporary import replace_file

    parse_source_toml(text, str(target))
    if copied is not None:
        source, to = copied
        replace_file(to, lambda aside: shutil.copyfile(source, aside))
    replace_file(target, lambda aside: aside.write_text(text, "utf-8"))


def _report(
    target: Path,
    columns: Mapping["Role", str],
    sides: Mapping["Side", list[str]],
    split: "Split",
) -> None:
    for role, column in columns.items():
        print_text(f"{role:<10} {column}")
    for side, labels in sides.items():
        if labels:
            print_text(f"{side:<10} {', '.join(labels)}")
    if sides["drop"]:
        print_text("the labels in 'drop' were not recognised: move each to its side")
    kind = "benchmark" if split == "test" else "claims"
    print_text(f"\nwrote {target}: check every line of it, then")
    corpora = shlex.quote(str(target.parent.parent))
    print_text(f"DECOMPOSERL_CORPORA={corpora} decomposerl run {kind}/{target.parent.name}")
