"""Traces from predictions, runs and results, collected into a page; and the file of marks."""

import gzip
import json
import re
import resource
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import polars as pl
import pytest

from dagster_project.view import with_judge_texts
from decomposerl.errors import SourceFileError
from decomposerl.evaluation.marks import Mark
from decomposerl.reports.trace_page.items import TraceItem
from decomposerl.reports.trace_page.pages import PageAbout
from decomposerl.reports.trace_page.results import ClaimNames
from decomposerl.traces.trace import Cycle
from evaluation_files import SYSTEMS, predictions
from resources.store.parquet import write_parquet
from resources.traces.collection import AT_ONCE, CollectedTraces, TraceSource, collect
from resources.traces.files import (
    BenchmarkClaims,
    PredictionFile,
    ResultFile,
    prediction_files,
)
from resources.traces.marks import MarksFile
from resources.traces.rollouts import RunSplit, run_splits
from trace_parts import EVIDENCE, EchoJudge, ListedTraces, item, write_benchmark
from trace_runs import STEPS, write_judged_run
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
    """By system and test set; each row is a trace with its gold label, or what there is."""
    assert [SIMPLE] == [one.system for one in prediction_files(evaluated, [SIMPLE])]
    assert [] == prediction_files(evaluated, (), ["hover"])
    limited = prediction_files(evaluated, limit=2)
    assert [IDS[:2]] * 2 == [one.claim_ids() for one in limited]
    policy, simple = prediction_files(evaluated)
    assert ([POLICY, SIMPLE], IDS) == ([policy.system, simple.system], policy.claim_ids())
    first, second = every(policy)[:2]
    assert (EVIDENCE, "Supported") == (first.evidence, first.gold)
    assert ("Supported", "Refuted") == (second.verdict, second.gold)
    sure = first.confidence
    assert (0.95, 0.97, None) == (sure.raw, sure.normalised, sure.calibrated)
    assert Cycle("Is it so?", "It is.", "So it is.") == first.cycles[0]
    assert [None] * 5 == [one.confidence for one in every(simple)]
    # A verifier's confidence is that of its verdict: 1 - P(Supported) for Refuted.
    path = evaluated / f"predictions/fever/{SIMPLE}.parquet"
    changed = pl.read_parquet(path).with_columns(support_score=0.25, verdict=pl.lit("Refuted"))
    write_parquet(changed, path)
    shown = every(PredictionFile.at(path, BenchmarkClaims(evaluated)))[0].confidence
    assert 0.75 == shown.normalised
    write_parquet(pl.read_parquet(path).drop("basis"), path)  # as earlier versions wrote it
    assert ["answered"] * 5 == [one.basis for one in every(prediction_files(evaluated)[0])]
    (evaluated / "benchmark/fever.parquet").unlink()
    one = every(prediction_files(evaluated)[0])[0]
    assert ("", None) == (one.evidence, one.gold)
    assert "not in the test set" in one.warnings[0]
    assert IDS[0] in one.claim


def test_damaged_files_are_named(evaluated: Path):
    """Of predictions, rollouts and rewards alike, in place of a traceback."""
    path = evaluated / "odd.parquet"
    write_parquet(pl.DataFrame({"a": [1]}), path)
    for content in (path.read_bytes(), b"", b"no table"):
        path.write_bytes(content)
        with pytest.raises(SourceFileError, match=r"odd\.parquet"):
            PredictionFile.at(path, BenchmarkClaims(evaluated))
    write_policy(evaluated)
    sources = [*prediction_files(evaluated), *run_splits(evaluated)]
    kinds = {path.parent.name: path for source in sources for path in source.paths}
    assert {"fever", "rollouts", "rewards", "judge_calls"} == set(kinds)
    for path in kinds.values():
        whole = path.read_bytes()
        path.write_bytes(whole[:40])
        with pytest.raises(SourceFileError, match=re.escape(str(path))):
            collect(sources, ABOUT)
        path.write_bytes(whole)


def test_files_of_another_version_are_left_out(evaluated: Path):
    """A cut table, one without a column, and cut settings cost themselves alone, with a warning."""
    write_judged_run(evaluated)
    table = evaluated / f"predictions/fever/{SIMPLE}.parquet"
    write_parquet(pl.read_parquet(table).drop("trace"), table)
    log = evaluated / "policy/mine/held_out_greedy"
    first, second, _ = sorted((log / "rollouts").iterdir())
    write_parquet(pl.read_parquet(first).drop("faults"), first)
    second.write_bytes(second.read_bytes()[:99])
    (evaluated / "policy/mine/config.json").write_text('{"base": ', "utf-8")
    (evaluated / "benchmark/fever.parquet").write_bytes(b"")
    warnings: list[str] = []
    files = prediction_files(evaluated, warn=warnings.append)
    made = collect([*files, *run_splits(evaluated, warn=warnings.append)], ABOUT)
    assert [POLICY, "mine/held_out_greedy"] == [one["key"] for one in made.index["systems"]]
    assert {None, STEPS[2]} == set(made.index["step"])
    named = (f"{SIMPLE}.parquet is no table of predictions: it has no 'trace'", str(second))
    for part in (*named, "config.json is cut off", f"{first} is no table of rollouts"):
        assert 1 == sum(part in one for one in warnings), part


def test_a_run_whose_record_is_cut_off_is_left_out(tmp_path: Path):
    """With one warning that names it."""
    path = write_judged_run(tmp_path) / "run.json"
    for record in ('{"key": ', "[]", "{}", '{"key": "a", "attempts": [1]}'):
        path.write_text(record, "utf-8")
        warnings: list[str] = []
        assert [] == run_splits(tmp_path, warn=warnings.append)
        (warning,) = warnings
        assert str(path) in warning


def test_only_what_counts_of_a_run(tmp_path: Path):
    """Steps that a later attempt replaced are not shown; each split is a system of its own."""
    write_policy(tmp_path)
    sampled, train = run_splits(tmp_path)
    assert f"{EXPERIMENT}/held_out_sampled" == sampled.system
    assert f"{EXPERIMENT}/train" == train.system
    assert sorted(2 * [*COUNTING]) == [one.origin.step for one in every(train)]
    assert {0, 5} == {one.origin.step for one in every(sampled)}
    broken, whole = every(train)[:2]
    assert ("unparsed", ("no_verdict",), "") == (broken.status, broken.faults, broken.evidence)
    assert ("parsed", "Supported", 2.0) == (whole.status, whole.verdict, whole.judged.total)
    assert [] == run_splits(tmp_path, ["other"])
    assert 2 == len(run_splits(tmp_path, [EXPERIMENT]))
    assert 3 == len(set(RunSplit(train.folder, "train", limit=3).claim_ids()))


def test_the_same_claim_over_training(tmp_path: Path):
    """Steps in order with evidence, rulings, rewards; the judge's texts by their call."""
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
    added = with_judge_texts(first, EchoJudge())
    assert all(one.prompt.startswith("prompt of ") for one in added.judged.rulings)
    replies = {one.reply for one in added.judged.rulings if one.task == "coverage"}
    assert {"reply to coverage"} == replies
    assert first == with_judge_texts(first, EchoJudge("chat:other"))


def test_results_of_several_systems(tmp_path: Path):
    """Claims without id are known by their text; a file without results by its command."""
    won = {"claim": "Ada won.", "evidence": "She won.", "system": "one", "verdict": "Supported"}
    lines = [won, won | {"claim": "Ada lost.", "verdict": "Refuted"}]
    paths = [tmp_path / "a.jsonl", tmp_path / "b.jsonl"]
    paths[0].write_text("\n\n".join(map(json.dumps, lines)), "utf-8")
    other = json.dumps(won | {"system": "two"})
    paths[1].write_text(f"\ufeff{other}\n", "utf-8")
    first, second = (ResultFile(path) for path in paths)
    made = collect([first, second], ABOUT)
    assert ["one", "two", "one"] == [_system(made, row) for row in range(3)]
    assert ["Ada won.", "Ada won.", "Ada lost."] == made.index["claim"]
    assert 1 == len(ResultFile(paths[0], limit=1).claim_ids())
    path = tmp_path / "odd.jsonl"
    for text in ("", "\n", "[3]\n", '{"claim": 3}\n', '{"a": '):
        path.write_text(text, "utf-8")
        with pytest.raises(SourceFileError, match=r"odd\.jsonl.*decomposerl verify --json"):
            ResultFile(path).claim_ids()


def test_two_claims_with_one_id(tmp_path: Path):
    """Each has a name of its own, the same in every file; equal traces are one."""
    claims = {"one": ("Ada won.", "Ada lost."), "two": ("Ada lost.", "Ada won.")}
    for system, each in claims.items():
        line = {"claim_id": "a", "evidence": "x", "system": system}
        text = "\n".join(json.dumps(line | {"claim": claim}) for claim in each)
        (tmp_path / f"{system}.jsonl").write_text(text, "utf-8")
    names = ClaimNames()
    made = collect([ResultFile(tmp_path / f"{one}.jsonl", names=names) for one in claims], ABOUT)
    first, again, second, other = made.index["claim_id"]
    assert "a" == first == again != second == other
    assert ["Ada won."] * 2 + ["Ada lost."] * 2 == made.index["claim"]
    line = {"claim": "Ada won.", "evidence": "x", "system": "one", "verdict": "Supported"}
    replies = ("old", "new", "old", "newer")
    paths = [tmp_path / f"{number}.jsonl" for number, _ in enumerate(replies)]
    for path, reply in zip(paths, replies, strict=True):
        path.write_text(json.dumps(line | {"reply": reply}), "utf-8")
    made = collect([ResultFile(path) for path in paths], ABOUT)
    assert [None, 2, 3] == made.index["rollout"]
    assert 3 == len(set(keys(made)))
    assert ["old", "new", "newer"] == [one["reply"] for one in made.blocks[0]["items"]]
    found = [made.item(0, place) for place in range(3)]
    assert ["old", "new", "newer"] == [one.reply for one in found if one]
    assert 3 == len(set(made.index["of"]))


def keys(made: CollectedTraces) -> list[tuple[object, ...]]:
    names = ("claim_id", "system", "step", "rollout")
    return [*zip(*(made.index[name] for name in names), strict=True)]


def test_a_trace_of_two_test_sets_is_one(evaluated: Path):
    """It is listed once, under both test sets; the traces of one set alone are there too."""
    claims = write_benchmark(evaluated, "fever_subset", IDS[:2])
    frame = predictions(SYSTEMS[0], "fever_subset", claims)
    write_parquet(frame, evaluated / f"predictions/fever_subset/{SIMPLE}.parquet")
    said: list[tuple[int, int]] = []
    made = collect(prediction_files(evaluated), ABOUT, progress=lambda *one: said.append(one))
    assert (10, [(12, 12)]) == (len(set(keys(made))), said)
    assert 10 == len(made.index["claim"])
    twice = {row: [made.index["benchmarks"].index("fever_subset")] for row in made.index["also"]}
    assert made.index["also"] == twice
    assert sorted(IDS[:2]) == sorted(made.index["claim_id"][row] for row in twice)
    assert {SIMPLE} == {_system(made, row) for row in twice}


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
        assert (ids[row], _system(made, row)) == (found.claim_id, found.origin.system)
        assert found.reply == made.blocks[block]["items"][place]["reply"]
    assert made.item(0, 10**6) is None


def test_blocks_are_kept_compressed():
    """A block reads back, with what is added to each trace; a number beyond them is refused."""
    add = lambda one: replace(one, opening="added")  # noqa: E731 - one line
    made = collect([ListedTraces([item()])], ABOUT, enriched=add)
    (block,) = made.blocks
    assert "added" == block["items"][0]["opening"]
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


MARK = Mark(
    claim_id="c1", system="one", reviewer="ada", mark="agree", note="it’s so\n", at="2026-01-02"
)


def test_marks_are_appended_as_lines(tmp_path: Path):
    """And read back; a line that a killed process left, or that holds no mark, costs no other."""
    file = MarksFile(tmp_path / "new/marks.jsonl")
    assert ([], b"") == (file.marks(), file.content())
    file.append(MARK)
    file.append(MARK)
    assert [MARK, MARK] == file.marks()
    assert 2 == file.content().count(b"\n")
    file.path.write_bytes(file.content() + b'[]\n\n{"claim_id": ""}\n{"claim_id": "c1", "no')
    file.append(MARK)
    assert [MARK] * 3 == file.marks()


def test_a_mark_that_is_written_in_part_is_refused(tmp_path: Path):
    """The file stays as it was, and the error says so; many writers have whole lines."""
    file = MarksFile(tmp_path / "marks.jsonl")
    file.append(MARK)
    before = file.content()
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (len(before) + 9, hard))
    try:
        with pytest.raises(OSError, match=r"No space left.*marks\.jsonl"):
            file.append(MARK)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert before == file.content()
    file.append(MARK)
    assert [MARK, MARK] == file.marks()
    path = tmp_path / "many.jsonl"
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda _: MarksFile(path).append(MARK), range(64)))
    assert [MARK] * 64 == MarksFile(path).marks()
