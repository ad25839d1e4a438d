"""``decomposerl fetch``: the public files of training corpora and test sets."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from dagster_project.init_command import CorporaOption, corpora_folder
from dagster_project.profiles import profile_from_environment
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
    from resources.corpora.fetching import Fetched, Fetcher

_ADDRESS = re.compile(r"https?://[\w.-]+(:\d+)?(/[\w./~%-]*)?", re.ASCII)
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

    chosen = _chosen(names or [], every=every or (list_only and not names))
    if list_only:
        _list(chosen, corpora or profile_from_environment().corpora, as_json=as_json)
        return
    root, changed = corpora_folder(corpora), accept_changed
    fetcher = Fetcher(root=root, mirror=_address(mirror), accept_changed=changed, known=ACCESS)
    fetcher = replace(fetcher, endpoint=endpoint, revision=revision)
    _refuse_unaccepted(fetcher, chosen, accept=accept_terms, quiet=as_json)
    rows: list[dict[str, Any]] = []
    left = _fetch_each(fetcher, chosen, pages, rows, quiet=as_json)
    if as_json:
        print_json(rows)
    raise typer.Exit(max(left, default=0))


def _chosen(names: Sequence[str], *, every: bool) -> "list[Access]":
    from decomposerl.claims.addresses import ACCESS

    unknown = [name for name in names if name not in ACCESS]
    if unknown:
        known = ", ".join(ACCESS)
        raise ConfigError(f"there is no corpus '{unknown[0]}'; there are {known}")
    if not names and not every:
        raise ConfigError("name a corpus, or give --all; --list shows what there is")
    return list(ACCESS.values()) if every else [ACCESS[name] for name in dict.fromkeys(names)]


def _address(mirror: str) -> str:
    if mirror and not _ADDRESS.fullmatch(mirror):
        raise ConfigError(f"--mirror is no address such as https://host/folder: {mirror}")
    return mirror


def _list(chosen: "Sequence[Access]", folder: Path | None, *, as_json: bool) -> None:
    from decomposerl.claims.addresses import corpus_named
    from decomposerl.claims.downloads import fetch_command, listed, size_text
    from resources.corpora.status import differing_files, missing_files

    corpora = [(one, corpus_named(one.name)) for one in chosen]
    if as_json:
        print_json([listed(one, corpus) for one, corpus in corpora])
        return
    cells, notes = [], []
    for one, corpus in corpora:
        wanted, there = one.files(pages=False), "?"
        if folder is not None:
            differing = differing_files(folder, one)
            notes += [
                f"{folder / path} is damaged or another version: {why}; "
                f"move it away, then {fetch_command(one.name)}"
                for path, why in differing.items()
            ]
            there = str(len(wanted) - len(missing_files(folder, one)) - len(differing))
        row = (one.name, one.obtained, f"{there} of {len(wanted)}", size_text(one), corpus.license)
        cells.append(row)
    print_columns(("corpus", "obtained", "files", "size", "licence"), cells)
    for note in notes:
        print_note(note)


def _refuse_unaccepted(
    fetcher: "Fetcher",
    chosen: "Sequence[Access]",
    *,
    accept: bool,
    quiet: bool,
) -> None:
    """Show the terms that nobody accepted yet, record them as accepted, or refuse.

    ``quiet`` shows them on standard error.

    Raises:
        ConfigError: they were not accepted; nothing was fetched.
    """
    from decomposerl.claims.addresses import corpus_named

    new = [one for one in chosen if not fetcher.accepted(corpus_named(one.name))]
    for one in new:
        for line in _terms_lines(one):
            (print_note if quiet else print_text)(line)
    if new and not accept:
        raise ConfigError(
            "nothing was fetched: read the terms above, then run the command with --accept-terms"
        )
    for one in new:
        fetcher.accept(corpus_named(one.name))


def _terms_lines(access: "Access") -> Iterator[str]:
    from decomposerl.claims.addresses import corpus_named
    from decomposerl.claims.downloads import size_text

    corpus = corpus_named(access.name)
    yield f"{corpus.title} ({access.name}): {access.obtained}, {size_text(access)}"
    yield f"  licence   {corpus.license}"
    yield f"  terms     {corpus.terms}"
    yield f"  homepage  {corpus.homepage}"


def _fetch_each(
    fetcher: "Fetcher",
    chosen: "Sequence[Access]",
    pages: bool,  # noqa: FBT001
    rows: list[dict[str, Any]],
    *,
    quiet: bool,
) -> list[int]:
    """The exit codes of corpora that are not complete: 2 for a failure, 1 for a step to do.

    A failure ends one corpus, not the others.
    """
    from dagster_project.progress_display import ProgressDisplay
    from resources.corpora.status import missing_files

    codes = []
    for access in chosen:
        try:
            with ProgressDisplay(Terminal(stderr=True)):
                for one in fetcher.fetch(access, pages=pages):
                    rows.append({"corpus": access.name, **asdict(one)})
                    _say(fetcher, one, quiet=quiet)
        except DecomposeRLError as error:
            if len(chosen) == 1 and not isinstance(error, SourceError):
                raise
            print_failure(f"{access.name}: {error}")
            codes.append(2)
            continue
        lacks = missing_files(fetcher.root, access)
        if access.step and (lacks or access.how != "manual"):
            said = print_note if quiet else print_text
            said(f"{access.name}: {access.step} (in {fetcher.root})")
        if lacks:
            codes.append(1)
    return codes


def _say(fetcher: "Fetcher", one: "Fetched", *, quiet: bool) -> None:
    said = {
        "fetched": "",
        "kept": " (as fetched before)",
        "found": " (was there; not from a fetch)",
        "linked": " (the same download as another corpus's file)",
    }
    if not quiet:
        print_text(f"{fetcher.root / one.path}{said[one.state]}")
    if one.replaced:
        print_note(f"what was at {one.path} is {one.replaced} beside it now")
