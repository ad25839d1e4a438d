"""Which files of each corpus are on disk, its terms and its use; no file is opened."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from decomposerl.claims.addresses import ACCESS
from decomposerl.claims.catalogue import other_forms
from decomposerl.claims.downloads import Access, fetch_command
from decomposerl.claims.source import Benchmark, CorpusFiles, NativeFile, Source, in_form
from decomposerl.reports.readiness import ReadinessCheck
from resources.corpora.folder import FolderCorpora

_SHOWN = 2


@dataclass(frozen=True, slots=True)
class CorpusStatus:
    """One corpus in one use: ``training``, ``off for training: …`` or ``benchmark``.

    ``present`` and ``missing`` are its native files, relative to the corpora folder.
    """

    name: str
    title: str
    use: str
    license: str
    terms: str
    present: tuple[str, ...]
    missing: tuple[str, ...]


def corpora_status(
    files: CorpusFiles, sources: Sequence[Source], benchmarks: Sequence[Benchmark]
) -> list[CorpusStatus]:
    """One row per source in catalogue order, then one per benchmark."""
    rows = [_source(files, source) for source in sources]
    return rows + [_benchmark(files, benchmark) for benchmark in benchmarks]


def _source(files: CorpusFiles, source: Source) -> CorpusStatus:
    use = f"off for training: {source.training_off}" if source.training_off else "training"
    present, missing = _on_disk(files, (*source.files, *source.extra))
    return CorpusStatus(
        source.name, source.title, use, source.license, source.terms, present, missing
    )


def _benchmark(files: CorpusFiles, benchmark: Benchmark) -> CorpusStatus:
    native = (*benchmark.files, *benchmark.shared, *benchmark.claim_lists)
    present, missing = _on_disk(files, native)
    return CorpusStatus(
        benchmark.name,
        benchmark.title,
        "benchmark",
        benchmark.license,
        benchmark.terms,
        present,
        missing,
    )


def _on_disk(
    files: CorpusFiles, native: Sequence[NativeFile]
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    # One file may serve several splits: list it once, in the form that is read.
    paths = dict.fromkeys(in_form(files, file).path for file in native)
    present = tuple(path for path in paths if files.exists(path))
    return present, tuple(path for path in paths if path not in present)


def missing_files(root: Path, access: Access, *, pages: bool = False) -> tuple[str, ...]:
    """The files of a corpus that are not in the folder in any form that is read."""
    files = FolderCorpora(root)
    absent = (path for path in access.files(pages=pages) if not files.exists(path))
    return tuple(path for path in absent if not any(map(files.exists, other_forms(path))))


def corpora_checks(
    root: Path | None, table: Mapping[str, Access] = ACCESS
) -> Iterator[ReadinessCheck]:
    """What the folder lacks of each corpus, with the command that fetches it.

    Nothing without a folder: the bundled sample is complete. A corpus that is absent stops no run.
    """
    if root is None:
        return
    lacking = [check for one in table.values() if (check := _lacks(root, one)) is not None]
    said = f"{len(table) - len(lacking)} of {len(table)} have all their files"
    yield ReadinessCheck("corpora", str(root), "ok", said)
    yield from lacking


def _lacks(root: Path, access: Access) -> ReadinessCheck | None:
    """A note on the files that are not there; page databases once the claims are."""
    files, wanted = FolderCorpora(root), access.files(pages=False)
    absent = missing_files(root, access)
    if absent:
        shown = ", ".join(absent[:_SHOWN]) + ", …" * (len(absent) > _SHOWN)
        said = f"{len(absent)} of {len(wanted)} files are missing: {shown}"
        there = [path for path, _ in access.other if files.exists(path)]
        said += f"; {', '.join(there)} is read" * bool(there)
        return ReadinessCheck("corpus", access.name, "note", said, fetch_command(access.name))
    pages = missing_files(root, access, pages=True)
    if not pages:
        return None
    said = f"without {', '.join(pages)} its claims that name pages have no evidence"
    return ReadinessCheck(
        "corpus", access.name, "note", said, fetch_command(access.name, pages=True)
    )
