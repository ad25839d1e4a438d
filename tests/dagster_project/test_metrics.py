"""``metrics``: predictions in, exact figures out."""

import json
import shlex
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn import metrics as reference

from metrics_parts import ONES, metrics, sample, scores_of, write
from tables import cases_beside


@pytest.mark.parametrize(
    "ending", [".csv", ".tsv", ".jsonl", ".json", ".parquet", ".csv.gz", ".json.gz", ".jsonl.gz"]
)
def test_every_format_gives_the_same_figures(tmp_path: Path, ending: str):
    """Scikit-learn's, to the last digit, whatever the format and the order of rows."""
    said, gold = sample()
    files = write(tmp_path / f"said{ending}", said), write(tmp_path / f"gold{ending}", gold)
    found = scores_of(*files, "--score", "probability", *ONES)
    labels = [row["label"] for row in sorted(gold, key=lambda row: row["id"])]
    scores = [row["probability"] for row in said]
    verdicts = [int(score > 0.5) for score in scores]
    expected = {
        "balanced_accuracy": reference.balanced_accuracy_score(labels, verdicts),
        "f1_supported": reference.f1_score(labels, verdicts),
        "f1_refuted": reference.f1_score(labels, verdicts, pos_label=0),
        "macro_f1": reference.f1_score(labels, verdicts, average="macro"),
        "accuracy": reference.accuracy_score(labels, verdicts),
        "auroc": reference.roc_auc_score(labels, scores),
    }
    assert expected == pytest.approx({name: found[name] / 100 for name in expected}, abs=1e-12)


def test_shared_documents_widen_the_interval(tmp_path: Path):
    """Those of one ``--document`` are drawn together, without one alone."""
    rng = np.random.default_rng(1)
    right = np.repeat(rng.random(40) < 0.7, 10).tolist()
    rows = [
        {"id": n, "label": n // 10 % 2, "doc": f"d{n // 10}", "alone": n}
        | {"p": float(right[n] == n // 10 % 2), "blank": ("", " ", None, f"d{n}")[n % 4]}
        for n in range(400)
    ]
    file = write(tmp_path / "rows.jsonl", rows)

    def bounds(*words: str) -> tuple[float, float]:
        page = json.loads(metrics(file, "--score", "p", "--json", *ONES, *words).stdout)
        (row,) = [row for row in page["metrics"] if row["metric"] == "balanced_accuracy"]
        return row["low"], row["high"]

    assert np.ptp(bounds("--document", "doc")) > 2 * np.ptp(bounds())
    assert bounds("--document", "blank") == bounds("--document", "alone")


CASES = cases_beside(__file__, "metrics_cases")


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case['what']}: {case['run']}")
def test_files_of_many_shapes_have_exact_figures(case: dict[str, Any], tmp_path: Path):
    """Ids, labels and scores as other projects write them; what is left out is counted."""
    for name, text in case["files"].items():
        (tmp_path / name).write_text(text, "utf-8")
    words = [
        tmp_path / word if word in case["files"] else word for word in shlex.split(case["run"])
    ]
    found = scores_of(*words, group=case.get("group", "all"), kind=case.get("kind", ""))
    assert case["scores"] == pytest.approx({name: found[name] for name in case["scores"]})
    done = metrics(*words)
    assert [] == [text for text in case.get("says", ()) if text not in done.stderr + done.stdout]
