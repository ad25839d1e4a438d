"""``decomposerl metrics --marks``: agreement of reviewers with systems and with each other."""

import json
from pathlib import Path

import pytest
from sklearn import metrics as reference

from metrics_parts import metrics, refused, sample, write


def marks_file(path: Path, reviewer: str, words: dict[str, str], system: str = "one") -> Path:
    """Marks of one reviewer by claim."""
    rows = [
        {"claim_id": claim, "system": system, "step": None, "rollout": None, "note": ""}
        | {"reviewer": reviewer, "mark": word, "span": None, "at": "2026-01-02T03:04:05Z"}
        for claim, word in words.items()
    ]
    path.write_text("".join(f"{json.dumps(row)}\n" for row in rows), "utf-8")
    return path


def test_marks_of_two_reviewers(tmp_path: Path):
    """Agreement with the system, and with each other; scikit-learn's kappa."""
    first = {"a": "agree", "b": "agree", "c": "disagree", "d": "unclear"}
    second = {"a": "agree", "b": "disagree", "c": "disagree"}
    files = (
        *("--marks", marks_file(tmp_path / "ada.jsonl", "ada", first)),
        *("--marks", marks_file(tmp_path / "eva.jsonl", "eva", second)),
    )
    page = json.loads(metrics(*files, "--json").stdout)
    ((system,), (pair,)) = page["systems"], page["reviewers"]
    assert {"system": "one", "reviewers": 2, "traces": 4, "marks": 7} == {
        name: system[name] for name in ("system", "reviewers", "traces", "marks")
    }
    assert (3, 3, 1, 3 / 7) == (
        *(system[name] for name in ("agree", "disagree", "unclear")),
        system["share_agree"],
    )
    kappa = reference.cohen_kappa_score(*([side[n] for n in "abc"] for side in (first, second)))
    assert (3, 2 / 3) == (pair["traces"], pair["agreement"])
    assert kappa == pytest.approx(pair["kappa"])
    text = metrics(*files).stdout
    assert "42.9" in text
    assert f"{kappa:.2f}" in text


def test_marks_where_nothing_is_defined(tmp_path: Path):
    """Null in JSON and a dash in the table, never a number."""
    words = ("--marks", marks_file(tmp_path / "a.jsonl", "ada", {"a": "agree", "b": "agree"}))
    more = ("--marks", marks_file(tmp_path / "b.jsonl", "eva", {"a": "agree", "b": "agree"}))
    (pair,) = json.loads(metrics(*words, *more, "--json").stdout)["reviewers"]
    assert (1.0, None) == (pair["agreement"], pair["kappa"])
    assert "–" in metrics(*words, *more).stdout
    assert [] == json.loads(metrics(*words, "--json").stdout)["reviewers"]


def test_a_torn_line_costs_no_other_mark(tmp_path: Path):
    """It is named in a note, and in JSON; the rest is counted."""
    path = marks_file(tmp_path / "a.jsonl", "ada", {"a": "agree", "b": "disagree"})
    whole = path.read_text("utf-8")
    path.write_text(f'{{"claim_id": "a", "no\n{whole}', "utf-8")
    said = metrics("--marks", path, "--json")
    page = json.loads(said.stdout)
    assert 2 == page["systems"][0]["marks"]
    assert "a.jsonl, line 1: is no JSON" in page["skipped"][0]
    assert "skipped: " in metrics("--marks", path).stderr


def test_marks_on_an_earlier_reply_are_counted_apart(tmp_path: Path):
    """Ada marked the reply that the system gave before; she and Eva did not see the same."""
    paths = [marks_file(tmp_path / f"{who}.jsonl", who, {"a": "agree"}) for who in ("ada", "eva")]
    for path, digest, at in zip(paths, ("0" * 8, "1" * 8), ("2025", "2026"), strict=True):
        path.write_text(json.dumps(json.loads(path.read_text()) | {"of": digest, "at": at}))
    words = [word for path in paths for word in ("--marks", path)]
    page = json.loads(metrics(*words, "--json").stdout)
    (system,) = page["systems"]
    assert (1, 1, 1) == (system["marks"], system["agree"], system["earlier"])
    assert [] == page["reviewers"]
    assert "of an earlier reply" in metrics(*words).stdout
    assert "earlier" not in metrics("--marks", paths[0]).stdout


def test_marks_stand_alone(tmp_path: Path):
    """They need no predictions, and take none."""
    said, gold = sample()
    pair = write(tmp_path / "said.csv", said), write(tmp_path / "gold.csv", gold)
    marks = marks_file(tmp_path / "a.jsonl", "ada", {"a": "agree"})
    assert "--marks takes the place" in refused(*pair, "--marks", marks)
    assert "or --marks FILE" in refused()
    assert "or --marks FILE" in refused(pair[0])
    marks.write_text("{}\n", "utf-8")
    assert "a.jsonl, line 1: field" in refused("--marks", marks)
