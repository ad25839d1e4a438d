"""How the files of a corpus are obtained: the types, and what is listed of each.

The addresses are in ``addresses.toml``; ``resources/corpora/fetching.py`` fetches them.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal

from decomposerl.claims.source import Corpus, HubLocation

How = Literal["direct", "hub", "manual"]
"""``hub``: from the Hugging Face hub, gated or not; ``manual``: a person downloads it."""
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
    database, which is fetched only on request. ``checked_in`` is the public page or repository
    that address, size and checksum were read from.
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

    ``step`` is what a person has to do: all of it for ``manual``, else what the download lacks.
    ``placed`` are the paths that a person fills in that step. ``other`` are files that the reader
    also takes and that are not fetched, each with the reason.
    """

    name: str
    downloads: tuple[Download, ...] = ()
    hub: HubLocation | None = None
    step: str = ""
    placed: tuple[str, ...] = ()
    other: tuple[tuple[str, str], ...] = ()
    checked_in: str = ""

    @property
    def how(self) -> How:
        """How a person gets them."""
        return "hub" if self.hub else "manual" if self.placed else "direct"

    def files(self, *, pages: bool = True) -> tuple[str, ...]:
        """The paths that a fetch, or the manual step, gives; with or without page databases."""
        return (
            *(path for one in self.wanted(pages=pages) for _, path in one.files),
            *(path for _, path in (self.hub.files if self.hub else ())),
            *self.placed,
        )

    def wanted(self, *, pages: bool) -> tuple[Download, ...]:
        """The downloads with or without those of page databases."""
        return tuple(one for one in self.downloads if pages or not one.pages)

    @property
    def page_files(self) -> tuple[str, ...]:
        """The page databases."""
        return tuple(path for one in self.downloads if one.pages for _, path in one.files)

    @property
    def gated(self) -> bool:
        """Whether it needs an account that has accepted its terms, and a token."""
        return self.hub is not None and self.hub.gated

    @property
    def obtained(self) -> str:
        """``direct``, ``direct, in part``, ``hub``, ``hub, gated`` or ``manual``."""
        part = ", in part" * bool(self.downloads and self.step)
        return f"{self.how}, gated{part}" if self.gated else f"{self.how}{part}"

    @property
    def sources(self) -> tuple[str, ...]:
        """The pages that its addresses were read from, each once."""
        read = (one.checked_in for one in self.downloads)
        return tuple(dict.fromkeys(filter(None, (self.checked_in, *read))))


def fetch_command(name: str, *, pages: bool = False) -> str:
    """The command that fetches a corpus."""
    return f"decomposerl fetch {name}{' --pages' * pages}"


def how_to_obtain(access: Access | None) -> str:
    """One sentence on how the files are obtained; empty for a corpus of the user."""
    if access is None:
        return ""
    command = f"`{fetch_command(access.name, pages=bool(access.page_files))}`"
    gate = " after you have accepted its terms on the hub" if access.gated else ""
    if access.how == "manual":
        return f"To get them: {access.step}."
    note = f"; {access.step}" if access.step else ""
    return f"{command} gets the files{gate} ({size_text(access)}){note}."


def listed(access: Access, corpus: Corpus) -> dict[str, Any]:
    """One row of ``fetch --list --json``.

    ``name``, ``title``, ``obtained``, ``homepage``, ``license``, ``terms``, ``step``, ``files``
    (each with ``path``, ``address``, ``bytes``, ``about``, ``sha256``, ``git_blob``, ``pages``,
    ``checked_in``) and ``not_fetched`` (``path``, ``reason``).
    """
    return {
        "name": access.name,
        "title": corpus.title,
        "obtained": access.obtained,
        "homepage": corpus.homepage,
        "license": corpus.license,
        "terms": corpus.terms,
        "step": access.step,
        "command": fetch_command(access.name, pages=bool(access.page_files)),
        "files": list(_file_rows(access)),
        "not_fetched": [{"path": path, "reason": reason} for path, reason in access.other],
    }


def _file_rows(access: Access) -> Iterator[dict[str, Any]]:
    facts = ("about", "sha256", "git_blob", "pages", "checked_in")
    for download in access.downloads:
        said = {name: getattr(download, name) for name in facts}
        for _, path in download.files:
            yield {"path": path, "address": download.url, "bytes": download.size, **said}
    hub = access.hub
    files = (
        [(path, f"hf://datasets/{hub.repo_id}/{name}") for name, path in hub.files] if hub else []
    )
    empty = {"bytes": None, "about": "", "sha256": "", "git_blob": "", "pages": False}
    for path, address in (*files, *((path, "") for path in access.placed)):
        yield {"path": path, "address": address, **empty, "checked_in": access.checked_in}


def size_text(access: Access) -> str:
    """``9.2 MB``, ``9.2 MB and more`` where a size is not published; page databases apart."""
    claims = access.wanted(pages=False)
    known = [one.size for one in claims if one.size is not None]
    said = [f"{sum(known) / 1e6:,.1f} MB"] if known else []
    said += [one.about for one in claims if one.size is None and one.about]
    unknown = any(one.size is None and not one.about for one in claims) or not claims
    said += ["size not published"] if unknown and not said else ["more"] if unknown else []
    pages = [f"pages {one.about or 'of unknown size'}" for one in access.downloads if one.pages]
    return "; ".join([" and ".join(said), *pages])
