"""``decomposerl fetch``: the public files of training corpora and test sets."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from dagster_project.environment import read_settings
from dagster_project.init_command import CorporaOption, corpora_folder
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
from decomposerl.errors import ConfigError, DecomposeRLError, SourceError

if TYPE_CHECKING:
    from decomposerl.claims.downloads import Access
    from decomposerl.claims.source import Corpus
    from resources.corpora.fetching import Fetcher

_ADDRESS = re.compile(r"https?://[\w.-]+(:\d+)?(/[\w./~%-]*)?", re.ASCII)
_STATES = {
    "fetched": "",
    "kept": " (as fetched before)",
    "found": " (was there; not from a fetch)",
    "linked": " (the same download as another corpus's file)",
}
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
_Revision = Annotated[
    str | None, typer.Option(help="Hub: commit to pin; default: the locked, else the newest.")
]
_Endpoint = Annotated[
    str | None, typer.Option(help="Another hub, or file:///folder with a hub's layout.")
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
    revision: _Revision = None,
    endpoint: _Endpoint = None,
    as_json: JsonOption = False,
) -> None:
    """Fetch corpora and test sets, check and lay out their files; shows the terms first.

    Continues broken downloads. Exits with 1 where files are missing that you must get.
    """
    from decomposerl.claims.addresses import ACCESS
    from resources.corpora.fetching import Fetcher

    if mirror and not _ADDRESS.fullmatch(mirror):
        raise ConfigError(f"--mirror is no address such as https://host/folder: {mirror}")
    chosen = _chosen(names or [], every=every or (list_only and not names))
    if list_only:
        _list(chosen, corpora or read_settings().paths.corpora, as_json=as_json)
        return
    fetcher = Fetcher(
        root=corpora_folder(corpora),
        mirror=mirror,
        accept_changed=accept_changed,
        endpoint=endpoint,
        revision=revision,
        known=ACCESS,
    )
    said = print_note if as_json else print_text
    new = [(access, corpus) for access, corpus in chosen if not fetcher.accepted(corpus)]
    for access, corpus in new:
        said("\n".join(_terms_lines(access, corpus)))
    if new and not accept_terms:
        raise ConfigError(
            "nothing was fetched: read the terms above, then run the command with --accept-terms"
        )
    for _, corpus in new:
        fetcher.accept(corpus)
    rows: list[dict[str, Any]] = []
    codes = [_fetched(fetcher, access, rows, pages, len(chosen), as_json) for access, _ in chosen]
    if as_json:
        print_json(rows)
    raise typer.Exit(max(codes))


def _chosen(names: Sequence[str], *, every: bool) -> "list[tuple[Access, Corpus]]":
    from decomposerl.claims.addresses import ACCESS, corpus_named

    unknown = [name for name in names if name not in ACCESS]
    if unknown:
        known = ", ".join(ACCESS)
        raise ConfigError(f"there is no corpus '{unknown[0]}'; there are {known}")
    if not names and not every:
        raise ConfigError("name a corpus, or give --all; --list shows what there is")
    return [
        (ACCESS[name], corpus_named(name)) for name in (ACCESS if every else dict.fromkeys(names))
    ]


def _list(chosen: "Sequence[tuple[Access, Corpus]]", folder: Path | None, *, as_json: bool) -> None:
    from decomposerl.claims.downloads import fetch_command, listed, size_text
    from resources.corpora.status import differing_files, missing_files

    if as_json:
        print_json([listed(access, corpus) for access, corpus in chosen])
        return
    cells, notes = [], []
    for access, corpus in chosen:
        wanted, there = len(access.files(pages=False)), "?"
        if folder is not None:
            differing = differing_files(folder, access)
            notes += [
                f"{folder / path} is damaged or another version: {why}; "
                f"move it away, then {fetch_command(access.name)}"
                for path, why in differing.items()
            ]
            there = str(wanted - len(missing_files(folder, access)) - len(differing))
        files = f"{there} of {wanted}"
        cells.append((access.name, access.obtained, files, size_text(access), corpus.license))
    print_columns(("corpus", "obtained", "files", "size", "licence"), cells)
    for note in notes:
        print_note(note)


def _terms_lines(access: "Access", corpus: "Corpus") -> Iterator[str]:
    from decomposerl.claims.downloads import size_text

    yield f"{corpus.title} ({access.name}): {access.obtained}, {size_text(access)}"
    yield f"  licence   {corpus.license}"
    yield f"  terms     {corpus.terms}"
    yield f"  homepage  {corpus.homepage}"


def _fetched(
    fetcher: "Fetcher",
    access: "Access",
    rows: list[dict[str, Any]],
    pages: bool,  # noqa: FBT001
    count: int,
    quiet: bool,  # noqa: FBT001
) -> int:
    """The exit code of a corpus: 0, 2 for a failure, 1 for a step that a person has to do.

    A failure ends one corpus, not the others of ``count``.
    """
    from dagster_project.progress_display import ProgressDisplay
    from resources.corpora.status import missing_files

    said = print_note if quiet else print_text
    try:
        with ProgressDisplay(Terminal(stderr=True)):
            for file in fetcher.fetch(access, pages=pages):
                rows.append({"corpus": access.name, **asdict(file)})
                if not quiet:
                    print_text(f"{fetcher.root / file.path}{_STATES[file.state]}")
                if file.replaced:
                    print_note(f"what was at {file.path} is {file.replaced} beside it now")
    except DecomposeRLError as error:
        if count == 1 and not isinstance(error, SourceError):
            raise
        print_failure(f"{access.name}: {error}")
        return 2
    lacks = missing_files(fetcher.root, access)
    if access.step and (lacks or access.how != "manual"):
        said(f"{access.name}: {access.step} (in {fetcher.root})")
    return int(bool(lacks))
