"""Which files of each corpus are on disk, its terms and its use; no file is opened."""

from collections.abc import Sequence
from dataclasses import dataclass

from decomposerl.claims.source import Benchmark, CorpusFiles, NativeFile, Source, in_form


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
