"""``decomposerl build-pages``: the page databases of HoVer, Ex-FEVER, FEVER and FEVEROUS."""

import shutil
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from dagster_project.environment import corpora_for, read_settings
from dagster_project.fetch_command import CorporaOption, corpora_folder
from dagster_project.progress_display import shown_progress
from dagster_project.terminal import JsonOption, print_json, print_text, report_errors
from decomposerl.errors import ConfigError

_SHOWN_TITLES = 5


@report_errors
def build_pages(
    corpus: Annotated[str, typer.Argument(help="hover, ex_fever, fever or feverous.")],
    *,
    dump: Annotated[
        Path | None,
        typer.Option("--from", help="The dump, or a folder of its files; default: its place."),
    ] = None,
    corpora: CorporaOption = None,
    only_needed: Annotated[
        bool, typer.Option("--only-needed", help="Only the pages that claims on disk name.")
    ] = False,
    replace_old: Annotated[
        bool, typer.Option("--replace", help="Build again where the database is there.")
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """Build the page database of a corpus from its public dump, without unpacking the dump.

    One pass: a build that was ended begins again when the same command is run.
    """
    from resources.corpora.page_build import PAGE_SETS, bytes_in, megabytes, named_pages
    from resources.corpora.page_build import build_pages as build

    if corpus not in PAGE_SETS:
        raise ConfigError(
            f"there is no page database of '{corpus}', only of: {', '.join(PAGE_SETS)}"
        )
    folder, pages, needed = corpora_folder(corpora), PAGE_SETS[corpus], None
    folder.mkdir(parents=True, exist_ok=True)
    places = [dump] if dump else [folder / place / pages.file for place in pages.places]
    dump = next(filter(Path.exists, places), None)
    if dump is None:
        raise ConfigError(
            f"no dump for {pages.name}: get {pages.file} ({megabytes(pages.size)}, "
            f"{pages.license}) from {pages.address} and put it at {places[0]}, or name it "
            "with --from"
        )
    with shown_progress() as say:
        if only_needed:
            settings = read_settings().with_paths(corpora=folder)
            every = (one for part in corpora_for(settings) for one in part)
            needed = named_pages([one for one in every if one.name == corpus], folder)
        else:
            needs = megabytes(bytes_in(dump) * pages.database // pages.size)
            free = megabytes(shutil.disk_usage(folder).free)
            say(f"the database will need about {needs}; {free} are free")
        built = build(pages, dump, folder / pages.target, needed, replace=replace_old)
    if as_json:
        facts = {"target": str(built.target), "dump": dump.name, "needed": needed and len(needed)}
        print_json(asdict(built) | facts)
        return
    print_text(f"{built.target}: {built.pages:,} pages, {megabytes(built.size)}, from {dump.name}")
    print_text(
        f"left out: {built.repeated:,} repeated titles, {built.unreadable:,} unreadable lines"
    )
    if built.missing:
        more = len(built.missing) > _SHOWN_TITLES
        titles = ", ".join(built.missing[:_SHOWN_TITLES]) + ", …" * more
        missing = f"{len(built.missing):,} of the {len(needed or ()):,} pages that claims name"
        print_text(f"{missing} are not in the dump: {titles}")
