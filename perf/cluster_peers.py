"""Deduplication at scale as a user would take it from datatrove or Spark, in their own environment.

``PYTHON perf/cluster_peers.py (datatrove|spark) CLAIMS.json KEPT.json`` reads a list of claims, and
writes the numbers of the kept ones and the seconds of the work, without the start of Python or of
Spark. The packages conflict with this project's, so the file imports none of it:

    python -m venv .venv-peers
    .venv-peers/bin/pip install 'datatrove[io,processing]' spacy pyspark numpy

Both compare sets of words at Jaccard 0.7: datatrove with its 14 buckets of 8 hashes, Spark's
``MinHashLSH`` with ``TABLES`` tables, followed by the keep-first greedy over its pairs.
"""

import json
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

TABLES, FEATURES, DISTANCE = 3, 1 << 18, 0.3


def datatrove_kept(claims: list[str], folder: Path) -> tuple[list[int], float]:
    """The rows that the four steps keep, and their seconds."""
    from datatrove.executor.local import LocalPipelineExecutor
    from datatrove.pipeline.dedup import (
        MinhashDedupBuckets,
        MinhashDedupCluster,
        MinhashDedupFilter,
        MinhashDedupSignature,
    )
    from datatrove.pipeline.dedup.minhash import MinhashConfig
    from datatrove.pipeline.readers import JsonlReader
    from datatrove.pipeline.writers.jsonl import JsonlWriter

    (folder / "in").mkdir()
    lines = (json.dumps({"text": text, "id": str(row)}) for row, text in enumerate(claims))
    (folder / "in" / "claims.jsonl").write_text("\n".join(lines))
    config = MinhashConfig(n_grams=1, num_buckets=14, hashes_per_bucket=8)
    at: dict[str, Any] = {name: str(folder / name) for name in ("in", "s", "b", "c", "out")}
    steps = [
        ([JsonlReader(at["in"]), MinhashDedupSignature(at["s"], config=config)], 1),
        ([MinhashDedupBuckets(at["s"], at["b"], config=config)], config.num_buckets),
        ([MinhashDedupCluster(at["b"], at["c"], config=config)], 1),
        (
            [
                JsonlReader(at["in"]),
                MinhashDedupFilter(at["c"]),
                JsonlWriter(at["out"], compression=None),
            ],
            1,
        ),
    ]
    started = time.perf_counter()
    for number, (pipeline, tasks) in enumerate(steps):
        logs = str(folder / f"logs-{number}")
        LocalPipelineExecutor(pipeline, tasks=tasks, workers=1, logging_dir=logs).run()
    seconds = time.perf_counter() - started
    written = (line for path in (folder / "out").glob("*") for line in path.open())
    return sorted(int(json.loads(line)["id"]) for line in written), seconds


def spark_kept(claims: list[str], folder: Path) -> tuple[list[int], float]:
    """The rows that stay after the pairs of ``approxSimilarityJoin``, and the seconds."""
    from pyspark.ml.feature import HashingTF, MinHashLSH, RegexTokenizer
    from pyspark.sql import SparkSession

    builder = SparkSession.builder.master("local[*]").config("spark.local.dir", str(folder))
    session = builder.config("spark.ui.enabled", "false").getOrCreate()
    rows = session.createDataFrame(list(enumerate(claims)), ["row", "claim"]).cache()
    rows.count()
    started = time.perf_counter()
    words = RegexTokenizer(inputCol="claim", outputCol="words", pattern="\\W+").transform(rows)
    sets = HashingTF(numFeatures=FEATURES, binary=True, inputCol="words", outputCol="sets")
    hashed = sets.transform(words)
    hashed = hashed.select("row", "sets").cache()
    model = MinHashLSH(inputCol="sets", outputCol="hashes", numHashTables=TABLES, seed=1)
    near = model.fit(hashed).approxSimilarityJoin(hashed, hashed, DISTANCE, "distance")
    found = near.selectExpr("datasetA.row as a", "datasetB.row as b").where("a < b").collect()
    removed: set[int] = set()
    for earlier, later in sorted(((one["a"], one["b"]) for one in found), key=lambda p: p[::-1]):
        if earlier not in removed:
            removed.add(later)
    seconds = time.perf_counter() - started
    session.stop()
    return [row for row in range(len(claims)) if row not in removed], seconds


PEERS: dict[str, Callable[[list[str], Path], tuple[list[int], float]]] = {
    "datatrove": datatrove_kept,
    "spark": spark_kept,
}


def main() -> None:
    """Run one of the two."""
    peer, source, target = sys.argv[1:]
    claims = json.loads(Path(source).read_text())
    with tempfile.TemporaryDirectory() as folder:
        kept, seconds = PEERS[peer](claims, Path(folder))
    Path(target).write_text(json.dumps({"kept": kept, "seconds": seconds}))


if __name__ == "__main__":
    main()
