"""Where the files of every training corpus and test set are, and how a person obtains them.

The addresses are in ``addresses.toml``, whose keys are the fields of ``Download`` and ``Access``.
Each names the public page or repository that it was read from (``checked_in``). Files in Git
repositories are pinned by commit. Sizes and checksums are those that a repository's own objects or
a named publication state; any other checksum is recorded at the first fetch and held from then on.
"""

import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib.resources import files
from typing import Any

from decomposerl.claims.catalogue import BENCHMARKS, SOURCES
from decomposerl.claims.source import Benchmark, Corpus, HubLocation, Source

_MOST_BYTES, _MOST_PAGE_BYTES = 4_000_000_000, 80_000_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Download:
    """One address and the files below the corpora folder that it gives.

    ``files`` are pairs of a name in the archive, without folders, and a path; a download that is
    the file itself has one pair with an empty name. ``size`` is in bytes, None where none is
    published; ``about`` then says what is known of it. ``unpacked`` is roughly what the files of a
    large archive need on the disk besides it. ``sha256`` and ``git_blob`` (the id of the
    object in a Git repository) are of the download and empty where none is published.
    ``redirects`` are hosts besides the address's own that may send it. ``pages`` marks a page
    database, which is fetched only on request.
    """

    url: str
    files: tuple[tuple[str, str], ...]
    checked_in: str
    size: int | None = None
    about: str = ""
    sha256: str = ""
    git_blob: str = ""
    unpacked: int = 0
    redirects: tuple[str, ...] = ()
    pages: bool = False

    @property
    def name(self) -> str:
        """The path of its first file, which names it in messages."""
        return self.files[0][1]

    @property
    def archive(self) -> bool:
        """Whether the files are members of an archive."""
        return any(name for name, _ in self.files)

    @property
    def hosts(self) -> frozenset[str]:
        """The hosts that may send it."""
        return frozenset({self.url.split("/")[2].split(":")[0], *self.redirects})

    @property
    def most_bytes(self) -> int:
        """The limit of the download; its unpacked files have the same, all together."""
        if self.size is not None and not self.archive:
            return self.size
        return _MOST_PAGE_BYTES if self.pages else _MOST_BYTES


@dataclass(frozen=True, slots=True, kw_only=True)
class Access:
    """How the files of the corpus ``name`` are obtained, as training corpus and as test set.

    ``step`` is what a person has to do: all of it where there are ``placed`` paths, which the
    person fills, else what the download lacks. ``other`` are files that the reader also takes and
    that are not fetched, each with the reason.
    """

    name: str
    downloads: tuple[Download, ...] = ()
    hub: HubLocation | None = None
    step: str = ""
    placed: tuple[str, ...] = ()
    other: tuple[tuple[str, str], ...] = ()
    checked_in: str = ""

    def files(self, *, pages: bool = True) -> tuple[str, ...]:
        """The paths that a fetch, or the manual step, gives; with or without page databases."""
        hub = self.hub.files if self.hub else ()
        fetched = (pair for download in self.wanted(pages=pages) for pair in download.files)
        return (*(path for _, path in (*fetched, *hub)), *self.placed)

    def wanted(self, *, pages: bool) -> tuple[Download, ...]:
        """The downloads with or without those of page databases."""
        return tuple(download for download in self.downloads if pages or not download.pages)

    @property
    def command(self) -> str:
        """The command that fetches all of it."""
        return fetch_command(self.name, pages=any(download.pages for download in self.downloads))

    @property
    def gated(self) -> bool:
        """Whether it needs an account that has accepted its terms, and a token."""
        return self.hub is not None and self.hub.gated

    @property
    def obtained(self) -> str:
        """``direct``, ``direct, in part``, ``hub``, ``hub, gated`` or ``manual``."""
        how = "hub" if self.hub else "manual" if self.placed else "direct"
        part = ", in part" * bool(self.downloads and self.step)
        return how + ", gated" * self.gated + part

    @property
    def sources(self) -> tuple[str, ...]:
        """The pages that its addresses were read from, each once."""
        pages = (self.checked_in, *(download.checked_in for download in self.downloads))
        return tuple(dict.fromkeys(filter(None, pages)))


def corpus_named(name: str) -> Source | Benchmark:
    """The training corpus of a name in ``ACCESS``, or the test set where it has none."""
    every: tuple[Source | Benchmark, ...] = (*SOURCES, *BENCHMARKS)
    return next(corpus for corpus in every if corpus.name == name)


def _accesses() -> Iterator[Access]:
    text = files(__package__).joinpath("addresses.toml").read_text("utf-8")
    for name, table in tomllib.loads(text).items():
        lists = {
            "downloads": tuple(_downloads(table.get("downloads", ()))),
            "placed": tuple(table.get("placed", ())),
            "other": tuple(table.get("other", {}).items()),
        }
        yield Access(name=name, hub=corpus_named(name).hub, **{**table, **lists})


def _downloads(tables: Sequence[Mapping[str, Any]]) -> Iterator[Download]:
    for table in tables:
        if "git" in table:
            yield from _git_files(**table)
        else:
            pairs, redirects = tuple(table["files"].items()), tuple(table.get("redirects", ()))
            yield Download(**{**table, "files": pairs, "redirects": redirects})


def _git_files(git: str, folder: str, to: str, objects: Sequence[str]) -> Iterator[Download]:
    """Files of the repository ``owner/name@commit``, each as object id, name and perhaps size."""
    owner, commit = git.split("@")
    for blob, name, *size in map(str.split, objects):
        yield Download(
            url=f"https://raw.githubusercontent.com/{owner}/{commit}/{folder}/{name}",
            files=(("", f"{to}/{name}"),),
            checked_in=f"https://github.com/{owner}/tree/{commit}/{folder}",
            git_blob=blob,
            size=int(size[0]) if size else None,
        )


ACCESS: Mapping[str, Access] = {access.name: access for access in _accesses()}
"""By the name of the corpus, which a training corpus and its test set share."""


def fetch_command(name: str, *, pages: bool = False) -> str:
    """The command that fetches a corpus."""
    return f"decomposerl fetch {name}{' --pages' * pages}"


def how_to_obtain(access: Access | None) -> str:
    """One sentence on how the files are obtained; empty for a corpus of the user."""
    if access is None:
        return ""
    if access.obtained == "manual":
        return f"To get them: {access.step}."
    gate = " after you have accepted its terms on the hub" if access.gated else ""
    note = f"; {access.step}" if access.step else ""
    return f"`{access.command}` gets the files{gate} ({size_text(access)}){note}."


def listed(access: Access, corpus: Corpus) -> dict[str, Any]:
    """One row of ``fetch --list --json``."""
    facts = ("about", "sha256", "git_blob", "pages", "checked_in")
    rows: list[dict[str, Any]] = []
    for download in access.downloads:
        stated = {name: getattr(download, name) for name in facts}
        for _, path in download.files:
            rows.append({"path": path, "address": download.url, "bytes": download.size, **stated})
    hub = access.hub
    named = {path: f"hf://datasets/{hub.repo_id}/{name}" for name, path in hub.files} if hub else {}
    empty = {"bytes": None, "about": "", "sha256": "", "git_blob": "", "pages": False}
    for path, address in {**named, **dict.fromkeys(access.placed, "")}.items():
        rows.append({"path": path, "address": address, **empty, "checked_in": access.checked_in})
    terms = {name: getattr(corpus, name) for name in ("homepage", "license", "terms")}
    return {
        "name": access.name,
        "title": corpus.title,
        "obtained": access.obtained,
        **terms,
        "step": access.step,
        "command": access.command,
        "files": rows,
        "not_fetched": [{"path": path, "reason": reason} for path, reason in access.other],
    }


def size_text(access: Access) -> str:
    """``9.2 MB``, ``9.2 MB and more`` where a size is not published; page databases apart."""
    claims = access.wanted(pages=False)
    known = [download.size for download in claims if download.size is not None]
    parts = [f"{sum(known) / 1e6:,.1f} MB"] if known else []
    parts += [download.about for download in claims if download.size is None and download.about]
    if not claims or any(download.size is None and not download.about for download in claims):
        parts += ["more"] if parts else ["size not published"]
    pages = [f"pages {one.about or 'of unknown size'}" for one in access.downloads if one.pages]
    return "; ".join([" and ".join(parts), *pages])
