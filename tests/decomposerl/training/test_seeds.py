"""The names of runs: recipes and their seeds, and what every run measures itself on."""

import re
from dataclasses import replace

import dagster as dg
import pytest

from decomposerl.errors import ConfigError
from decomposerl.training.experiment import steps_of
from decomposerl.training.experiments import (
    EXPERIMENTS,
    RECIPES,
    SEEDS,
    SMOL,
    experiment,
    run_name,
    with_seed,
)

PAPER_CLAIMS = 5_464


def test_names_are_unique_and_can_be_partitions():
    """Names are short words that Dagster takes as keys and a file system as folders."""
    names = [one.name for one in EXPERIMENTS]
    assert len(set(names)) == len(names)
    assert all(re.fullmatch(r"[a-z][a-z0-9_]{2,30}(-seed_\d+)?", name) for name in names)
    assert names == list(dg.StaticPartitionsDefinition(names).get_partition_keys())
    assert [experiment(name).name for name in names] == names
    assert len({one.digest for one in EXPERIMENTS}) == len(names)


def test_every_recipe_has_further_seeds_under_names_of_their_own():
    """The default seed keeps the recipe's name; a further one changes name and seed, no more."""
    assert RECIPES == EXPERIMENTS[: len(RECIPES)]
    assert {42} == {one.seed for one in RECIPES}
    assert len(RECIPES) * (1 + len(SEEDS)) == len(EXPERIMENTS)
    for recipe in RECIPES:
        for seed in SEEDS:
            other = experiment(f"{recipe.name}-seed_{seed}")
            assert replace(recipe, name=other.name, seed=seed) == other == with_seed(recipe, seed)
        assert recipe == with_seed(recipe, 42)
    assert ["a-seed_3", "a"] == [run_name("a-seed_1", seed) for seed in (3, 42)]


def test_every_recipe_holds_claims_out():
    """Else a run has no before and after, and no checkpoint can be chosen."""
    few = {one.name for one in RECIPES if one.held_out.claims != 128}
    assert ({"smol"}, 32) == (few, experiment("smol").held_out.claims)
    long = [one for one in EXPERIMENTS if steps_of(one, PAPER_CLAIMS) > one.held_out.every > 0]
    large = [one for one in EXPERIMENTS if not (one.on_tiny_base or one.model == SMOL.model)]
    assert {one.name for one in large} == {one.name for one in long}


def test_an_unknown_experiment_is_refused_with_the_names_there_are():
    """The message has every recipe's name once, and how a seed is added."""
    with pytest.raises(ConfigError, match=r"paper_7b.*tiny_shuffled.*-seed_N for N = 1, 2, 3, 4"):
        experiment("paper_8b")
    with pytest.raises(ConfigError, match="no experiment 'tiny-seed_7'"):
        experiment("tiny-seed_7")
