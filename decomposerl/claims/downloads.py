"""Where the files of every training corpus and test set are, and how a person obtains them.

The addresses are in ``addresses.toml``, whose keys are the fields of ``Download`` and ``Access``.
Each names the public page or repository that it was read from (``checked_in``). Files in Git
repositories are pinned by commit. Sizes and checksums are those that a repository's own objects or
a named publication state; any other checksum is recorded at the first fetch and held from then on.
"""

import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from importlib.resources import files

from decomposerl.claims.catalogue import BENCHMARKS, SOURCES
from decomposerl.claims.source import Corpus

_MOST_BYTES, _MOST_PAGE_BYTES = 4_000_000_000, 80_000_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Download:
    """One address and the files below the corpora folder that it gives.

    ``files`` maps a name to a path: the name is that of a member of an archive, without folders,
    or a pattern that one file of a hub's repository matches; it is empty where the address gives
    the file itself. ``repo_id`` is a dataset of the hub, whose page ``url`` is; files that a person
    has to place have no ``url``. ``size`` is in bytes, None where none is published; ``about`` then
    says what is known of it. ``unpacked`` is roughly what the files of a large archive need on the
    disk besides it. ``sha256`` and ``git_blob`` (the id of the object in a Git repository) are of
    the download and empty where none is published. ``redirects`` are hosts besides the address's
    own that may send it. ``pages`` marks a page database, which is fetched only on request.
    """

    url: str
    files: Mapping[str, str]
    checked_in: str
    repo_id: str = ""
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

    ``obtained`` is ``direct``, ``hub`` or ``manual``; ``gated`` beside it: that needs a token of an
    account that has accepted the terms. ``step`` is what a person has to do: place files, or get
    what a download lacks (``in part``). ``other`` are files that the reader also takes and that are
    not fetched, each with the reason.
    """

    name: str
    obtained: str
    downloads: Sequence[Download]
    step: str = ""
    other: Mapping[str, str] = field(default_factory=dict)

    def files(self, *, pages: bool = True) -> tuple[str, ...]:
        """The paths that a fetch, or the manual step, gives; with or without page databases."""
        wanted = (one for one in self.downloads if pages or not one.pages)
        return tuple(path for download in wanted for path in download.files.values())

    @property
    def corpus(self) -> Corpus:
        """The training corpus, or the test set where there is none."""
        return {corpus.name: corpus for corpus in (*BENCHMARKS, *SOURCES)}[self.name]

    def command(self, *, pages: bool = True) -> str:
        """The command that fetches it; with or without page databases, if it has any."""
        pages = pages and any(download.pages for download in self.downloads)
        return f"decomposerl fetch {self.name}{' --pages' * pages}"


_TABLES = tomllib.loads(files(__package__).joinpath("addresses.toml").read_text("utf-8"))
ACCESS: Mapping[str, Access] = {
    name: Access(name=name, **{**table, "downloads": [Download(**one) for one in downloads]})
    for name, table in _TABLES.items()
    for downloads in (table["downloads"],)
}
"""By the name of the corpus, which a training corpus and its test set share."""


def how_to_obtain(access: Access | None) -> str:
    """One sentence on how the files are obtained; empty for a corpus of the user."""
    if access is None:
        return ""
    if access.obtained == "manual":
        return f"To get them: {access.step}."
    gate = " after you have accepted its terms on the hub" * ("gated" in access.obtained)
    note = f"; {access.step}" * bool(access.step)
    return f"`{access.command()}` gets the files{gate} ({size_text(access)}){note}."


def size_text(access: Access) -> str:
    """``9.2 MB``, ``9.2 MB and more`` where a size is not published; page databases apart."""
    claims = [one for one in access.downloads if one.url and not one.pages]
    known = sum(download.size or 0 for download in claims)
    parts = [f"{known / 1e6:,.1f} MB"] * (known > 0)
    parts += sorted({download.about or "more" for download in claims if download.size is None})
    parts = ["size not published"] if parts in ([], ["more"]) else parts
    pages = [f"pages {one.about or 'of unknown size'}" for one in access.downloads if one.pages]
    return "; ".join([" and ".join(parts), *pages])
