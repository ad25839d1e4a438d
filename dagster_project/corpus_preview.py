"""The first claims of a ``source.toml`` as they would be read, and what becomes of all rows.

Everything is read in memory and nothing is written.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import polars as pl

from decomposerl.claims.claim import Record, Reject
from decomposerl.claims.claim_collector import unknown_labels
from decomposerl.claims.generic import parse_benchmark_toml, parse_source_toml
from decomposerl.claims.load import LoadedClaims, LoadSettings, load_benchmark, load_source
from decomposerl.claims.source import CorpusFiles, NativeFile
from decomposerl.reports.giveaways import giveaways, giveaways_text
from decomposerl.reports.tables import one_line
from resources.corpora.folder import records_of
from resources.corpora.pages import SqlitePages

_READ_ALL = LoadSettings(max_reject_share=1)
_MOST_PASSAGES, _MOST_CHARS = 8, 200


@dataclass(frozen=True, slots=True)
class OneFile:
    """Corpus files of which only ``path`` is there, read from ``location``."""

    path: str
    location: Path

    def exists(self, path: str) -> bool:
        """Whether it is the one file."""
        return path == self.path

    def records(self, file: NativeFile) -> Iterator[Record | Reject]:
        """As ``CorpusFiles``."""
        if self.exists(file.path):
            yield from records_of(self.location, file)

    def pages(self, path: str) -> SqlitePages | None:  # noqa: ARG002 - of the protocol
        """None: it has no page database."""
        return None


def preview_text(toml: str, where: str, files: CorpusFiles, most: int) -> str:
    """The first ``most`` claims of each use of a corpus, and the rows by what becomes of them.

    Raises:
        ConfigError: the TOML file is wrong; ``where`` names it.
    """
    source, benchmark = parse_source_toml(toml, where), parse_benchmark_toml(toml, where)
    parts: list[str] = []
    if source.files:
        loaded = load_source(source, None, files, _READ_ALL)
        parts += _part(f"claims/{source.name}", loaded, most)
    if benchmark is not None:
        loaded = load_benchmark(benchmark, None, files, _READ_ALL)
        parts += _part(f"benchmark/{benchmark.name}", loaded, most)
    return "\n".join(parts)


def _part(key: str, loaded: LoadedClaims, most: int) -> Iterator[str]:
    names = ", ".join(loaded.files) or "no file that is there"
    yield f"{key}: {loaded.rows_read:,} rows from {names}; status {loaded.status}"
    for number, row in enumerate(loaded.claims.head(most).iter_rows(named=True), start=1):
        label = row["label"] or "no label"
        yield f"\n{number}. {label} (native {row['native_label']!r}), id {row['native_id']!r}"
        yield f"   claim: {one_line(row['claim'], _MOST_CHARS)}"
        passages = row["passages"]
        for at, text in enumerate(passages[:_MOST_PASSAGES]):
            yield f"   [{at}] {one_line(text, _MOST_CHARS)}"
        if len(passages) > _MOST_PASSAGES:
            yield f"   and {len(passages) - _MOST_PASSAGES} more"
    yield from ("", "   count  rows or claims that are")
    yield from _counts(loaded)
    share, limit = _reject_share(loaded), LoadSettings().max_reject_share
    if share > limit:
        yield f"{share:.1%} of the rows are rejects; above {limit:.1%} the corpus is not read"
    yield ""


def _counts(loaded: LoadedClaims) -> Iterator[str]:
    by_label = loaded.claims["label"].fill_null("no label").value_counts(sort=True)
    for label, count in by_label.rows():
        yield f"{count:8,}  {label}"
    for reason, count in loaded.drops["reason"].value_counts(sort=True).rows():
        yield f"{count:8,}  dropped: {reason}"
    grouped = loaded.rejects.group_by("reason", "field", maintain_order=True).agg(
        pl.len().alias("rows"), pl.first("file", "row", "detail")
    )
    for reason, field, count, file, row, detail in grouped.sort("rows", descending=True).rows():
        yield f"{count:8,}  rejected: {reason} {field}, first {file}:{row}: {detail}"
    if labels := unknown_labels(loaded.rejects):
        yield f"unknown labels: {labels}"
    if told := giveaways_text(giveaways([loaded.claims])):
        yield f"warning: {told}"


def _reject_share(loaded: LoadedClaims) -> float:
    unreadable = loaded.rejects.filter(reason="unreadable_file", row=0).height
    rejected = loaded.rejects.filter(pl.col("row") > 0).height
    return 1.0 if unreadable else rejected / max(1, loaded.rows_read)
