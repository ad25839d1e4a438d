"""``decomposerl fetch``: the public files of training corpora and test sets."""

import re
from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from dagster_project.environment import read_settings
from dagster_project.terminal import (
    JsonOption,
    Terminal,
    print_columns,
    print_failure,
    print_json,
    print_note,
    print_text,
    report_errors,
)
from decomposerl.errors import ConfigError, DecomposeRLError

if TYPE_CHECKING:
    from decomposerl.claims.downloads import Access
    from resources.corpora.fetching import Fetcher

_ADDRESS = re.compile(r"https?://[\w.-]+(:\d+)?(/[\w./~%-]*)?", re.ASCII)
CorporaOption = Annotated[
    Path | None, typer.Option(help="Folder of the corpora; default: DECOMPOSERL_CORPORA.")
]
_Names = Annotated[
    list[str] | None, typer.Argument(help="Corpora, as --list names them.", show_default=False)
]
_All = Annotated[bool, typer.Option("--all", help="All of them.")]
_List = Annotated[
    bool, typer.Option("--list", help="Only list: how obtained, files, size, licence.")
]
_Pages = Annotated[bool, typer.Option("--pages", help="Also the page databases: several GB each.")]
_Accept = Annotated[bool, typer.Option("--accept-terms", help="You have read the terms; recorded.")]
_Changed = Annotated[
    bool, typer.Option("--accept-changed", help="Take content with another checksum.")
]
_Mirror = Annotated[
    str, typer.Option(help="A server with https://host/path as MIRROR/host/path.", metavar="URL")
]


@report_errors
def fetch(  # noqa: PLR0913 - each is one option of the command
    names: _Names = None,
    *,
    every: _All = False,
    list_only: _List = False,
    pages: _Pages = False,
    accept_terms: _Accept = False,
    accept_changed: _Changed = False,
    corpora: CorporaOption = None,
    mirror: _Mirror = "",
    as_json: JsonOption = False,
) -> None:
    """Fetch corpora and test sets, check and lay out their files; shows the terms first.

    Continues broken downloads. Exits with 1 where files are missing that you must get.
    """
    from decomposerl.claims.downloads import ACCESS, size_text
    from resources.corpora.fetching import Fetcher

    if mirror and not _ADDRESS.fullmatch(mirror):
        raise ConfigError(f"--mirror is no address such as https://host/folder: {mirror}")
    if unknown := [name for name in names or () if name not in ACCESS]:
        raise ConfigError(f"there is no corpus '{unknown[0]}'; there are {', '.join(ACCESS)}")
    if not (names or every or list_only):
        raise ConfigError("name a corpus, or give --all; --list shows what there is")
    chosen = [ACCESS[name] for name in (ACCESS if every or not names else dict.fromkeys(names))]
    if list_only:
        return _list(chosen, corpora or read_settings().paths.corpora, as_json=as_json)
    fetcher = Fetcher(root=corpora_folder(corpora), mirror=mirror, accept_changed=accept_changed)
    show = print_note if as_json else print_text
    new = [one for one in chosen if not fetcher.accepts(one.corpus, now=accept_terms)]
    for access in new:
        show(
            f"{access.corpus.title} ({access.name}): {access.obtained}, {size_text(access)}\n"
            f"  licence   {access.corpus.license}\n"
            f"  terms     {access.corpus.terms}\n"
            f"  homepage  {access.corpus.homepage}"
        )
    if new and not accept_terms:
        raise ConfigError(
            "nothing was fetched: read the terms above, then run the command with --accept-terms"
        )
    rows: list[dict[str, Any]] = []
    codes = [_fetched(fetcher, access, rows, pages, show) for access in chosen]
    if as_json:
        print_json(rows)
    raise typer.Exit(max(codes))


def corpora_folder(corpora: Path | None) -> Path:
    """The folder that is named, else the environment's; it may not be there yet.

    Raises:
        ConfigError: neither is set.
    """
    folder = corpora or read_settings().paths.corpora
    if folder is None:
        raise ConfigError("no target folder: give --corpora FOLDER or set DECOMPOSERL_CORPORA")
    return folder.resolve()


def _list(chosen: "Sequence[Access]", folder: Path | None, *, as_json: bool) -> None:
    """Print the fields of each corpus and its downloads; as a table, what is in the folder too."""
    from decomposerl.claims.downloads import size_text
    from resources.corpora.status import differing_files, missing_files

    if as_json:
        facts = ("title", "homepage", "license", "terms")
        own = [{fact: getattr(access.corpus, fact) for fact in facts} for access in chosen]
        pairs = zip(chosen, own, strict=True)
        print_json([{**asdict(one), **said, "command": one.command()} for one, said in pairs])
        return
    rows = []
    for access in chosen:
        wanted, there = len(access.files(pages=False)), "?"
        if folder is not None:
            differing = differing_files(folder, access)
            there = str(wanted - len(missing_files(folder, access)) - len(differing))
            for path, why in differing.items():
                command = access.command(pages=False)
                print_note(f"{folder / path} {why}; move it away, then {command}")
        files, licence = f"{there} of {wanted}", access.corpus.license
        rows.append((access.name, access.obtained, files, size_text(access), licence))
    print_columns(("corpus", "obtained", "files", "size", "licence"), rows)


def _fetched(
    fetcher: "Fetcher",
    access: "Access",
    rows: list[dict[str, Any]],
    pages: bool,  # noqa: FBT001 - as the option
    show: Callable[[str], None],
) -> int:
    """The exit code of a corpus: 0, 2 for a failure, 1 for a step that a person has to do.

    Its files are added to ``rows``. A failure ends one corpus, not the others.
    """
    from dagster_project.progress_display import ProgressDisplay
    from resources.corpora.status import missing_files

    try:
        with ProgressDisplay(Terminal(stderr=True)):
            for file in fetcher.fetch(access, pages=pages):
                rows.append({"corpus": access.name, **asdict(file)})
                show(f"{file.state}: {fetcher.root / file.path}")
                if file.replaced:
                    print_note(f"what was at {file.path} is {file.replaced} beside it now")
    except DecomposeRLError as error:
        print_failure(f"{access.name}: {error}")
        return 2
    lacks = missing_files(fetcher.root, access)
    if access.step and (lacks or access.obtained != "manual"):
        show(f"{access.name}: {access.step} (in {fetcher.root})")
    return int(bool(lacks))
