"""Traces from predictions, training runs and results, and all of them collected into a page."""

import gzip
import json
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import polars as pl
import pytest

from decomposerl import schemas
from decomposerl.errors import SourceFileError
from decomposerl.judge.plan import Use, plan
from decomposerl.reports.trace_page.items import TraceItem
from decomposerl.reports.trace_page.pages import PageAbout
from decomposerl.traces.grammar import parse_trace
from decomposerl.traces.rollout import Rollout
from evaluation_files import SYSTEMS, predictions
from resources.store.parquet import write_parquet
from resources.traces.collection import AT_ONCE, CollectedTraces, TraceSource, collect
from resources.traces.judge_texts import with_judge_texts
from resources.traces.predictions import BenchmarkClaims, PredictionFile, prediction_files
from resources.traces.results import ResultFile
from resources.traces.rollouts import RunSplit, run_splits
from trace_parts import CYCLES, EVIDENCE, EchoJudge, ListedTraces, item, write_benchmark
from training_files import COUNTING, EXPERIMENT, write_policy

ABOUT = PageAbout("Traces")
IDS = [f"{number:016x}" for number in range(5)]
SIMPLE, POLICY = (system.key for system in SYSTEMS)


def every(source: TraceSource) -> list[TraceItem]:
    return list(source.items(list(dict.fromkeys(source.claim_ids()))))


@pytest.fixture
def evaluated(tmp_path: Path) -> Path:
    """A data folder with two systems' predictions on one test set."""
    claims = write_benchmark(tmp_path, "fever", IDS)
    for system in SYSTEMS:
        frame = predictions(system, "fever", claims)
        write_parquet(frame, tmp_path / f"predictions/fever/{system.key}.parquet")
    return tmp_path


def test_predictions_with_claim_label_and_confidence(evaluated: Path):
    """Each row is a trace; wrong ones can be seen by their gold label."""
    policy, simple = prediction_files(evaluated)
    assert ([POLICY, SIMPLE], IDS) == ([policy.system, simple.system], policy.claim_ids())
    first, second = every(policy)[:2]
    assert (EVIDENCE, "Supported") == (first.evidence, first.gold)
    assert ("Supported", "Refuted") == (second.verdict, second.gold)
    assert first.confidence is not None
    assert (0.95, 0.97, None) == (
        first.confidence.raw,
        first.confidence.normalised,
        first.confidence.calibrated,
    )
    assert ("Is it so?", "It is.", "So it is.") == (
        first.cycles[0].question,
        first.cycles[0].answer,
        first.cycles[0].thought,
    )
    assert [None] * 5 == [one.confidence for one in every(simple)]


def test_a_verifiers_confidence_is_that_of_its_verdict(evaluated: Path):
    """1 − P(Supported) for Refuted."""
    path = evaluated / f"predictions/fever/{SIMPLE}.parquet"
    changed = pl.read_parquet(path).with_columns(support_score=0.25, verdict=pl.lit("Refuted"))
    write_parquet(changed, path)
    shown = every(PredictionFile.at(path, BenchmarkClaims(evaluated)))[0].confidence
    assert shown is not None
    assert 0.75 == shown.normalised


def test_predictions_without_their_test_set(evaluated: Path):
    """What there is is shown, with a warning."""
    (evaluated / "benchmark/fever.parquet").unlink()
    one = every(prediction_files(evaluated)[0])[0]
    assert ("", None) == (one.evidence, one.gold)
    assert "not in the test set on disk" in one.warnings[0]
    assert IDS[0] in one.claim


def test_filters_and_limit(evaluated: Path):
    """By system, by test set; the first claims of each file."""
    assert [SIMPLE] == [one.system for one in prediction_files(evaluated, [SIMPLE])]
    assert [] == prediction_files(evaluated, (), ["hover"])
    limited = prediction_files(evaluated, limit=2)
    assert [IDS[:2]] * 2 == [one.claim_ids() for one in limited]


@pytest.mark.parametrize("content", [b"", b"no table", None])
def test_a_file_that_is_no_table_of_predictions(tmp_path: Path, content: bytes | None):
    """The message names the file."""
    path = tmp_path / "odd.parquet"
    if content is None:
        write_parquet(pl.DataFrame({"a": [1]}), path)
    else:
        path.write_bytes(content)
    with pytest.raises(SourceFileError, match=r"odd\.parquet"):
        PredictionFile.at(path, BenchmarkClaims(tmp_path))


def test_only_what_counts_of_a_run(tmp_path: Path):
    """Steps that a later attempt replaced are not shown; each split is a system of its own."""
    write_policy(tmp_path)
    sampled, train = run_splits(tmp_path)
    assert [f"{EXPERIMENT}/held_out_sampled", f"{EXPERIMENT}/train"] == [
        sampled.system,
        train.system,
    ]
    assert sorted(2 * [*COUNTING]) == [one.origin.step for one in every(train)]
    assert {0, 5} == {one.origin.step for one in every(sampled)}
    broken, whole = every(train)[:2]
    assert ("unparsed", ("no_verdict",), "") == (broken.status, broken.faults, broken.evidence)
    assert ("parsed", "Supported", 2.0) == (whole.status, whole.verdict, whole.judged.total)
    assert [] == run_splits(tmp_path, ["other"])
    assert 2 == len(run_splits(tmp_path, [EXPERIMENT]))
    assert 3 == len(set(RunSplit(train.folder, "train", limit=3).claim_ids()))


TEXT = (
    "<think>Look.</think>"
    + "".join(
        f"<question>{one.question}</question><answer>{one.answer}</answer><think>So.</think>"
        for one in CYCLES[:2]
    )
    + "<verification>Supported</verification>"
)
STEPS = (0, 10, 20)


def write_judged_run(data: Path) -> Path:
    """A run whose one held-out claim was sampled at three steps, with rulings and rewards."""
    folder = data / "policy/mine"
    folder.mkdir(parents=True)
    record = {"key": "ab" * 8, "attempts": [{"attempt": 1, "resumed_from": 0}]}
    (folder / "run.json").write_text(json.dumps(record), "utf-8")
    (folder / "config.json").write_text(json.dumps({"base": "org/model"}), "utf-8")
    claims = pl.DataFrame({"claim_id": ["c1"], "evidence": [EVIDENCE]})
    write_parquet(claims, folder / f"inputs/{'ab' * 8}/held_out.parquet")
    rollout = Rollout("c1", 0, "A claim.", EVIDENCE, parse_trace(TEXT))
    rulings = plan([rollout])
    for step in STEPS:
        _write_step(folder, step, rulings.uses, [call.key for call in rulings.calls])
    return folder


def _write_step(folder: Path, step: int, uses: Sequence[Use], keys: list[str]) -> None:
    name = f"step-{step:06d}.attempt-01.parquet"
    about = {"group": "c1", "rollout": 0}
    calls = [
        about
        | {"task": task, "role": use.role, "question": use.question, "call_key": keys[use.call]}
        | {"value": "Refuted" if task == "coverage" else "1", "failure": None}
        | {"engine": "chat:echo"}
        for use in uses
        for task in [_task_of(use, uses)]
    ]
    scored = about | {"run": "ab" * 8, "step": step, "weight": 1.0, "counted": True}
    rewards = [
        scored | {"reward": "necessity", "question": None, "value": -1.0, "state": "scored"},
        scored | {"reward": "necessity", "question": 0, "value": -1.0, "state": "harmful"},
        scored | {"reward": "diversity", "question": 1, "value": -0.75, "state": "compared"},
        scored | {"reward": "total", "question": None, "value": 2.5, "state": "scored"},
    ]
    rollouts = [
        about
        | {"run": "ab" * 8, "step": step, "split": "held_out_greedy", "attempt": 1}
        | {"source": "hover", "claim": "A claim.", "label": "Refuted", "labelled": True}
        | {"n_star": 2, "prompt_digest": "0" * 64, "prompt_tokens": 9, "completion": TEXT}
        | {"completion_tokens": 9, "truncated": False, "verdict": "Supported", "questions": 2}
        | {"faults": [], "total": 2.5}
    ]
    tables = {
        "judge_calls": (schemas.JUDGE_CALLS, calls),
        "rewards": (schemas.REWARDS, rewards),
        "rollouts": (schemas.ROLLOUTS, rollouts),
    }
    for table, (form, rows) in tables.items():
        frame = form.conform(pl.DataFrame(rows, schema=form.schema))
        write_parquet(frame, folder / "held_out_greedy" / table / name)


def _task_of(use: Use, uses: Sequence[Use]) -> str:
    """The tasks of a question come in one order: answerability, atomicity, correctness."""
    if use.role != "question":
        return "coverage"
    earlier = [one for one in uses[: uses.index(use)] if one.role == "question"]
    same = sum(one.question == use.question for one in earlier)
    return ("answerability", "atomicity", "correctness")[same]


def test_the_same_claim_over_training(tmp_path: Path):
    """Steps in order, with the evidence of the run's copies, rulings and rewards."""
    write_judged_run(tmp_path)
    (split,) = run_splits(tmp_path)
    items = every(split)
    assert [*STEPS] == [one.origin.step for one in items]
    first = items[0]
    assert (EVIDENCE, "Refuted", 2.5) == (first.evidence, first.gold, first.judged.total)
    assert ("harmful", "") == first.judged.necessity
    assert (None, 0.75) == first.judged.cosines
    assert ["necessity"] == [one.name for one in first.judged.rewards]
    assert "policy of mine, trained on org/model" == first.origin.engine
    assert 1 + 2 + 3 * 2 == len(first.judged.rulings)


def test_the_judges_texts_are_found_by_their_call(tmp_path: Path):
    """The call follows from the trace; a ruling of another judge has no text."""
    write_judged_run(tmp_path)
    first = every(run_splits(tmp_path)[0])[0]
    added = with_judge_texts(first, EchoJudge())
    assert all(one.prompt.startswith("prompt of ") for one in added.judged.rulings)
    assert {"reply to coverage"} == {
        one.reply for one in added.judged.rulings if one.task == "coverage"
    }
    assert first == with_judge_texts(first, EchoJudge("chat:other"))


def test_results_of_several_systems(tmp_path: Path):
    """A file of lines; a claim without an id is known by its text in both files."""
    lines = [
        {"claim": "Ada won.", "evidence": "She won.", "system": "one", "verdict": "Supported"},
        {"claim": "Ada lost.", "evidence": "She won.", "system": "one", "verdict": "Refuted"},
    ]
    paths = [tmp_path / "a.jsonl", tmp_path / "b.jsonl"]
    paths[0].write_text("\n\n".join(map(json.dumps, lines)), "utf-8")
    other = json.dumps(lines[0] | {"system": "two"})
    paths[1].write_text(f"\ufeff{other}\n", "utf-8")
    first, second = (ResultFile(path) for path in paths)
    made = collect([first, second], ABOUT)
    assert ["one", "two", "one"] == [_system(made, row) for row in range(3)]
    assert ["Ada won.", "Ada won.", "Ada lost."] == made.index["claim"]
    assert 1 == len(ResultFile(paths[0], limit=1).claim_ids())


def test_two_claims_with_one_id(tmp_path: Path):
    """The second has an id of its own, the same in every file."""
    line = {"claim": "Ada won.", "claim_id": "a", "evidence": "x", "system": "one"}
    text = "\n".join(json.dumps(line | {"claim": claim}) for claim in ("Ada won.", "Ada lost."))
    for name in ("a.jsonl", "b.jsonl"):
        (tmp_path / name).write_text(text, "utf-8")
    made = collect([ResultFile(tmp_path / name) for name in ("a.jsonl", "b.jsonl")], ABOUT)
    first, again, second, other = made.index["claim_id"]
    assert "a" == first == again != second == other
    assert ["Ada won."] * 2 + ["Ada lost."] * 2 == made.index["claim"]


@pytest.mark.parametrize("text", ["", "\n", "[3]\n", '{"claim": 3}\n', '{"a": '])
def test_a_file_without_results(tmp_path: Path, text: str):
    """Refused before a page is made; the message names the command that writes one."""
    path = tmp_path / "odd.jsonl"
    path.write_text(text, "utf-8")
    with pytest.raises(SourceFileError, match=r"odd\.jsonl.*decomposerl verify --json"):
        ResultFile(path).claim_ids()


def _system(made: CollectedTraces, row: int) -> str:
    return made.index["systems"][made.index["system"][row]]["key"]


def test_traces_of_a_claim_are_together_whatever_their_sources(evaluated: Path):
    """Predictions and rollouts of one claim; each detail is where the index says."""
    write_policy(evaluated)
    sources = [*prediction_files(evaluated), *run_splits(evaluated)]
    said: list[tuple[int, int]] = []
    made = collect(sources, ABOUT, {SIMPLE: "Simple"}, progress=lambda *one: said.append(one))
    ids = made.index["claim_id"]
    assert [*dict.fromkeys(ids)] == [name for n, name in enumerate(ids) if name not in ids[:n]]
    assert ids == sorted(ids, key=[*dict.fromkeys(ids)].index)
    assert {"Simple", POLICY} <= {one["title"] for one in made.index["systems"]}
    assert [(len(ids), len(ids))] == said
    for row, (block, place) in enumerate(
        zip(made.index["block_of"], made.index["place_of"], strict=True)
    ):
        found = made.item(block, place)
        assert found is not None
        assert (ids[row], _system(made, row)) == (found.claim_id, found.origin.system)
        assert found.reply == made.blocks[block]["items"][place]["reply"]
    assert made.item(0, 10**6) is None


def test_blocks_are_kept_compressed():
    """A block reads back; a number beyond them is refused."""
    made = collect([ListedTraces([item()])], ABOUT)
    (block,) = made.blocks
    assert block == made.blocks[0] == made.blocks[:1][0]
    assert block == json.loads(gzip.decompress(made.blocks.packed(0)))
    for number in (-1, 1):
        with pytest.raises(IndexError):
            made.blocks.packed(number)


def test_many_claims_are_read_in_parts():
    """No claim is lost or split where a part ends, and each part is of about one size."""
    asked: list[int] = []

    class Watched(ListedTraces):
        def items(self, claim_ids: Sequence[str]) -> Iterator[TraceItem]:
            asked.append(len(claim_ids))
            return super().items(claim_ids)

    names = [f"c{number % 900}" for number in range(3 * AT_ONCE)]
    source = Watched([item(name, cycles=(), rollout=n) for n, name in enumerate(names)])
    made = collect([source], ABOUT)
    assert sorted(names) == sorted(made.index["claim_id"])
    assert len({*zip(made.index["claim_id"], made.index["block_of"], strict=True)}) == 900
    assert 900 == sum(asked)
    assert max(asked) < AT_ONCE


def test_what_is_added_to_each_trace():
    """Before it is written."""
    made = collect(
        [ListedTraces([item()])], ABOUT, enriched=lambda one: replace(one, opening="added")
    )
    assert "added" == made.blocks[0]["items"][0]["opening"]
