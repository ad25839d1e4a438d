"""A toy adapter over files in a folder, and the law that no row is lost."""

import json
from pathlib import Path

import polars as pl

from decomposerl.claims.claim import Draft, LabelMap
from decomposerl.claims.fields import NativeRow, each_row
from decomposerl.claims.load import LoadedClaims, LoadSettings, load_source
from decomposerl.claims.source import FileFormat, NativeFile, Reader, Source
from project import SUPPORT
from resources.corpora.folder import FolderCorpora

LENIENT = LoadSettings(max_reject_share=1)
OWN_TOML = (SUPPORT / "own_source.toml").read_text("utf-8")


def own_toml(evidence: str = '"text"', columns: str = "", how: str = "") -> str:
    """A user's description of the corpus ``mine/a.jsonl``."""
    return OWN_TOML.format(evidence=evidence, columns=columns, how=how)


def toy_draft(row: NativeRow) -> Draft:
    hops = row.optional("hops", row.integer)
    return row.draft(("E.",), native_id=row.text("claim"), num_hops=hops)


read = each_row(toy_draft)


def source_of(name: str, kind: FileFormat, reader: Reader = read) -> Source:
    labels = LabelMap(frozenset({"yes"}), frozenset({"no"}))
    return Source(
        name="toy",
        title="Toy",
        domain="t",
        homepage="",
        license="",
        terms="",
        labels=labels,
        files=(NativeFile(name, kind, "train"),),
        read=reader,
    )


def load(
    root: Path, name: str, kind: FileFormat, reader: Reader = read, config: LoadSettings = LENIENT
) -> LoadedClaims:
    return load_source(source_of(name, kind, reader), None, FolderCorpora(root), config)


def rows(count: int) -> list[dict[str, object]]:
    return [{"claim": f"Claim {i}.", "label": "yes"} for i in range(1, count + 1)]


def write_jsonl(root: Path, count: int) -> None:
    (root / "a.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows(count)))


def assert_conserved(loaded: LoadedClaims) -> None:
    """Every row that counts is a claim, a drop or a reject, once."""
    rejected = loaded.rejects.filter(pl.col("row") > 0).height
    assert loaded.rows_read == loaded.claims.height + loaded.drops.height + rejected


def rejected(loaded: LoadedClaims, *columns: str) -> list[tuple[object, ...]]:
    """Row, field and reason of the rejects, or these columns."""
    return loaded.rejects.select(columns or ("row", "field", "reason")).rows()


def claimed(loaded: LoadedClaims, *columns: str) -> list[tuple[object, ...]]:
    """These columns of the claims."""
    return loaded.claims.select(columns).rows()
