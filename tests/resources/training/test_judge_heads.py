"""Training the heads: it goes on where it stopped, and trains again what changed."""

import shutil
from pathlib import Path

import polars as pl
import pytest

from decomposerl.errors import EngineMissing, TrainingError
from decomposerl.judge.distillation import HEADS, Head, head_examples
from judge_parts import heads_run
from resources.judge.tiny_judge import TinyJudge, read_head
from resources.store.integrity import file_sha256
from resources.store.parquet import write_parquet
from resources.training.judge_heads import (
    HeadsRun,
    Note,
    fit_head,
    head_model,
    heads_markdown,
    train_heads,
)
from tiny_models import tiny_modernbert

pytestmark = pytest.mark.filterwarnings("ignore:`is_gradient_checkpointing` is deprecated")


def cut_at(head: Head) -> Note:
    """Ends the training with this head's first epoch."""

    def cut(text: str) -> None:
        assert not text.startswith(head.name), "cut"

    return cut


def weights(folder: Path) -> dict[str, str]:
    return {path.parent.name: file_sha256(path) for path in folder.glob("*/*.safetensors")}


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> HeadsRun:
    """One epoch of every head, trained."""
    folder = tmp_path_factory.mktemp("whole")
    run = heads_run(folder, str(tiny_modernbert(folder / "encoder")), epochs=1)
    train_heads(run, str)
    return run


@pytest.fixture
def run(whole: HeadsRun, tmp_path: Path) -> HeadsRun:
    """The same, with examples and heads of its own."""
    folder = shutil.copytree(whole.folder, tmp_path / "heads")
    examples = shutil.copy(whole.examples, tmp_path)
    return whole.model_copy(update={"folder": folder, "examples": Path(examples)})


def test_a_run_that_was_stopped_goes_on_with_the_next_head(whole: HeadsRun, tmp_path: Path):
    """Done heads stay as they are, a half-trained one leaves nothing, the end is the same."""
    run, notes = whole.model_copy(update={"folder": tmp_path / "stopped"}), list[str]()
    with pytest.raises(AssertionError, match="cut"):
        train_heads(run, cut_at(HEADS[3]))
    first = weights(run.folder)
    assert {head.name for head in HEADS[:3]} == set(first)
    with pytest.raises(EngineMissing, match="tiny judge"):
        assert TinyJudge(run.folder).engine
    train_heads(run, notes.append)
    again = [note for note in notes if "trained before" in note]
    assert [head.name for head in HEADS[:3]] == [note.partition(":")[0] for note in again]
    assert first.items() <= weights(run.folder).items()
    assert weights(whole.folder) == weights(run.folder), "the same seed gives the same heads"
    assert [] == [path for path in run.folder.rglob("*") if "checkpoint" in path.name]


def test_a_head_is_trained_again_where_its_examples_changed(run: HeadsRun):
    """Only that one; all of them with other settings, and until then nothing judges with them."""
    before, notes = weights(run.folder), list[str]()
    turned = pl.col("label").replace({"0": "1", "1": "0"})
    label = pl.when(pl.col("head") == "correctness").then(turned).otherwise("label")
    write_parquet(pl.read_parquet(run.examples).with_columns(label=label), run.examples)
    train_heads(run, notes.append)
    assert 7 == sum("trained before" in note for note in notes)
    changed = {name for name, digest in weights(run.folder).items() if digest != before[name]}
    assert {"correctness"} == changed
    other = run.model_copy(update={"settings": run.settings.model_copy(update={"seed": 1})})
    assert TinyJudge(run.folder).engine
    with pytest.raises(AssertionError, match="cut"):
        train_heads(other, cut_at(HEADS[1]))
    with pytest.raises(EngineMissing, match="tiny judge"):
        assert TinyJudge(run.folder).engine


def test_patience_counts_from_the_first_epoch_that_gives_more_than_one_class(run: HeadsRun):
    """Neither head learns: the one that gives one class to everything is not given up."""
    head = HEADS[-1]
    data = head_examples(pl.read_parquet(run.examples), head, run.settings.least)
    changes = {"epochs": 4, "patience": 1, "learning_rate": 1e-12}
    mine = run.model_copy(update={"settings": run.settings.model_copy(update=changes)})
    rows, _ = run.shared.encoded(data.dev.select("text", "context").rows())
    inputs = run.shared.padded(rows)
    for always, epochs in ((0.0, 2), (100.0, 4)):
        model = head_model(mine)
        bias = model.base_model.model.classifier.modules_to_save["default"].bias.data
        bias -= model.eval()(**inputs).logits.mean(0).detach()
        bias[0] += always
        assert epochs == fit_head(mine, model, head, data, str)["epochs"]


def test_a_one_sided_head_is_constant_and_says_so(run: HeadsRun):
    """It has no adapter; the judge gives its class without the encoder."""
    always = pl.when(pl.col("head") == "answerability").then(pl.lit("1")).otherwise("label")
    write_parquet(pl.read_parquet(run.examples).with_columns(label=always), run.examples)
    notes: list[str] = []
    train_heads(run, notes.append)
    (note,) = [one for one in notes if "trained before" not in one]
    assert note.startswith("answerability: always 1")
    record = read_head(run.folder / "answerability")
    assert ("1", 0) == (record["constant"], record["train"])
    assert 7 == len(weights(run.folder))
    judge = TinyJudge(run.folder)
    assert [["1", "1"]] == judge.labels([HEADS[5]], [("a", "b"), ("the cat", "c")])
    assert "_model" not in vars(judge)
    assert "| answerability | 0 |" in heads_markdown(run.folder)


@pytest.mark.parametrize(
    ("kept", "said"),
    [(pl.col("head") != "coverage", "coverage"), (pl.col("split") != "dev", "dev_share")],
)
def test_what_cannot_be_learned_is_refused_before_the_first_head(
    run: HeadsRun, tmp_path: Path, kept: pl.Expr, said: str
):
    """A head without rulings, and examples without documents for early stopping."""
    write_parquet(pl.read_parquet(run.examples).filter(kept), run.examples)
    fresh = run.model_copy(update={"folder": tmp_path / "new"})
    with pytest.raises(TrainingError, match=said):
        train_heads(fresh, str)
    assert {} == weights(fresh.folder)
