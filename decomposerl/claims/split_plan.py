"""Which native file serves whom: the training pool, the test set, or both by halves.

Takes a source, its benchmark and the files on disk, gives a ``SplitPlan``. Three cases:

- *native*: a labelled evaluation file is on disk; the benchmark uses those files whole and
  the source everything else;
- *whole*: there is none, but the source has training files of its own beside the shared
  ones; the benchmark takes the shared files whole;
- *split*: there is nothing but the shared files; both read them and split by document.

Left out deliberately: the split itself (``holdout.py``).
"""

from dataclasses import dataclass
from typing import Literal

from decomposerl.claims.claim import Draft
from decomposerl.claims.source import Benchmark, CorpusFiles, NativeFile, Source

Mode = Literal["native", "whole", "split"]
Files = tuple[NativeFile, ...]


@dataclass(frozen=True, slots=True)
class SplitPlan:
    """Existing files by role.

    ``training`` and ``extra`` are read by the source, ``evaluation``, ``shared`` and
    ``claim_lists`` by the benchmark; in mode ``split`` the shared files stand among
    ``training`` too.
    """

    mode: Mode
    training: Files = ()
    extra: Files = ()
    evaluation: Files = ()
    shared: Files = ()
    claim_lists: Files = ()


def plan_split(
    source: Source | None, benchmark: Benchmark | None, files: CorpusFiles, *, training_on: bool
) -> SplitPlan:
    """Give every file on disk its role; ``training_on`` says whether the source is used."""

    def present(wanted: Files) -> Files:
        return tuple(file for file in wanted if files.exists(file.path))

    training = present(source.files) if source is not None and training_on else ()
    extra = present(source.extra) if source is not None and training_on else ()
    if benchmark is None:
        return SplitPlan("native", training, extra)
    evaluation, shared = present(benchmark.files), present(benchmark.shared)
    lists = present(benchmark.claim_lists)
    # A path may hold several splits, so an evaluation file is known by path and split.
    tested = {(file.path, file.split) for file in evaluation}
    training = tuple(file for file in training if (file.path, file.split) not in tested)
    if not shared or any(_has_labels(benchmark, files, file) for file in evaluation):
        return SplitPlan("native", training, extra, evaluation, (), lists)
    shared_paths = {file.path for file in shared}
    own = tuple(file for file in training if file.path not in shared_paths)
    if own or not training:
        return SplitPlan("whole", own, extra, evaluation, shared, lists)
    return SplitPlan("split", training, extra, evaluation, shared, lists)


def _has_labels(benchmark: Benchmark, files: CorpusFiles, file: NativeFile) -> bool:
    return any(
        isinstance(draft, Draft) and draft.native_label is not None
        for draft in benchmark.read(files, file)
    )
