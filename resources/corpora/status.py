"""Which files of each corpus are on disk, its terms and its use, and what differs from published.

No file is read but in ``difference``, and where a size is not the published one.
"""

import hashlib
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from itertools import filterfalse
from pathlib import Path
from typing import Any

from decomposerl.claims.catalogue import other_forms
from decomposerl.claims.downloads import ACCESS, Access, Download
from decomposerl.claims.source import Benchmark, Source, in_form
from decomposerl.errors import SourceFileError
from decomposerl.reports.readiness import ReadinessCheck
from resources.corpora.folder import FolderCorpora
from resources.corpora.lock_file import read_lock
from resources.store.integrity import file_sha256

_SHOWN = 2


def corpora_status(
    exists: Callable[[str], bool], corpora: Iterable[Source | Benchmark]
) -> Iterator[dict[str, Any]]:
    """A row per corpus; ``use`` is ``training``, ``off for training: …`` or ``benchmark``.

    ``present`` and ``missing`` are its native files, relative to the corpora folder.
    """
    for corpus in corpora:
        use = "benchmark"
        if isinstance(corpus, Source):
            off = corpus.training_off
            use = f"off for training: {off}" if off else "training"
        row = {"name": corpus.name, "title": corpus.title, "use": use}
        # One file may serve several splits: list it once, in the form that is read.
        paths = list(dict.fromkeys(in_form(exists, file).path for file in corpus.native_files))
        there = {
            "present": list(filter(exists, paths)),
            "missing": list(filterfalse(exists, paths)),
        }
        yield row | {"license": corpus.license, "terms": corpus.terms} | there


def missing_files(root: Path, access: Access, *, pages: bool = False) -> tuple[str, ...]:
    """The files of a corpus that are not in the folder in any form that is read."""
    files = FolderCorpora(root)
    absent = (path for path in access.files(pages=pages) if not files.exists(path))
    return tuple(path for path in absent if not any(map(files.exists, other_forms(path))))


def differing_files(root: Path, access: Access) -> dict[str, str]:
    """The files in the folder that are not as large as published, each with a phrase that says so.

    A file with a recorded checksum is right where it has that one. Packed
    files, members of archives and files without a published size are not looked at.
    """
    differing, recorded = {}, dict[str, str]()
    with suppress(SourceFileError):  # the next fetch says what is wrong with it
        recorded = read_lock(root, access.name).sha256
    for one in access.downloads:
        target = root / one.name
        said = _size_difference(one, target) if not one.archive and target.is_file() else ""
        if said and (one.name not in recorded or file_sha256(target) != recorded[one.name]):
            differing[one.name] = f"is damaged or another version: {said}"
    return differing


def difference(download: Download, path: Path) -> str:
    """How a file, or an archive, differs from what is published; empty where it does not."""
    if said := _size_difference(download, path):
        return said
    if download.sha256 and (digest := file_sha256(path)) != download.sha256:
        return f"its SHA-256 is {digest}, published is {download.sha256}"
    if download.git_blob:
        head = b"blob %d\0" % path.stat().st_size
        with path.open("rb") as stream:
            blob = hashlib.file_digest(stream, lambda: hashlib.sha1(head, usedforsecurity=False))
        if blob.hexdigest() != download.git_blob:
            return f"its Git object is {blob.hexdigest()}, published is {download.git_blob}"
    return ""


def _size_difference(download: Download, path: Path) -> str:
    size = path.stat().st_size
    same = download.size is None or size == download.size
    return "" if same else f"{size:,} bytes where {download.size:,} are published"


def corpora_checks(root: Path | None) -> Iterator[ReadinessCheck]:
    """What the folder lacks of each corpus, with the command that fetches it.

    Nothing without a folder: the bundled sample is complete. A corpus that is absent stops no run.
    """
    if root is None:
        return
    lacking = [check for one in ACCESS.values() for check in _lacks(root, one)]
    said = f"{len(ACCESS) - len(lacking)} of {len(ACCESS)} have all their files"
    yield ReadinessCheck("corpora", str(root), "ok", said)
    yield from lacking


def _lacks(root: Path, access: Access) -> Iterator[ReadinessCheck]:
    """A note on the files that are not there or differ; page databases once the claims are."""
    absent, differing = missing_files(root, access), differing_files(root, access)
    lacking = list(map(" ".join, differing.items()))
    if absent:
        shown = ", ".join(absent[:_SHOWN]) + ", …" * (len(absent) > _SHOWN)
        said = f"{len(absent)} of {len(access.files(pages=False))} files are missing: {shown}"
        there = [path for path in access.other if FolderCorpora(root).exists(path)]
        lacking.append(said + f"; {', '.join(there)} is read" * bool(there))
    fix = f"{'move it away, then ' * bool(differing)}{access.command(pages=False)}"
    if not lacking and (pages := missing_files(root, access, pages=True)):
        lacking = [f"without {', '.join(pages)} its claims that name pages have no evidence"]
        fix = access.command()
    if lacking:
        yield ReadinessCheck("corpus", access.name, "note", "; ".join(lacking), fix)
