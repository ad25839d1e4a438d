"""Running ``decomposerl metrics`` in tests: input files, output and errors."""

import gzip
import json
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import polars as pl
from typer.testing import CliRunner, Result

from dagster_project.cli import app

Rows = Sequence[Mapping[str, object]]
ONES = ("--supported", "1", "--refuted", "0")
"""What the numbers of most made-up rows mean."""


def metrics(*words: object) -> Result:
    """Run the command with these arguments."""
    return CliRunner().invoke(app, ["metrics", *map(str, words)])


def scores_of(*words: object, group: str = "all", kind: str = "") -> dict[str, float]:
    """Scores by metric of one group, of one kind where it is named, from the printed JSON."""
    result = metrics(*words, "--json")
    assert 0 == result.exit_code, result.output
    page = json.loads(result.stdout)
    rows = (row for row in page["metrics"] if row["group"] == group)
    return {row["metric"]: row["score"] for row in rows if kind in {"", row["kind"]}}


def write(path: Path, rows: Rows) -> Path:
    """Write rows in the format given by the file extension."""
    ending = path.with_suffix("").suffix if path.suffix == ".gz" else path.suffix
    frame = pl.DataFrame(rows)
    data = {
        ".jsonl": lambda: "".join(json.dumps(row) + "\n" for row in rows).encode(),
        ".json": lambda: json.dumps(list(rows)).encode(),
        ".csv": lambda: frame.write_csv().encode(),
        ".tsv": lambda: frame.write_csv(separator="\t").encode(),
    }
    if ending == ".parquet":
        frame.write_parquet(path)
    else:
        path.write_bytes(gzip.compress(data[ending]()) if path.suffix == ".gz" else data[ending]())
    return path


def sample(rows: int = 60) -> tuple[Rows, Rows]:
    """Scores and labels of two data sets, in a different order in each file."""
    rng = np.random.default_rng(0)
    labels = (rng.random(rows) < 0.4).astype(int).tolist()
    scores = np.clip(rng.normal(0.4, 0.2, rows) + 0.25 * np.array(labels), 0.01, 0.99).tolist()
    predictions = [{"id": row, "probability": scores[row]} for row in range(rows)]
    gold = [
        {"id": row, "label": labels[row], "dataset": "first" if row % 3 else "second"}
        for row in rng.permutation(rows).tolist()
    ]
    return predictions, gold
