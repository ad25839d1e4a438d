"""``decomposerl metrics`` in a test: files in any format, what it prints, what it refuses."""

import gzip
import json
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import polars as pl
from typer.testing import CliRunner, Result

from dagster_project.cli import app

Rows = Sequence[Mapping[str, object]]
QUICK = ("--draws", "200")


def metrics(*words: object) -> Result:
    """The command on these words."""
    return CliRunner().invoke(app, ["metrics", *map(str, words), *QUICK])


def scores_of(*words: object, group: str = "all") -> dict[str, float]:
    """Metric to score of one group, from the JSON that the command prints."""
    result = metrics(*words, "--json")
    assert 0 == result.exit_code, result.output
    page = json.loads(result.stdout)
    return {row["metric"]: row["score"] for row in page["metrics"] if row["group"] == group}


def refused(*words: object) -> str:
    """What the command says where it exits with 2."""
    result = metrics(*words)
    assert 2 == result.exit_code, result.output
    assert "" == result.stdout
    return result.stderr


def write(path: Path, rows: Rows) -> Path:
    """Rows in the format of the path's ending."""
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
    """Scores and labels of two parts, in another order in each file."""
    rng = np.random.default_rng(0)
    labels = (rng.random(rows) < 0.4).astype(int).tolist()
    scores = np.clip(rng.normal(0.4, 0.2, rows) + 0.25 * np.array(labels), 0.01, 0.99).tolist()
    said = [{"id": row, "probability": scores[row]} for row in range(rows)]
    gold = [
        {"id": row, "label": labels[row], "dataset": "first" if row % 3 else "second"}
        for row in rng.permutation(rows).tolist()
    ]
    return said, gold
