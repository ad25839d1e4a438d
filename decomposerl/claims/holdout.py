"""Which native files train and which test, and how files that do both are split.

``plan_split`` gives every file on disk its role. Three cases:

- *native*: an evaluation file with labels and evidence is on disk; the benchmark uses those
  files whole and the source everything else but the files with the same rows;
- *whole*: there is none, but the source has other training files beside the shared ones; the
  benchmark takes the shared files whole;
- *split*: there is nothing but the shared files; both read them, split by document.

``split_by_document`` decides by the documents behind each row and a fixed hash. Nothing depends
on the order of rows, so that a source and its benchmark compute the same split independently.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from decomposerl.claims.claim import Draft, short_digest
from decomposerl.claims.source import Benchmark, CorpusFiles, NativeFile, Source, in_form

Mode = Literal["native", "whole", "split"]
Files = tuple[NativeFile, ...]


@dataclass(frozen=True, slots=True)
class SplitPlan:
    """Existing files by role, each in the form that is read.

    ``training`` and ``extra`` are read by the source, ``evaluation``, ``shared`` and
    ``claim_lists`` by the benchmark; in mode ``split`` the shared files are in ``training`` too.
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

    def present(corpus: Source | Benchmark | None, role: str) -> Files:
        forms = (in_form(files, file) for file in getattr(corpus, role, ()))
        return tuple(file for file in forms if files.exists(file.path))

    training = present(source if training_on else None, "files")
    extra = present(source if training_on else None, "extra")
    if benchmark is None:
        return SplitPlan("native", training, extra)
    evaluation, shared = present(benchmark, "files"), present(benchmark, "shared")
    lists = present(benchmark, "claim_lists")
    # A path may hold several splits, so an evaluation file is known by path and split.
    tested = {(file.path, file.split) for file in evaluation}
    tested |= {(file.path, file.split) for file in benchmark.same_rows if evaluation}
    training = tuple(file for file in training if (file.path, file.split) not in tested)
    if not shared or any(_can_test(benchmark, files, file) for file in evaluation):
        return SplitPlan("native", training, extra, evaluation, (), lists)
    own = tuple(file for file in training if file.path not in {one.path for one in shared})
    if own or not training:
        return SplitPlan("whole", own, extra, evaluation, shared, lists)
    return SplitPlan("split", training, extra, evaluation, shared, lists)


def _can_test(benchmark: Benchmark, files: CorpusFiles, file: NativeFile) -> bool:
    """Whether a row of the file has a label and evidence."""
    return any(
        isinstance(draft, Draft) and draft.native_label is not None and bool(draft.passages)
        for draft in benchmark.read(files, file)
    )


@dataclass(frozen=True, slots=True)
class Holdout:
    """A split by connected components of documents that rows share.

    ``roots`` maps a document to the smallest document of its component; ``held_out`` has the
    roots of the components on the benchmark's side.
    """

    roots: Mapping[str, str]
    held_out: frozenset[str]

    def is_held_out(self, draft: Draft) -> bool:
        """Whether the row belongs to the benchmark."""
        first = documents_of(draft)[0]
        return self.roots.get(first, first) in self.held_out


def documents_of(draft: Draft) -> tuple[str, ...]:
    """The row's documents; a row without any counts as a separate document."""
    return draft.documents or (f"row:{draft.native_id.strip()}",)


def components(rows: Iterable[Sequence[str]]) -> dict[str, str]:
    """Map every document to the smallest document it is connected to through rows (union-find)."""
    parent: dict[str, str] = {}

    def root(document: str) -> str:
        parent.setdefault(document, document)
        while parent[document] != document:
            parent[document] = parent[parent[document]]  # path halving
            document = parent[document]
        return document

    for row in rows:
        for document in row:
            one, other = root(row[0]), root(document)
            parent[max(one, other)] = min(one, other)
    return {document: root(document) for document in parent}


def hash_fraction(document: str) -> float:
    """A number in 0..1 that depends only on the document's name."""
    return int(short_digest(document), 16) / 2**64


def split_by_document(
    shared: Iterable[Draft], extra: Iterable[Draft], share: float | None
) -> Holdout:
    """Split the components of ``shared`` rows; ``extra`` rows only join components.

    A component is held out where the hash of its smallest document is below ``share`` (0..1),
    or always where ``share`` is None because the benchmark takes the shared files whole.
    """
    tested = [documents_of(draft) for draft in shared]
    roots = components((*tested, *(documents_of(draft) for draft in extra)))
    # Only components with a shared row: the benchmark would gain nothing from the others.
    candidates = {roots[documents[0]] for documents in tested}
    held_out = {root for root in candidates if share is None or hash_fraction(root) < share}
    return Holdout(roots, frozenset(held_out))
