"""The study of an encoder as verifier: folds leak nothing, figures are those of references."""

import json
import re
import shlex
from collections import defaultdict
from dataclasses import replace
from itertools import combinations
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from sklearn.metrics import roc_auc_score

from decomposerl.judge.distillation import HeadSettings
from documents import shell_lines
from project import ROOT
from resources.training.judge_heads import HeadsRun
from studies.encoder_report import SCORED, VERIFIERS, results_of, section
from studies.encoder_verifier import RESULTS, fold_scores, options
from studies.verifier_data import (
    EVALUATED,
    FOLDS,
    MADE,
    TRAINED,
    Claims,
    FoldSettings,
    fold_claims,
    fold_examples,
    fold_of,
    traces_of,
    training_corpora,
)
from studies.weak_claims import weak_claims
from tiny_models import tiny_modernbert

pytestmark = pytest.mark.filterwarnings("ignore:`is_gradient_checkpointing` is deprecated")

PAGE = ROOT / "docs/results/studies.md"
SMALL = FoldSettings(per_corpus=24, scored=12, held_out=0.3, dev=0.2)
TOWNS = ("Ashby", "Brora", "Corwen", "Dunoon", "Epping", "Frome")
SHARED = "The old mill on the river was rebuilt after a fire."


def corpus(name: str, claims: int = 30) -> Claims:
    """Two claims on each made-up document, one supported, one with another year."""
    place = [*TRAINED, *EVALUATED].index(name)
    pairs = []
    for row in range(claims):
        town, year = TOWNS[row // 2 % 6], 1500 + 60 * place + row // 2
        evidence = (
            f"The market of {town} number {row // 2} in {name} was founded in {year}.\n"
            f"Traders from Elstow came to {town} each spring of {year}, and they sold wool."
        )
        said = year if row % 2 else year + 7
        pairs.append((evidence, f"The market of {town} in {name} was founded in {said}."))
    return Claims(name, pairs, np.arange(claims) % 2 * 1.0)


@pytest.fixture(scope="module")
def claims() -> dict[str, Claims]:
    """All corpora of the report; hover and FEVER share a sentence."""
    made = {name: corpus(name) for name in EVALUATED}
    for name, row in (("hover", 3), ("fever_symmetric", 5)):
        evidence, claim = made[name].pairs[row]
        made[name].pairs[row] = (f"{evidence} {SHARED}", claim)
    return made


@pytest.mark.parametrize("fold", FOLDS)
def test_a_fold_shares_nothing_with_what_it_leaves_out(fold: str, claims: dict[str, Claims]):
    """No sentence, no claim, also not in claims made from its evidence; only licensed corpora.

    Every corpus is scored by an adapter that never saw it.
    """
    assert all(name not in training_corpora(fold_of(name)) for name in EVALUATED)
    parts = fold_claims(claims, fold, FoldSettings(per_corpus=30, made=20))
    trained = {trace for part in parts for pair in part.pairs for trace in traces_of(*pair)}
    left_out = {t for name in FOLDS[fold] for pair in claims[name].pairs for t in traces_of(*pair)}
    assert trained
    assert not trained & left_out
    assert {part.name.removesuffix(MADE) for part in parts} == set(training_corpora(fold))
    assert set(training_corpora(fold)) <= set(TRAINED)
    sizes = {part.name: len(part.pairs) for part in parts if not part.made}
    shared = {"fever": "hover", "hover": "fever_symmetric"}.get(fold)
    assert {name for name, size in sizes.items() if size < 30} == ({shared} - {None})


def test_claims_of_one_document_are_in_one_split(claims: dict[str, Claims]):
    """Splits share no sentence and no claim; made claims stay with their document."""
    settings = FoldSettings(per_corpus=30, made=20, held_out=0.3, dev=0.2)
    examples = fold_examples(fold_claims(claims, "wice", settings), settings)
    traces: dict[str, set[str]] = defaultdict(set)
    for split, claim, evidence in examples.select("split", "text", "context").rows():
        traces[split] |= traces_of(evidence, claim)
    assert {"train", "dev", "test"} == set(traces)
    for one, other in combinations(traces.values(), 2):
        assert not one & other
    assert examples["claim_id"].str.contains(MADE).any()


def test_made_claims_have_the_label_that_they_state():
    """A reworded claim adds no word; a corrupted one changes a number, name, polarity or word."""
    evidence = (
        "The mill of Brora was built in 1843, and it was sold to Ewan Reid after the war.\n"
        "In later years the council of Dunoon did not repair the roof of the old mill.\n"
        "More than 300 people from Ashby were at the first opening of the hall in 1921."
    )
    made = weak_claims([evidence, f"{evidence} It stands."], most=60, per_evidence=3)
    kinds = {one.kind for one in made}
    assert {"reworded"} < kinds
    sentences = {s.rstrip(".") for s in evidence.split("\n")}
    for one in made:
        words = set(re.findall(r"\w+", one.claim.lower()))
        assert one.supported == (one.kind == "reworded")
        if one.kind == "reworded":
            assert words <= set(re.findall(r"\w+", evidence.lower()))
        elif one.kind == "number":
            assert {w for w in words if w.isdigit()} - set(re.findall(r"\d+", evidence))
        elif one.kind != "doubt":
            assert one.claim.rstrip(".") not in sentences


def scores(*, flip: bool = False) -> pl.DataFrame:
    """Scores with ties, of two folds; ``flip`` turns the labels of what was left out."""
    chance = np.random.default_rng(3)
    frames = []
    for corpus_, part, rows in (
        ("hover", "held out", 520),
        ("hover", "left out", 90),
        ("hover", "traces", 12),
        ("wice", "held out", 540),
        ("wice (drop_middle)", "left out", 60),
        ("wice (middle_is_refuted)", "left out", 70),
        ("scitab", "left out", 50),
    ):
        truth = chance.random(rows) < 0.5
        noisy = {
            name: np.round(chance.normal(truth * 1.0), 1) for name in VERIFIERS if name != "stack"
        }
        turned = ~truth if flip and part == "left out" else truth
        columns = {"corpus": [corpus_] * rows, "part": [part] * rows, "supported": turned, **noisy}
        columns |= {"document": np.arange(rows) // 2, "ruled": ["Supported"] * rows}
        frames.append(pl.DataFrame({name: columns[name] for name in SCORED}, schema=SCORED))
    return pl.concat(frames)


def test_figures_are_those_of_scikit_learn():
    """AUC with ties, of each corpus; means count WiCE once; intervals hold the figure."""
    frame = scores()
    found = results_of(frame)
    for name, one in found["corpora"].items():
        rows = frame.filter(corpus=name, part="left out")
        for verifier in ("encoder", "lexical", "overlap"):
            expected = roc_auc_score(rows["supported"].to_numpy(), rows[verifier].to_numpy())
            assert one[verifier] == pytest.approx(expected, abs=1e-4)
        assert {"raw", "temperature", "lexical"} == set(one["ece"])
        low, high = one["interval"]
        assert low < one["encoder"] < high
    whole = found["means"]["all corpora, WiCE once"]
    once = [found["corpora"][name]["encoder"] for name in ("hover", "wice (drop_middle)", "scitab")]
    assert whole["encoder"] == pytest.approx(np.mean(once), abs=1e-4)
    traced = frame.filter(part="traces")["supported"].to_numpy()
    assert found["traces"]["rules"] == pytest.approx(traced.mean(), abs=1e-4)


def test_stack_and_calibration_see_held_out_documents_alone():
    """With all labels of the left-out corpora turned, each AUC is one minus what it was."""
    straight, turned = (results_of(scores(flip=flip)) for flip in (False, True))
    for name, one in straight["corpora"].items():
        for verifier in VERIFIERS:
            assert one[verifier] + turned["corpora"][name][verifier] == pytest.approx(1, abs=2e-4)
    assert straight["held_out"] == turned["held_out"]


@pytest.mark.parametrize("all_layers", [False, True])
def test_a_fold_is_trained_and_scored_whole(
    tmp_path: Path, claims: dict[str, Claims], *, all_layers: bool
):
    """A small model: every left-out claim, held-out documents and traces get scores of all."""
    run = HeadsRun(
        examples=tmp_path / "examples.parquet",
        folder=tmp_path,
        encoder=str(tiny_modernbert(tmp_path / "encoder")),
        settings=HeadSettings(rank=2, epochs=1, most_tokens=48, least=2),
    )
    notes: list[str] = []
    small = replace(SMALL, all_layers=all_layers)
    frame, facts = fold_scores(run, "fever", claims, small, notes.append)
    sizes = dict(frame.filter(part="left out").group_by("corpus").len().rows())
    assert {"feverous_s": 12, "fever_symmetric": 12} == sizes
    assert 12 == frame.filter(part="traces").height
    assert not frame.filter(part="held out").is_empty()
    assert frame["encoder"].is_finite().all()
    assert frame["encoder"].n_unique() > 5, "the encoder reads the pair"
    assert (tmp_path / "adapter_model.safetensors").is_file() != all_layers
    assert not list(tmp_path.rglob("checkpoint*"))
    result = {**results_of(frame), "folds": {"fever": facts}}
    assert "| small |" in section({"small": result})
    assert 1 == len(notes)


def test_the_page_is_made_from_the_results_file():
    """And each command on it has the program's options."""
    page = PAGE.read_text("utf-8")
    assert section(json.loads(RESULTS.read_text("utf-8"))) in page
    ran = [line for line in shell_lines(PAGE) if "studies.encoder_verifier" in line]
    assert ran
    assert all(
        options(shlex.split(line)[3:]).report == Path("docs/results/studies.md") for line in ran
    )
