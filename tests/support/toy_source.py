"""A toy source with one draft a row."""

from collections.abc import Iterator
from pathlib import Path

from decomposerl.claims.claim import Draft, Record, Reject
from decomposerl.claims.fields import integer, read_each, text
from decomposerl.claims.labels import LabelMap
from decomposerl.claims.load import Loaded, LoadSettings, load_source
from decomposerl.claims.source import CorpusFiles, FileFormat, NativeFile, Reader, Source
from resources.corpora.folder import FolderCorpora

LENIENT = LoadSettings(max_reject_share=1)


def _draft(record: Record) -> Draft:
    row = record.fields
    hops = integer(row, "hops") if "hops" in row else None
    claim = text(row, "claim")
    return Draft(
        record.file, record.row, claim, "train", claim, ("E.",), text(row, "label"), num_hops=hops
    )


def read(files: CorpusFiles, file: NativeFile) -> Iterator[Draft | Reject]:
    """One draft a row."""
    return read_each(files, file, _draft)


def source_of(name: str, kind: FileFormat, reader: Reader = read) -> Source:
    labels = LabelMap.of("yes", "no")
    return Source("toy", "Toy", "t", "", "", "", labels, (NativeFile(name, kind, "train"),), reader)


def load(
    root: Path, name: str, kind: FileFormat, reader: Reader = read, config: LoadSettings = LENIENT
) -> Loaded:
    return load_source(source_of(name, kind, reader), None, FolderCorpora(root), config)


def rows(count: int) -> list[dict[str, object]]:
    return [{"claim": f"Claim {i}.", "label": "yes"} for i in range(1, count + 1)]
