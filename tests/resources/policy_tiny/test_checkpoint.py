"""The checkpoint that comes with the project: what its folder says, and that it can do its task."""

import re
import tomllib
from dataclasses import asdict
from fnmatch import fnmatch
from functools import cache
from itertools import islice
from pathlib import Path

import dagster as dg
import pytest

from assets.training_inputs import base_policy_asset
from decomposerl.traces.grammar import parse_trace
from decomposerl.traces.trace import Trace
from decomposerl.training.experiment import (
    BASE_POLICY,
    CLEAN_POLICY,
)
from resources.policy_tiny.examples import encoded
from resources.policy_tiny.folder import (
    CHECKPOINT,
    CHECKPOINTS,
    PROMPT,
    VIEW,
    base_policy_facts,
    load_base_policy,
)
from resources.policy_tiny.warm_start import WarmStart
from resources.store.parquet import DataFolder
from sample.policy_lessons import Lesson, lessons

FRESH_SEED = 90_417
"""Of a world that the warm start never saw."""
FRESH = 24
MOST_BYTES = 1_000_000
MOST_TOKENS = 420


def contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


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
    longest, pad = max(map(len, heads)), tokenizer.pad_token_id
    padded = torch.tensor([[pad] * (longest - len(head)) + head for head in heads])
    mask = torch.tensor([[0] * (longest - len(head)) + [1] * len(head) for head in heads])
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(FRESH_SEED)
        made = model.generate(
            padded, attention_mask=mask, max_new_tokens=MOST_TOKENS, do_sample=sampled
        )
    texts = tokenizer.batch_decode(made[:, longest:], skip_special_tokens=True)
    return list(zip(fresh, map(parse_trace, texts), strict=True))


@every_base
def test_the_checkpoint_is_small_and_complete(base: str):
    """Weights, tokenizer, template, prompt and settings, together below 1 MB."""
    held = contents(CHECKPOINTS[base])
    assert set(held) >= {
        "config.json",
        "model.safetensors",
        "tokenizer.json",
        "tokenizer_config.json",
        "chat_template.jinja",
        "policy.md",
        "warm_start.json",
    }
    assert sum(map(len, held.values())) < MOST_BYTES
    assert held["policy.md"] == PROMPT.read_bytes()


@every_base
def test_an_installed_project_has_the_whole_checkpoint(base: str):
    """Each of its files is of a kind that the package takes along."""
    project = tomllib.loads((CHECKPOINT.parents[2] / "pyproject.toml").read_text("utf-8"))
    kinds = project["tool"]["setuptools"]["package-data"]["*"]
    held = contents(CHECKPOINTS[base])
    assert held
    assert [] == [name for name in held if not any(fnmatch(name, kind) for kind in kinds)]


def test_the_checkpoints_were_made_with_the_default_settings():
    """``studies.warm_start`` makes them again: the clean one is the control of the first one."""
    flawed, clean = (base_policy_facts(CHECKPOINTS[base]) for base in (BASE_POLICY, CLEAN_POLICY))
    assert flawed.settings == clean.settings == asdict(WarmStart())
    assert 300_000 < flawed.parameters == clean.parameters < 500_000
    assert flawed.digest != clean.digest


def test_its_tokenizer_is_the_one_that_it_was_trained_with():
    """Every token has an embedding, and lessons are cut as the file says that they were."""
    from tokenizers import Tokenizer
    from transformers import AutoConfig, AutoTokenizer

    loaded = AutoTokenizer.from_pretrained(CHECKPOINT)
    kept = Tokenizer.from_file(str(CHECKPOINT / "tokenizer.json"))
    assert len(loaded) == AutoConfig.from_pretrained(CHECKPOINT).vocab_size
    for one in islice(lessons(FRESH_SEED, VIEW), 50):
        for text in (one.view, one.claim, one.trace):
            assert kept.encode(text).ids == loaded(text)["input_ids"]


def test_it_writes_well_formed_traces():
    """Of fresh claims, greedily, most traces have no fault and a verdict; flaws were planted."""
    flawless = [trace for _, trace in written() if not trace.faults]
    assert len(flawless) > 0.55 * FRESH


def test_samples_of_the_base_without_planted_flaws_are_more_often_whole():
    """Greedily both write whole traces; at temperature 1 the planted flaws come out."""
    whole = {
        base: sum(
            not one.faults and one.verdict is not None for _, one in written(base, sampled=True)
        )
        for base in CHECKPOINTS
    }
    assert whole[CLEAN_POLICY] > whole[BASE_POLICY] + 2
    greedy = [one for _, one in written(CLEAN_POLICY) if not one.faults and one.verdict]
    assert len(greedy) >= 0.8 * FRESH


def test_it_takes_the_claim_apart():
    """Most opening thoughts are the claim with numbers, and each claim gets a trace of its own."""
    apart = sum(
        lesson.claim == re.sub(r"\(\d\) (it )?", "", str(trace.opening))
        for lesson, trace in written()
    )
    assert apart > 0.55 * FRESH
    assert len({trace.cycles for _, trace in written()}) > 0.8 * FRESH


def test_its_verdicts_are_better_than_a_coin():
    """Of both labels, though verdicts by coin were planted; both verdicts occur."""
    for label in ("Supported", "Refuted"):
        assert label in {trace.verdict for _, trace in written()}
    right = sum(lesson.label == trace.verdict for lesson, trace in written())
    assert right > 0.55 * FRESH


def test_loading_it_replaces_what_was_there(tmp_path: Path):
    """The copy is the checkpoint, file by file; nothing of an earlier folder stays.

    Nor does what a killed copy left beside it.
    """
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
