"""Removals of each lexical engine, on synthetic claims and on a folder of real corpora.

``python -m studies.lexical_engines [--rows 155506] [--corpora FOLDER] [--report PAGE]``
prints one table for both and writes it between the markers of the report file
(docs/results/corpora.md).

Recall and precision compare the removals with those of the exact join. Times are in
docs/results/benchmarks.md.
"""

import argparse
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

from decomposerl.claims.catalogue import SOURCES, benchmark_of
from decomposerl.claims.load import LoadSettings, load_source
from decomposerl.kernels.matches import Matches
from decomposerl.kernels.set_join import LexicalEngine, keep_first_duplicates
from decomposerl.kernels.word_sets import Shingle
from decomposerl.reports.tables import markdown_table
from perf.inputs import synthetic_claims
from perf.pages import write_between_markers
from resources.corpora.folder import FolderCorpora

THRESHOLD = 0.7
ENGINES: tuple[LexicalEngine, ...] = ("exact", "minhash_verified", "minhash")
Engine = Callable[[Sequence[str]], Matches]


def lexical_engines(shingle: Shingle) -> list[Engine]:
    """All engines; the exact one, to which the others are compared, comes first."""
    return [
        partial(keep_first_duplicates, threshold=THRESHOLD, engine=engine, shingle=shingle)
        for engine in ENGINES
    ]


def removals(texts: Sequence[str]) -> dict[str, list[str]]:
    """By engine: rows removed, and their recall and precision against those of the exact join."""
    lines = dict[str, list[str]]()
    shingles: tuple[Shingle, ...] = ("word", "char_5")
    for shingle in shingles:
        first, *others = lexical_engines(shingle)
        exact = first(texts).is_matched
        for matches in (engine(texts) for engine in others):
            removed = int(matches.is_matched.sum())
            both = int((exact & matches.is_matched).sum())
            lines[matches.engine] = [
                f"{removed:,}",
                f"{both / max(int(exact.sum()), 1):.3f}",
                f"{both / max(removed, 1):.3f}",
            ]
    return lines


def table(data_sets: Sequence[Sequence[str]]) -> str:
    """A line per engine, with the columns of ``removals`` for each data set."""
    measured = [removals(texts) for texts in data_sets]
    head = ["engine", *["removed", "recall", "precision"] * len(measured)]
    lines = [
        [engine, *(cell for one in measured for cell in one[engine])] for engine in measured[0]
    ]
    return markdown_table(head, lines).replace("\\", "")


def real_claims(folder: Path) -> list[str]:
    """The labelled training claims of every corpus in the folder, in catalogue order."""
    files = FolderCorpora(folder)
    return [
        claim
        for source in SOURCES
        for claim in load_source(source, benchmark_of(source), files, LoadSettings()).claims[
            "claim"
        ]
    ]


def main() -> None:
    """Print the tables and write them into the report, if one is given."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=155_506, help="synthetic claims")
    parser.add_argument("--corpora", type=Path, help="folder of real corpora")
    parser.add_argument("--report", type=Path, help="Markdown file with the two markers")
    options = parser.parse_args()
    data_sets = [synthetic_claims(options.rows)]
    data_sets += [real_claims(options.corpora)] if options.corpora else []
    sizes = (f"{len(texts):,}" for texts in data_sets)
    kinds = ("synthetic claims", "real claims")
    title = ", then ".join(map(" ".join, zip(sizes, kinds, strict=False)))
    text = f"Against the exact join, on {title}:\n\n{table(data_sets)}"
    print(text)
    if options.report:
        write_between_markers(options.report, "lexical engines", text)


if __name__ == "__main__":
    main()
