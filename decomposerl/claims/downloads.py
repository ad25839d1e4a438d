"""Where the files of every training corpus and test set are, and how a person obtains them.

The addresses are in ``addresses.toml``, whose keys are the fields of ``Download`` and ``Access``.
Each names the public page or repository that it was read from (``checked_in``). Files in Git
repositories are pinned by commit. Sizes and checksums are those that a repository's own objects or
a named publication state; any other checksum is recorded at the first fetch and held from then on.
"""

import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from importlib.resources import files
from typing import Any

from decomposerl.claims.catalogue import BENCHMARKS, SOURCES
from decomposerl.claims.source import Corpus

_MOST_BYTES, _MOST_PAGE_BYTES = 4_000_000_000, 80_000_000_000
_HUB = "hf://datasets/"


@dataclass(frozen=True, slots=True, kw_only=True)
class Download:
    """One address and the files below the corpora folder that it gives.

    ``files`` maps a name to a path: the name is that of a member of an archive, without folders,
    or a pattern that one file of a hub's repository matches; it is empty where the address gives
    the file itself. A ``url`` may be ``hf://datasets/<repo_id>``, and is empty for files that a
    person has to place. ``size`` is in bytes, None where none is published; ``about`` then says
    what is known of it. ``unpacked`` is roughly what the files of a large archive need on the disk
    besides it. ``sha256`` and ``git_blob`` (the id of the object in a Git repository) are of the
    download and empty where none is published. ``redirects`` are hosts besides the address's own
    that may send it. ``pages`` marks a page database, which is fetched only on request.
    """

    url: str
    files: Mapping[str, str]
    checked_in: str
    size: int | None = None
    about: str = ""
    sha256: str = ""
    git_blob: str = ""
    unpacked: int = 0
    redirects: Sequence[str] = ()
    pages: bool = False

    @property
    def name(self) -> str:
        """The path of its first file, which names it in messages."""
        return next(iter(self.files.values()))

    @property
    def repo_id(self) -> str:
        """The repository of a dataset on the hub; empty for other addresses."""
        return self.url.removeprefix(_HUB) if self.url.startswith(_HUB) else ""

    @property
    def archive(self) -> bool:
        """Whether the files are members of an archive."""
        return any(self.files) and not self.repo_id

    @property
    def most_bytes(self) -> int:
        """The limit of the download; its unpacked files have the same, all together."""
        if self.size is not None and not self.archive:
            return self.size
        return _MOST_PAGE_BYTES if self.pages else _MOST_BYTES


@dataclass(frozen=True, slots=True, kw_only=True)
class Access:
    """How the files of the corpus ``name`` are obtained, as training corpus and as test set.

    ``step`` is what a person has to do: place files, or get what a download lacks. ``other`` are
    files that the reader also takes and that are not fetched, each with the reason. ``gated``:
    it needs an account that has accepted its terms, and a token.
    """

    name: str
    downloads: Sequence[Download]
    step: str = ""
    other: Mapping[str, str] = field(default_factory=dict)
    gated: bool = False

    def files(self, *, pages: bool = True) -> tuple[str, ...]:
        """The paths that a fetch, or the manual step, gives; with or without page databases."""
        wanted = (one for one in self.downloads if pages or not one.pages)
        return tuple(path for download in wanted for path in download.files.values())

    @property
    def corpus(self) -> Corpus:
        """The training corpus, or the test set where there is none."""
        return {corpus.name: corpus for corpus in (*BENCHMARKS, *SOURCES)}[self.name]

    @property
    def placed(self) -> tuple[str, ...]:
        """The paths that a person fills."""
        return tuple(path for one in self.downloads if not one.url for path in one.files.values())

    def command(self, *, pages: bool = True) -> str:
        """The command that fetches it; with or without page databases, if it has any."""
        pages = pages and any(download.pages for download in self.downloads)
        return f"decomposerl fetch {self.name}{' --pages' * pages}"

    @property
    def obtained(self) -> str:
        """``direct``, ``direct, in part``, ``hub``, ``hub, gated`` or ``manual``."""
        if self.placed:
            return "manual"
        how = "hub" if any(download.repo_id for download in self.downloads) else "direct"
        return how + ", gated" * self.gated + ", in part" * bool(self.step)


def _git_files(git: str, folder: str, to: str, objects: Sequence[str]) -> Iterator[Download]:
    """Files of the repository ``owner/name@commit``, each as object id, name and perhaps size."""
    owner, commit = git.split("@")
    for blob, name, *size in map(str.split, objects):
        yield Download(
            url=f"https://raw.githubusercontent.com/{owner}/{commit}/{folder}/{name}",
            files={"": f"{to}/{name}"},
            checked_in=f"https://github.com/{owner}/tree/{commit}/{folder}",
            git_blob=blob,
            size=int(size[0]) if size else None,
        )


def _access(name: str, table: Mapping[str, Any]) -> Access:
    downloads = list[Download]()
    for entry in table["downloads"]:
        downloads += _git_files(**entry) if "git" in entry else [Download(**entry)]
    return Access(name=name, **{**table, "downloads": downloads})


_TABLES = tomllib.loads(files(__package__).joinpath("addresses.toml").read_text("utf-8"))
ACCESS: Mapping[str, Access] = {name: _access(name, table) for name, table in _TABLES.items()}
"""By the name of the corpus, which a training corpus and its test set share."""


def how_to_obtain(access: Access | None) -> str:
    """One sentence on how the files are obtained; empty for a corpus of the user."""
    if access is None:
        return ""
    if access.obtained == "manual":
        return f"To get them: {access.step}."
    gate = " after you have accepted its terms on the hub" if access.gated else ""
    note = f"; {access.step}" if access.step else ""
    return f"`{access.command()}` gets the files{gate} ({size_text(access)}){note}."


def listed(access: Access) -> dict[str, Any]:
    """One row of ``fetch --list --json``: the fields of the types above, and what they say."""
    stated = ("title", "homepage", "license", "terms")
    facts = {name: getattr(access.corpus, name) for name in stated}
    return {**asdict(access), **facts, "obtained": access.obtained, "command": access.command()}


def size_text(access: Access) -> str:
    """``9.2 MB``, ``9.2 MB and more`` where a size is not published; page databases apart."""
    claims = [one for one in access.downloads if one.url and not one.pages]
    known = sum(download.size or 0 for download in claims)
    parts = [f"{known / 1e6:,.1f} MB"] * (known > 0)
    parts += sorted({download.about or "more" for download in claims if download.size is None})
    parts = ["size not published"] if parts in ([], ["more"]) else parts
    pages = [f"pages {one.about or 'of unknown size'}" for one in access.downloads if one.pages]
    return "; ".join([" and ".join(parts), *pages])
