"""Removals of each lexical engine, on synthetic claims and on a folder of real corpora.

``python -m studies.lexical_engines [--rows 155506] [--corpora FOLDER] [--report PAGE]``
prints one table per data set and writes them between the markers of the report file.

Recall and precision compare the removals with those of the exact join. Seconds are of one call
on this machine; ratios are in docs/results/benchmarks.md.
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
from perf.timing import timed
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


def table(texts: Sequence[str]) -> str:
    """Engine, rows removed, recall and precision of the removals, seconds."""
    lines = []
    shingles: tuple[Shingle, ...] = ("word", "char_5")
    for shingle in shingles:
        results = []
        for engine in lexical_engines(shingle):
            engine(texts[:100])  # compile
            seconds, matches = timed(partial(engine, texts))
            results.append(matches)
            exact, removed = results[0].is_matched, int(matches.is_matched.sum())
            both = int((exact & matches.is_matched).sum())
            lines.append(
                [
                    matches.engine,
                    f"{removed:,}",
                    f"{both / max(int(exact.sum()), 1):.3f}",
                    f"{both / max(removed, 1):.3f}",
                    f"{seconds:.2f}",
                ]
            )
    head = ["engine", "removed", "recall", "precision", "seconds"]
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
    parts = [(f"{options.rows:,} synthetic claims", synthetic_claims(options.rows))]
    if options.corpora:
        claims = real_claims(options.corpora)
        parts.append((f"{len(claims):,} claims of real corpora", claims))
    text = "\n\n".join(f"{title}:\n\n{table(texts)}" for title, texts in parts)
    print(text)
    if options.report:
        write_between_markers(options.report, "lexical engines", text)


if __name__ == "__main__":
    main()
