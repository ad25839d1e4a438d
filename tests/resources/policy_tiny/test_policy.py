"""The checkpoints of the tiny policy that the project includes, and their assets."""

import re
import tomllib
from collections.abc import Sequence
from dataclasses import asdict
from fnmatch import fnmatch
from functools import cache
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

import dagster as dg
import pytest

from assets.training_inputs import base_policy_asset
from decomposerl.traces.grammar import parse_trace
from decomposerl.traces.trace import Trace
from decomposerl.training.experiment import (
    BASE_POLICY,
    CLEAN_POLICY,
    SMALL_POLICY,
    THREE_WAY_POLICY,
)
from decomposerl.training.experiments import EXPERIMENTS
from resources.policy_tiny.folder import (
    CHECKPOINT,
    CHECKPOINTS,
    PROMPT,
    VIEW,
    base_policy_facts,
    load_base_policy,
)
from resources.store.parquet import DataFolder
from sample.policy_lessons import Lesson, lessons
from studies.tiny_policy.examples import encoded
from studies.tiny_policy.warm_start import SETTINGS

if TYPE_CHECKING:
    from torch import Tensor


def contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def padded(heads: Sequence[Sequence[int]], pad: int) -> "tuple[Tensor, Tensor]":
    """Rows of tokens with padding on the left, and their mask."""
    import torch

    longest = max(map(len, heads))
    rows = torch.tensor([[pad] * (longest - len(head)) + list(head) for head in heads])
    return rows, (rows != pad).long()


DIGESTS = {
    BASE_POLICY: "708c0a36b6352e9d45b36c20e5587a03f3c32b3b0915bdb25cb0ccb6f8815bc4",
    CLEAN_POLICY: "75642d1d912dbfb59966f654e2a0790188fc511117fff07a378429625f1c86ca",
    SMALL_POLICY: "66ce2ca8b1d382e32c563b3f07eec95b75529efb60f4067edf6b73ee5c76a3b0",
    THREE_WAY_POLICY: "a767e1095edafff914da24a81652cb3619b0300ac71e76cf8dc408ea78355609",
}
FRESH_SEED = 90_417
"""Of a world that the warm start never saw."""
FRESH = 12
MOST_BYTES = 1_000_000
MOST_TOKENS = 420


every_base = pytest.mark.parametrize("base", CHECKPOINTS)


@cache
def written(base: str = BASE_POLICY, *, sampled: bool = False) -> list[tuple[Lesson, Trace]]:
    """Fresh lessons with the greedy trace of each, or one sampled; an end mark ends it."""
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(CHECKPOINTS[base])
    model = AutoModelForCausalLM.from_pretrained(CHECKPOINTS[base], dtype="float32").eval()
    fresh = list(islice(lessons(FRESH_SEED, VIEW), FRESH))
    heads = [head for head, _ in encoded(fresh, tokenizer)]
    rows, mask = padded(heads, tokenizer.pad_token_id)
    how = {"max_new_tokens": MOST_TOKENS, "do_sample": sampled}
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(FRESH_SEED)
        made = model.generate(rows, attention_mask=mask, **how)
    texts = tokenizer.batch_decode(made[:, rows.shape[1] :], skip_special_tokens=True)
    return list(zip(fresh, map(parse_trace, texts), strict=True))


@every_base
def test_the_checkpoint_is_small_and_complete(base: str):
    """Weights, tokenizer, template, prompt and settings, below 1 MB, of kinds that are packaged."""
    held = contents(CHECKPOINTS[base])
    named = "config.json model.safetensors tokenizer.json tokenizer_config.json chat_template.jinja"
    assert {*named.split(), "policy.md", "warm_start.json"} <= set(held)
    assert sum(map(len, held.values())) < MOST_BYTES
    assert held["policy.md"] == PROMPT.read_bytes()
    project = tomllib.loads((CHECKPOINT.parents[2] / "pyproject.toml").read_text("utf-8"))
    kinds = project["tool"]["setuptools"]["package-data"]["*"]
    assert [] == [name for name in held if not any(fnmatch(name, kind) for kind in kinds)]


def test_the_checkpoints_are_those_of_their_settings():
    """By SHA-256 of the weights; the clean one is the control of the first one's settings."""
    facts = {base: base_policy_facts(folder) for base, folder in CHECKPOINTS.items()}
    assert DIGESTS == {base: each.digest for base, each in facts.items()}
    made_with = {**SETTINGS, CLEAN_POLICY: SETTINGS[BASE_POLICY]}
    assert facts.keys() == made_with.keys()
    for base, each in facts.items():
        assert asdict(made_with[base]) == each.settings
    assert 300_000 < facts[BASE_POLICY].parameters == facts[CLEAN_POLICY].parameters < 500_000
    assert {VIEW} == {one.evidence_view for one in EXPERIMENTS if one.model == BASE_POLICY}
    from tokenizers import Tokenizer
    from transformers import AutoConfig, AutoTokenizer

    loaded = AutoTokenizer.from_pretrained(CHECKPOINT)
    kept = Tokenizer.from_file(str(CHECKPOINT / "tokenizer.json"))
    assert len(loaded) == AutoConfig.from_pretrained(CHECKPOINT).vocab_size
    for one in islice(lessons(FRESH_SEED, VIEW), 50):
        for text in (one.view, one.claim, one.trace):
            assert kept.encode(text).ids == loaded(text)["input_ids"]


def test_it_does_its_task():
    """Most traces are whole and take the claim apart; planted flaws come out where it samples."""
    traces = [trace for _, trace in written()]
    assert sum(not trace.faults for trace in traces) > 0.55 * FRESH
    apart = sum(
        lesson.claim == re.sub(r"\(\d\) (it )?", "", str(trace.opening))
        for lesson, trace in written()
    )
    assert apart > 0.55 * FRESH
    assert len({trace.cycles for trace in traces}) > 0.8 * FRESH
    assert {"Supported", "Refuted"} <= {trace.verdict for trace in traces}
    assert sum(lesson.label == trace.verdict for lesson, trace in written()) > 0.55 * FRESH

    def whole(base: str, *, sampled: bool) -> int:
        traces = (trace for _, trace in written(base, sampled=sampled))
        return sum(not one.faults and one.verdict is not None for one in traces)

    assert whole(CLEAN_POLICY, sampled=True) > whole(BASE_POLICY, sampled=True) + 2
    assert whole(CLEAN_POLICY, sampled=False) >= 0.8 * FRESH


def test_loading_it_replaces_what_was_there(tmp_path: Path):
    """The copy is the checkpoint; nothing of an earlier folder or a killed copy stays."""
    folder = tmp_path / "base_policy"
    folder.mkdir()
    (folder / "model-00002-of-00002.safetensors").write_bytes(b"old")
    half = tmp_path / ".base_policy.partial"
    half.mkdir()
    (half / "model.safetensors").write_bytes(b"half")
    assert folder == load_base_policy(folder)
    assert [folder] == list(tmp_path.iterdir())
    assert contents(folder) == contents(CHECKPOINT)
    assert contents(load_base_policy(folder)) == contents(CHECKPOINT)


@every_base
def test_the_asset_gives_the_folder_and_says_what_it_is(base: str, tmp_path: Path):
    """Its data version is the weights' digest, the same every time."""
    versions = set[str]()
    for _ in range(2):
        result = dg.materialize(
            [base_policy_asset(base)], resources={"data_folder": DataFolder(base_dir=str(tmp_path))}
        )
        (event,) = result.asset_materializations_for_node(base)
        versions.add((event.tags or {})["dagster/data_version"])
        facts = base_policy_facts(tmp_path / base)
        assert event.metadata["path"].value == str(tmp_path / base)
        assert event.metadata["parameters"].value == facts.parameters
        assert event.metadata["warm start"].value == facts.settings
    assert versions == {facts.digest}
    assert contents(tmp_path / base) == contents(CHECKPOINTS[base])
