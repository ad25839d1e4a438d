"""Traces from predictions, training runs and results, and all of them collected into a page."""

import gzip
import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import polars as pl
import pytest

from decomposerl.errors import SourceFileError
from decomposerl.reports.trace_page.items import TraceItem
from decomposerl.reports.trace_page.pages import PageAbout
from decomposerl.reports.trace_page.results import ClaimNames
from evaluation_files import SYSTEMS, predictions
from resources.store.parquet import write_parquet
from resources.traces.collection import AT_ONCE, CollectedTraces, TraceSource, collect
from resources.traces.judge_texts import with_judge_texts
from resources.traces.predictions import BenchmarkClaims, PredictionFile, prediction_files
from resources.traces.results import ResultFile
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


def test_damaged_files_are_named(evaluated: Path):
    """Of predictions, rollouts and rewards alike, in place of a traceback."""
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
    sources = [
        *prediction_files(evaluated, warn=warnings.append),
        *run_splits(evaluated, warn=warnings.append),
    ]
    made = collect(sources, ABOUT)
    assert [POLICY, "mine/held_out_greedy"] == [one["key"] for one in made.index["systems"]]
    assert {None, STEPS[2]} == set(made.index["step"])
    named = (f"{SIMPLE}.parquet is no table of predictions: it has no 'trace'", str(second))
    for part in (*named, "config.json is cut off", f"{first} is no table of rollouts"):
        assert 1 == sum(part in one for one in warnings), part


@pytest.mark.parametrize("record", ['{"key": ', "[]", "{}", '{"key": "a", "attempts": [1]}'])
def test_a_run_whose_record_is_cut_off_is_left_out(evaluated: Path, record: str):
    """With one warning that names it; other sources are shown."""
    folder = write_judged_run(evaluated)
    (folder / "run.json").write_text(record, "utf-8")
    warnings: list[str] = []
    assert [] == run_splits(evaluated, warn=warnings.append)
    (warning,) = warnings
    assert str(folder / "run.json") in warning


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
    """The second has an id of its own, the same in every file, whichever file has it first."""
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


def test_different_traces_of_one_system_on_one_claim(tmp_path: Path):
    """Results of two versions: each can be named, shown and found again; equal ones are one."""
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
