"""The three layouts of the paper's run: they fit their cards, and the page prints them."""

import re
import shlex
from dataclasses import replace

import pytest
import yaml

from dagster_project.engine_choices import engine_choices
from decomposerl.training.experiments import PAPER_7B
from decomposerl.training.layout import (
    CONTEXT,
    EMBEDDING_8B,
    GIB,
    LAYOUTS,
    QWEN3_32B,
    QWEN25_7B,
    Layout,
    page_block,
    trainer_bytes,
    variables,
)
from decomposerl.training.memory import ModelShape, estimate_memory, weight_bytes
from project import ROOT

EACH = pytest.mark.parametrize("layout", LAYOUTS, ids=lambda one: one.name)


@EACH
def test_a_layout_fits_its_cards(layout: Layout):
    """No card is filled above 95 %, and every cache holds the longest request of its engine."""
    for card in range(layout.number):
        assert 0 < layout.used(card) <= 0.95 * layout.gpu.gib * GIB
    for server in layout.servers:
        assert set(server.cards) <= set(range(layout.number))
        assert server.cached_tokens(layout.gpu) >= server.length


@EACH
def test_a_servers_sum_is_what_lies_in_its_share(layout: Layout):
    """Weights, work and cache of all ranks are the share of its cards; a card adds up all of it."""
    whole = layout.gpu.gib * GIB
    for server in layout.servers:
        parts = server.weights + server.working + server.cache(layout.gpu)
        assert parts == pytest.approx(server.share * whole)
    cards = sum(layout.used(card) for card in range(layout.number))
    shares = sum(len(one.cards) * one.share * whole for one in layout.servers)
    contexts = 1 + sum(len(one.cards) for one in layout.servers if one.port)
    assert cards == pytest.approx(shares + sum(trainer_bytes()) + contexts * CONTEXT)


WEIGHTS = {
    "Qwen2.5-7B": weight_bytes(QWEN25_7B),
    "Qwen3-32B-FP8": weight_bytes(QWEN3_32B, fp8=True),
    "Qwen3-Embedding-8B": weight_bytes(EMBEDDING_8B),
    "MiniCheck-7B": weight_bytes(
        ModelShape(4_096, 32, 4_096, 1_024, 14_336, 92_544, tied=False, biases=False)
    ),
}
TABLE_2 = {
    "3B": ModelShape(2_048, 36, 2_048, 256, 11_008, 151_936, tied=True, biases=True),
    "14B": ModelShape(5_120, 48, 5_120, 1_024, 13_824, 152_064, tied=False, biases=True),
    "32B": ModelShape(5_120, 64, 5_120, 1_024, 27_648, 152_064, tied=False, biases=True),
}


def test_the_page_says_how_much_disk_the_weights_take():
    """GB of each model, from its shape, and both sums."""
    page = " ".join((ROOT / "docs/how-to/gpus.md").read_text("utf-8").split())
    further = {name: weight_bytes(shape) for name, shape in TABLE_2.items()}
    for sizes in (WEIGHTS, further):
        listed = ", ".join(f"{name} {size / 1e9:.1f}" for name, size in sizes.items())
        assert f"({listed})" in page
        assert f"{sum(sizes.values()) / 1e9:.0f} GB " in page


@EACH
def test_the_page_prints_a_layout_as_it_is_computed(layout: Layout):
    """Table and commands; the heading names the cards."""
    page = (ROOT / "docs/how-to/gpus.md").read_text("utf-8")
    block = page.split(f"<!-- layout {layout.name.replace('×', 'x')} report: begin -->\n")[1]
    assert page_block(layout) == block.split("\n<!-- layout")[0]
    assert f"### {layout.name}\n" in page


@EACH
def test_the_profile_finds_the_servers_that_a_layout_starts(layout: Layout):
    """Judge, embedder and sampler of the variables are the models and ports of the commands."""
    judge, embedder, sampler = layout.servers
    env = dict(word.split("=", 1) for word in shlex.split(variables(layout)))
    chosen = engine_choices("paper", env)
    for server, found in ((judge, chosen.judge_server), (embedder, chosen.question_server)):
        assert found is not None
        assert (server.model, (f"http://127.0.0.1:{server.port}/v1",)) == (found.model, found.urls)
        assert re.search(rf"vllm serve {server.model} .*--port {server.port} ", server.command)
    assert chosen.generation == ("vllm_server" if sampler.port else "vllm_colocate")
    assert chosen.generation_url == (f"http://127.0.0.1:{sampler.port}" if sampler.port else "")
    # NCCL cannot join the trainer and a server on one card.
    assert not sampler.port or 0 not in sampler.cards


@EACH
def test_a_sampler_in_the_trainer_has_its_share_from_the_configuration(layout: Layout):
    """The default's, or the one of the file that the training command names."""
    sampler = layout.servers[2]
    if not sampler.port:
        file = layout.config.removeprefix(" -c ")
        named = yaml.safe_load((ROOT / file).read_text("utf-8")) if file else None
        share = named["ops"]["policy"]["config"]["memory_share"] if named else 0.3
        assert share == sampler.share


def test_the_shapes_are_those_of_the_model_cards():
    """Parameters in billions as published; FP8 halves all but the embeddings."""
    cards: dict[ModelShape, float] = {QWEN25_7B: 7.62, QWEN3_32B: 32.8, EMBEDDING_8B: 7.57}
    for shape, billions in cards.items():
        assert billions == pytest.approx(shape.parameters / 1e9, rel=2e-3)
    halved = QWEN3_32B.parameters + QWEN3_32B.vocabulary * QWEN3_32B.hidden * 2
    assert weight_bytes(QWEN3_32B, fp8=True) == halved
    assert weight_bytes(QWEN3_32B) == 2 * QWEN3_32B.parameters


def test_a_trainer_whose_rollouts_vllm_samples_needs_no_cache():
    """Longer prompts cost the update and nothing else."""
    memory = estimate_memory(QWEN25_7B, PAPER_7B)
    assert (
        sum(trainer_bytes()) == memory.updating == memory.weights + memory.adapter + memory.update
    )
    assert memory.updating < memory.total
    halved = replace(PAPER_7B, sampling=replace(PAPER_7B.sampling, max_prompt_tokens=3_500))
    assert 2 * estimate_memory(QWEN25_7B, halved).update == memory.update
