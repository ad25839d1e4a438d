"""What the policy reads: its prompt, its view of the evidence, and nothing that it may not see."""

import hashlib
from dataclasses import replace
from pathlib import Path

import polars as pl
import pytest

from decomposerl.errors import ConfigError
from decomposerl.rewards.supervision import is_labelled
from decomposerl.training.experiment import EvidenceView, HeldOut
from resources.store.prompts import load_prompt
from resources.training.data import Prompts, held_out_prompts, policy_prompt, training_prompts
from resources.training.process import TrainingRun
from training_parts import held_out_file, run_of, tiny_policy


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_policy(tmp_path_factory.mktemp("base"))


def rendered(run: TrainingRun, *, held_out: bool = False) -> Prompts:
    from transformers import AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(run.base)
    return (held_out_prompts if held_out else training_prompts)(run, tokenizer)


def test_a_base_may_bring_its_prompt(base: Path, tmp_path: Path):
    """A person's own prompt comes first, then the base's, then the project's."""
    run = run_of(tmp_path / "run", base)
    brought = policy_prompt(run)
    hub = policy_prompt(replace(run, base="Qwen/Qwen2.5-7B-Instruct"))
    assert hub.digest == load_prompt("policy").digest != brought.digest
    (tmp_path / "prompts").mkdir()
    others = replace(run, prompts=str(tmp_path / "prompts"))
    assert brought.digest == policy_prompt(others).digest
    own = tmp_path / "prompts" / "policy.md"
    own.write_text("<!-- section: prompt -->\nRead {document}. Is it so: {claim}?\n", "utf-8")
    assert policy_prompt(others).digest not in {hub.digest, brought.digest}
    own.write_text("<!-- section: prompt -->\n{document}\n", "utf-8")
    with pytest.raises(ConfigError):
        rendered(others)


def test_rows_hold_what_rewards_and_logs_need(base: Path, tmp_path: Path):
    """One row a claim in the file's order; digest and length are of the prompt as rendered."""
    run = run_of(tmp_path / "run", base, supervision=0.5)
    rows = rendered(run).rows
    claims = pl.read_parquet(run.claims)
    assert claims["claim_id"].to_list() == [row["claim_id"] for row in rows]
    assert [is_labelled(claim, 0.5) for claim in claims["claim"]] == [
        row["labelled"] for row in rows
    ]
    for row, claim in zip(rows, claims.iter_rows(named=True), strict=True):
        text = f"<|im_start|> {claim['evidence']} {claim['claim']} <|im_end|> <|im_start|>"
        assert hashlib.sha256(text.encode()).hexdigest() == row["prompt_digest"]
        assert len(row["prompt_ids"]) == row["prompt_tokens"] > 0
        assert claim["label"] not in row["prompt"][0]["content"]
    dataset = rendered(run).dataset()
    assert 6 == len(dataset)
    assert "prompt_ids" not in dataset.column_names


def test_the_policy_may_see_a_part_of_the_evidence_and_rewards_all(base: Path, tmp_path: Path):
    """The view shortens the prompt alone."""
    whole = rendered(run_of(tmp_path / "run", base)).rows[0]
    view = EvidenceView(most_sentences=1)
    part = rendered(run_of(tmp_path / "run", base, evidence_view=view)).rows[0]
    assert whole["evidence"] == part["evidence"]
    assert whole["evidence"] in whole["prompt"][0]["content"]
    assert len(part["prompt"][0]["content"]) < len(whole["prompt"][0]["content"])


def test_held_out_claims_are_labelled_and_not_trained_on(base: Path, tmp_path: Path):
    """Whatever the share of supervision, their labels are known; a training claim is none."""
    run = run_of(tmp_path / "run", base, supervision=0.0, held_out_claims=HeldOut(claims=2))
    rows = rendered(run, held_out=True).rows
    assert [True, True] == [row["labelled"] for row in rows]
    assert ["held0", "held1"] == [row["claim_id"] for row in rows]
    trained_on = pl.read_parquet(run.claims).select("claim_id").head(1)
    pool = pl.read_parquet(held_out_file(tmp_path / "pool.parquet", 3))
    leaked = pool.with_columns(
        claim_id=pl.when(pl.int_range(pl.len()) == 0)
        .then(pl.lit(trained_on["claim_id"][0]))
        .otherwise("claim_id")
    )
    leaked.write_parquet(tmp_path / "pool.parquet")
    found = rendered(replace(run, held_out=tmp_path / "pool.parquet"), held_out=True).rows
    assert {"held1", "held2"} == {row["claim_id"] for row in found}
    nothing = run_of(tmp_path / "none", base)
    assert Prompts((), 0) == rendered(nothing, held_out=True)
