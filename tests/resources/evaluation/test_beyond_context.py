"""Claims longer than the model's context: what is read of them, and where they are counted."""

import json
from contextlib import chdir
from dataclasses import replace
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from decomposerl.baselines.catalogue import METHODS
from decomposerl.baselines.method import ClaimInput
from decomposerl.errors import EngineError
from decomposerl.evaluation.scored_claims import MOST_WORDS
from decomposerl.evaluation.systems import system_named, systems
from decomposerl.reports.leaderboard_report import leaderboard_text
from decomposerl.schemas import BENCHMARK_CLAIMS
from decomposerl.training.evidence_view import best_sentences
from decomposerl.training.experiment import EvidenceView
from evaluation_graph import claim_row, materialize
from evaluation_parts import ScriptedCaller, two_steps
from resources.evaluation.context_guard import ContextGuard, Room
from resources.evaluation.generation import Generated, Task, answer_claims
from resources.evaluation.model import EvaluationModelResource
from resources.evaluation.prediction_store import Prediction
from resources.evaluation.runner import ClaimToVerify
from resources.evaluation.served_policy import ServedModels
from resources.evaluation.weights import Weights, context_of
from resources.policy_tiny.folder import CHECKPOINT
from resources.store.parquet import DataFolder, write_parquet
from resources.store.prompts import load_prompt
from resources.tokens.word_tokens import CautiousTokens
from resources.verifier.resource import VerifierResource
from stand_in_server import requests_of, serving
from strategies import LAW

SYSTEM, MODEL, CONTEXT = "simple-qwen2.5-7b-faithful", "Qwen/Qwen2.5-7B-Instruct", 8_192
SAYS = ["--says", "Verdict: Supported", "--max-model-len", str(CONTEXT)]
FILLER = "The town had a market on the river where {} fairs were held in spring."
COUNT, LONG = 8, {2, 5}  # a quarter of the claims, far more than may fail


def claims(lines: int = 900) -> pl.DataFrame:
    """Claims of which those in ``LONG`` have their evidence in the middle of a long text."""
    rows = []
    for number in range(COUNT):
        row = claim_row(number)
        if number in LONG:
            text = [FILLER.format(f"{n}") for n in range(lines)]
            text.insert(lines // 2, str(row["evidence"]).split(". ", maxsplit=1)[0] + ".")
            row |= {"evidence": " ".join(text), "passages": text}
        rows.append(row)
    return BENCHMARK_CLAIMS.conform(pl.DataFrame(rows, schema=BENCHMARK_CLAIMS.schema))


def engines(folder: Path, url: str, rule: str, context: int = CONTEXT) -> EvaluationModelResource:
    return EvaluationModelResource(
        results_dir=str(folder / "results"),
        beyond_context=rule,
        open_models=ServedModels(endpoints=[f"{url}/v1"], context=context, continues=True),
    )


def predicted(
    folder: Path, by: EvaluationModelResource, frame: pl.DataFrame, key: str = SYSTEM
) -> Generated:
    """Predictions of which none may fail."""
    data, verifier = DataFolder(base_dir=str(folder)), VerifierResource(results_dir=by.results_dir)
    try:
        system = by.opened(system_named(key, systems(METHODS, ["tiny"])), data, verifier)
        return system.predict("coverbench", frame, 0.0, str)
    finally:
        by.close()


def beyond(made: Generated) -> list[str | None]:
    """The note of each claim."""
    return [json.loads(notes).get("beyond_context") for notes in made.predictions["notes"]]


def expected(done: str) -> list[str | None]:
    return [done if number in LONG else None for number in range(COUNT)]


@pytest.mark.parametrize(
    ("key", "says"),
    [(SYSTEM, "Verdict: Supported"), ("chen_2024-qwen2.5-7b-faithful", "1. Did he open it?")],
)
def test_the_best_sentences_are_read_up_to_the_budget(tmp_path: Path, key: str, says: str):
    """No call is refused, every claim has its verdict, and a finished run needs no server."""
    with serving(tmp_path, *SAYS, "--says", says, model=MODEL) as url:
        made = predicted(tmp_path, engines(tmp_path, url, "best_sentences"), claims(), key)
    assert expected("best_sentences") == beyond(made)
    assert "failed" not in made.predictions["parse_status"].to_list()
    asked = requests_of(tmp_path)
    assert {200} == {one["status"] for one in asked}
    most = max(one["prompt_tokens"] for one in asked)
    assert CONTEXT // 5 < most  # it is not cut more than the room for replies needs
    again = predicted(tmp_path, engines(tmp_path, url, "best_sentences"), claims(), key)
    assert (COUNT, 0) == (made.asked, again.asked)
    assert made.predictions.equals(again.predictions)


def test_without_a_guard_the_server_refuses(tmp_path: Path):
    """Where the context is not known, a refused claim is wrong and asked again by the next run."""
    with serving(tmp_path, *SAYS, model="org/mine") as url:
        own = ServedModels(endpoints=[f"{url}/v1"], model="org/mine")
        by = EvaluationModelResource(results_dir=str(tmp_path / "results"), endpoint=own)
        made = predicted(tmp_path, by, claims(), "simple-endpoint-faithful")
    assert expected("wrong") == beyond(made)
    parsed = made.predictions["parse_status"].to_list()
    assert ["unparsed" if n in LONG else "parsed" for n in range(COUNT)] == parsed
    assert len(LONG) == sum(one["status"] == 400 for one in requests_of(tmp_path))
    reply = made.predictions["reply"][min(LONG)]
    assert reply.startswith("too_long: HTTP 400")


def test_wrong_makes_no_call(tmp_path: Path):
    """The claims that do not fit have no verdict; with another rule they are asked after all."""
    with serving(tmp_path, *SAYS, model=MODEL) as url:
        made = predicted(tmp_path, engines(tmp_path, url, "wrong"), claims())
        assert expected("wrong") == beyond(made)
        assert (
            COUNT - len(LONG) == len(requests_of(tmp_path)) == made.predictions["verdict"].count()
        )
        read = predicted(tmp_path, engines(tmp_path, url, "best_sentences"), claims())
    assert len(LONG) == read.asked  # the others have the key that they had
    assert COUNT == read.predictions["verdict"].count()


def test_drop_is_by_words_and_for_every_system(tmp_path: Path):
    """As in the authors' code: above 16,000 words; also where nothing has a context."""
    long = claims(lines=MOST_WORDS // len(FILLER.split()) + 1)
    by = EvaluationModelResource(results_dir=str(tmp_path / "results"), beyond_context="drop")
    made = predicted(tmp_path, by, long, "simple-rules-faithful")
    assert expected("drop") == beyond(made)
    assert {None} == set(beyond(predicted(tmp_path, by, claims(), "simple-rules-faithful")))


def test_a_server_that_reads_less_than_expected_is_refused(tmp_path: Path):
    """Before any claim is asked; the error has the variable and the word of the server."""
    with (
        serving(tmp_path, *SAYS, model=MODEL) as url,
        pytest.raises(EngineError, match=r"DECOMPOSERL_EVALUATION_CONTEXT=8192") as caught,
    ):
        predicted(tmp_path, engines(tmp_path, url, "wrong", context=0), claims())
    assert "--max-model-len 32768" in str(caught.value)


def test_the_leaderboard_counts_them(tmp_path: Path):
    """In scores, on the leaderboard and below it; a run with a quarter of them succeeds."""
    write_parquet(claims(), tmp_path / "benchmark/fever.parquet")
    write_parquet(BENCHMARK_CLAIMS.empty(), tmp_path / "benchmark/wice.parquet")
    with serving(tmp_path, *SAYS, model=MODEL) as url:
        chosen = {"evaluation_model": engines(tmp_path, url, "best_sentences")}
        assert materialize(tmp_path, SYSTEM, "fever", engines=chosen).success
    assert materialize(tmp_path).success
    folder = DataFolder(base_dir=str(tmp_path))
    scores = folder.read(f"scores/fever/{SYSTEM}").filter(metric="beyond_context_rate")
    assert [(100 * len(LONG) / COUNT, COUNT)] == scores.select("score", "rows").rows()
    board = folder.read("leaderboard").filter(system=SYSTEM)
    assert {"fever": len(LONG), "mean_in_domain": len(LONG), "wice": 0} == {
        name: board.filter(benchmark=name)["beyond_context"][0]
        for name in ("fever", "mean_in_domain", "wice")
    }
    text = " ".join(leaderboard_text(board, {"fever": "FEVER"}).split())
    assert f"{SYSTEM} on FEVER {len(LONG)}." in text


def test_dropped_claims_are_in_no_score(tmp_path: Path):
    """They have a prediction and no weight: the rest is scored as if they were not there."""
    long = claims(lines=MOST_WORDS // len(FILLER.split()) + 1)
    write_parquet(long, tmp_path / "benchmark/fever.parquet")
    by = EvaluationModelResource(results_dir=str(tmp_path / "results"), beyond_context="drop")
    run: dict[str, Any] = {"engines": {"evaluation_model": by}}
    assert materialize(tmp_path, "simple-rules-faithful", "fever", **run).success
    scores = DataFolder(base_dir=str(tmp_path)).read("scores/fever/simple-rules-faithful")
    rows = dict(scores.filter(slice="all").select("metric", "rows").iter_rows())
    assert COUNT - len(LONG) == rows["balanced_accuracy"] == rows["parse_rate"]
    assert COUNT == rows["beyond_context_rate"]


def test_a_policy_in_process_has_the_context_of_its_base(tmp_path: Path):
    """Read from the configuration, before any weights; unknown where there is none."""
    (tmp_path / "config.json").write_text("[]", "utf-8")
    with chdir(tmp_path):  # a file of the working folder belongs to no model
        assert 0 == context_of("")
    assert Weights(str(CHECKPOINT)).load().context == context_of(str(CHECKPOINT)) > 0
    assert 0 == context_of("org/none")


def test_a_claim_that_fits_is_not_touched():
    """The very question; and one without a sentence that fits is wrong."""
    guard = ContextGuard("best_sentences", 4_000, load_prompt("simple"), Room(100))
    short = ClaimInput("It rained.", "It rained on Monday.", ("It rained on Monday.",))
    assert (short, None) == guard.fitted(short)
    endless = ClaimInput("It rained.", "rain" * 9_000)
    assert (None, "wrong") == guard.fitted(endless)


def test_claims_without_a_call_are_handed_over_last(tmp_path: Path):
    """Each with the note of what was done with it; the results keep the order of the claims."""
    endless, short = ClaimInput("It rained.", "rain" * 9_000), ClaimInput("It rained.", "It did.")
    claims = [ClaimToVerify("a", endless), ClaimToVerify("b", short)]
    guard = ContextGuard("wrong", 4_000, load_prompt("simple"), Room(100))
    task = Task("two-steps", "two-steps", "scripted", "faithful", two_steps, "simple")
    seen: list[Prediction] = []
    caller = ScriptedCaller()
    made = answer_claims(task, claims, caller, tmp_path, guard=guard, finished=seen.append)
    assert made.predictions == seen[::-1]
    notes = [one.verification.notes.get("beyond_context") for one in seen]
    assert [("b", None), ("a", "wrong")] == [
        *zip([one.claim_id for one in seen], notes, strict=True)
    ]
    assert ["Supported", None] == [one.verification.verdict for one in seen]
    assert 1 == made.asked


def test_a_view_of_the_evidence_is_what_has_to_fit():
    """A long text whose view is short is asked as it is; a view too long loses a sentence."""
    line, other = "Rosa Bell painted boats.", f"Rosa Bell {'sailed ' * 900}home."
    claim, view = "Rosa Bell painted.", EvidenceView(2)
    guard = ContextGuard("best_sentences", 2_000, load_prompt("simple"), Room(100), view=view)
    far = ClaimInput(claim, "\n".join([line, *(FILLER.format(n) for n in range(900))]))
    assert (far, None) == guard.fitted(far)
    both = ClaimInput(claim, f"{line}\n{other}")
    assert (ClaimInput(claim, line), "best_sentences") == guard.fitted(both)
    assert guard.fitted(far) != replace(guard, view=None).fitted(far)


@LAW
@given(st.lists(st.integers(1, 30), min_size=1, max_size=12), st.integers(0, 200))
def test_the_budget_holds_and_the_order_is_the_documents(sizes: list[int], budget: int):
    """Costs sum to the budget at most; sentences keep their order; a larger budget loses none."""
    lines = [f"Line{n} " + "word " * size + "." for n, size in enumerate(sizes)]

    def cost(texts: list[str]) -> list[int]:
        return [len(text.split()) for text in texts]

    kept = best_sentences("Line3 is long.", "\n".join(lines), budget, cost)
    assert sum(cost(kept)) <= budget
    assert kept == [line.strip() for line in lines if line.strip() in kept]
    everything = best_sentences("Line3 is long.", "\n".join(lines), 10_000, cost)
    assert [line.strip() for line in lines] == everything


def test_the_estimate_is_never_below_digits_and_bytes():
    """A table's digits are a token each, as for Qwen's tokenizer; prose has a quarter of bytes."""
    table, prose = "1,234.5 | 67\n", "The harbour opened in spring."
    assert [13 - 3, -(-len(prose) // 4)] <= CautiousTokens().count([table, prose]).tolist()
    assert [0] == CautiousTokens().count([""]).tolist()
