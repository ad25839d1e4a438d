"""``decomposerl doctor`` on training: what the judge of an experiment will cost."""

import json
import math
import re
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from typer.testing import CliRunner, Result

from dagster_project.cli import app
from dagster_project.doctor import estimates_for
from dagster_project.engine_choices import ProfileName, engine_choices
from dagster_project.engine_resources import engine_resources
from dagster_project.profiles import Profile
from dagster_project.training_estimate import judge_hours, training_estimate
from decomposerl.prompts.judge import (
    JudgeSettings,
    answerability_request,
    atomicity_request,
    correctness_request,
    coverage_request,
)
from decomposerl.reports.readiness import estimate_text
from decomposerl.training.estimate import JudgeTokens, longest_judge_calls
from project import ROOT
from resources.judge.chat_judge import load_judge_prompts
from resources.tokens.word_tokens import WordTokens

NOWHERE = ROOT / "no such folder"
NOBODY = "http://127.0.0.1:9/v1"
LOCAL = {
    "DECOMPOSERL_PROFILE": "local",
    "DECOMPOSERL_CHAT_URL": NOBODY,
    "DECOMPOSERL_JUDGE_URL": NOBODY,
    "DECOMPOSERL_JUDGE_PRICE": "1/10",
}


def doctor(data: Path, *words: str, **env: str) -> Result:
    names = ("PROFILE", "DATA", "CORPORA", "CHAT_URL", "JUDGE_URL", "JUDGE_PRICE", "JUDGE_MODEL")
    names += ("JUDGE_THINKING",)
    bare: dict[str, str | None] = {f"DECOMPOSERL_{name}": None for name in names}
    return CliRunner(env=bare | env).invoke(app, ["doctor", "--data", str(data), *words])


def training(data: Path, *words: str, **env: str) -> dict[str, Any]:
    """The page's estimate of training, the last one."""
    estimate: dict[str, Any] = json.loads(doctor(data, "--json", *words, **env).stdout)[
        "estimates"
    ][-1]
    return estimate


def test_the_page_on_costs_prints_what_training_costs():
    """The block on training is what the doctor says of ``paper_7b`` in ``paper``."""
    estimate = training_estimate(engine_choices("paper", {}), NOWHERE)
    page = (ROOT / "docs/how-to/costs.md").read_text("utf-8")
    block = page.split("<!-- training paper: begin -->")[1].split("<!--")[0].strip()
    assert f"```text\n{estimate_text(estimate)}\n```" == block
    assert "Training paper_7b" == estimate.run


def test_the_embedded_profile_trains_the_tiny_policy_for_nothing(tmp_path: Path):
    """No money, no GPU-hour, and its sixty steps of 32 completions."""
    estimate = training(tmp_path)
    assert ("Training tiny", 0.0, 0.0) == (
        estimate["run"],
        estimate["total"]["dollars"],
        estimate["total"]["gpu_hours"],
    )


def test_training_is_estimated_for_the_experiment_that_is_named(tmp_path: Path):
    """Half the epochs, half the rollouts; money follows from the price of the variable."""
    judge, embedder = training(tmp_path, "--experiment", "one_epoch", **LOCAL)["lines"]
    assert round((87_424 // 2 + 4 * 256) * 11.52) == judge["calls"]
    expected = (judge["prompt_tokens"] + 10 * judge["completion_tokens"]) / 1e6
    assert pytest.approx(expected) == judge["dollars"]
    assert embedder["dollars"] is None


def test_training_is_estimated_over_the_claims_that_are_here(tmp_path: Path):
    """Their number, their n* and their lengths are counted, and held-out claims at both ends."""
    claims = {"claim": "one two", "evidence": "a b c d e f g h i j", "n_star": 3}
    pl.DataFrame([claims] * 8).write_parquet(tmp_path / "training_claims.parquet")
    estimate = training(tmp_path, **LOCAL)
    assert "8 training_claims in the data folder" in estimate["basis"]
    sampled = 8 * 16 + 2 * 256
    assert sampled * (4 * 3 + 1) == estimate["lines"][0]["calls"]
    assert sampled * 3 == estimate["lines"][1]["calls"]


def test_an_unknown_experiment_is_one_red_line(tmp_path: Path):
    """Exit code 2, with the names that there are."""
    result = doctor(tmp_path, "--experiment", "paper_8b")
    assert (2, True) == (result.exit_code, "paper_7b" in result.output)


def test_a_judge_of_another_kind_costs_otherwise():
    """A ruling takes 120 tokens, 1,000 with thinking; a classifier asks for no money at all."""
    engines = engine_choices("paper", {})
    for word, reply in (("", 120), ("off", 120), ("512", 632), ("on", 1_000), ("default", 1_000)):
        chosen = engine_choices("paper", {"DECOMPOSERL_JUDGE_THINKING": word})
        line = training_estimate(chosen, NOWHERE).lines[0]
        assert reply * line.calls == line.completion_tokens
    tiny = training_estimate(engines, NOWHERE, "tiny_judge").lines[0]
    assert ("tiny judge on answerdotai/ModernBERT-large", None, 0) == (
        tiny.engine, tiny.dollars, tiny.completion_tokens
    )  # fmt: skip
    large = training_estimate(engines, NOWHERE, "paper_7b").lines[0]
    assert 0 < (tiny.gpu_hours or 0) < (large.gpu_hours or 0) / 50
    at_home = training_estimate(
        engine_choices("embedded", {}), NOWHERE, "tiny_clean_classifiers"
    ).lines[0]
    assert ("tiny judge on minilm", None) == (at_home.engine, at_home.gpu_hours)


def test_hours_that_nobody_published_are_not_zero(tmp_path: Path):
    """A dash for the judge in FP8, and for the total."""
    judge = "Qwen/Qwen3-32B-FP8"
    fp8 = LOCAL | {"DECOMPOSERL_JUDGE_PRICE": "", "DECOMPOSERL_JUDGE_MODEL": judge}
    lines = doctor(tmp_path, **fp8).stdout.splitlines()
    asked = max(n for n, line in enumerate(lines) if line.startswith("judge"))
    assert judge in lines[asked]
    assert lines[asked].endswith("–")
    assert lines[asked + 2].startswith("total")
    assert lines[asked + 2].endswith("–")
    total = training(tmp_path, **LOCAL | {"DECOMPOSERL_JUDGE_PRICE": ""})["total"]
    assert [] == total["at_least"]


def test_the_doctor_prices_every_way_to_think(tmp_path: Path):
    """GPU-hours by reading, the same in the doctor's figures and on the page; and the chosen."""
    hours = judge_hours()
    words = "; ".join(f"{word} {n:,.1f}" for word, n in hours.items())
    page = doctor(tmp_path, **LOCAL, DECOMPOSERL_JUDGE_THINKING="512").stdout
    assert f"{words}; here it is 512" in " ".join(page.split())
    guide = (ROOT / "docs/how-to/costs.md").read_text("utf-8")
    assert ["off", "512", "on"] == list(hours)
    for word, n in hours.items():
        chosen = engine_choices("paper", {"DECOMPOSERL_JUDGE_THINKING": word})
        judge = engine_resources(chosen, str(tmp_path))["judge"]
        (most,) = longest_judge_calls([9_813], 4_500, judge.most_tokens)
        cells = rf"^\| `{word}` .*\b{judge.most_tokens:,}\b.* \| {most:,} \| {n:,.1f} \|$"
        assert re.search(cells, guide, re.MULTILINE), cells


def test_the_judges_prompts_are_as_long_as_assumed():
    """Words of the longest of the four around empty texts times 1.3, up to the next ten."""
    prompts = load_judge_prompts()
    requests = [
        request
        for asking in (JudgeSettings(structured=True), JudgeSettings())
        for request in (
            answerability_request(prompts["answerability"], asking, "", ""),
            correctness_request(prompts["correctness"], asking, "", ("", "")),
            atomicity_request(prompts["atomicity"], asking, "", ""),
            coverage_request(prompts["coverage"], asking, "", ("",)),
        )
    ]
    texts = [" ".join(turn.content for turn in request.messages) for request in requests]
    assert JudgeTokens().around == 10.0 * math.ceil(max(WordTokens().count(texts)) / 10)


def test_a_server_that_samples_is_asked(tmp_path: Path):
    """Where ``vllm_server`` samples, its server is among the findings, with the variable."""
    at = {"DECOMPOSERL_GENERATION": "vllm_server", "DECOMPOSERL_GENERATION_URL": NOBODY[:-3]}
    page = json.loads(doctor(tmp_path, "--json", **LOCAL, **at).stdout)
    (found,) = [one for one in page["findings"] if one["part"] == "sampler"]
    assert ("missing", NOBODY[:-3]) == (found["state"], found["what"])
    assert "DECOMPOSERL_GENERATION_URL" in found["fix"]


@pytest.mark.parametrize("name", ["local", "paper"])
def test_the_page_on_costs_prints_what_the_doctor_prints(name: ProfileName, tmp_path: Path):
    """``docs/how-to/costs.md`` holds the estimates at the paper's rows, as they are now."""
    (paper,) = estimates_for(Profile(name, None, tmp_path, engine_choices(name, {})))
    page = (ROOT / "docs/how-to/costs.md").read_text("utf-8")
    block = page.split(f"<!-- estimate {name}: begin -->")[1].split("<!--")[0].strip()
    assert f"```text\n{estimate_text(paper)}\n```" == block
