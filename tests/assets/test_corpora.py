"""The assets that read corpora: what their logs and pages say of the files on disk."""

import json
from pathlib import Path

import dagster as dg

from assets.corpora import source_assets
from decomposerl.claims.catalogue import SOURCES
from resources.corpora.resource import CorporaResource
from resources.store.parquet import DataFolder, ParquetTables


def test_forms_that_are_not_read_are_a_warning(tmp_path: Path):
    """The file that is read and those of the same rows beside it, once in the log."""
    (tmp_path / "faviq").mkdir()
    row = {"id": "1", "claim": "C.", "label": "SUPPORTS"}
    evidence = {"positive_evidence": {"title": "Orla", "text": "One."}}
    for name in ("train.jsonl", "train.parquet"):
        (tmp_path / "faviq" / name).write_text(json.dumps({**row, **evidence}), "utf-8")
    (source,) = [one for one in SOURCES if one.name == "faviq_a"]
    instance, data = dg.DagsterInstance.ephemeral(), str(tmp_path / "data")
    done = dg.materialize(
        source_assets([source], []),
        instance=instance,
        resources={
            "io_manager": ParquetTables(base_dir=data),
            "data_folder": DataFolder(base_dir=data),
            "corpora": CorporaResource(root=str(tmp_path)),
        },
    )
    assert done.success
    said = [one.user_message for one in instance.all_logs(done.run_id) if one.level >= 30]
    read, others = "faviq/train.jsonl was read", "faviq/train.parquet"
    assert [f"claims/faviq_a: {read}; other forms of it were not: {others}"] == said
