"""The dev split of calibrations: claims of the pool that nothing used, the same each time."""

from pathlib import Path

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from decomposerl.baselines.catalogue import METHODS
from decomposerl.errors import EvaluationError
from decomposerl.evaluation.subset import dev_split
from decomposerl.evaluation.systems import system_named, systems, with_entries
from decomposerl.evaluation.systems_file import parse_systems_toml
from decomposerl.schemas import SILVER_DECOMPOSED
from resources.evaluation.training_overlap import dev_claims
from resources.store.parquet import DataFolder, write_parquet
from strategies import LAW, example_row, frame_of

S, R = "Supported", "Refuted"
SYSTEMS = systems(METHODS, ["tiny"])


def pool(labels: list[str]) -> pl.DataFrame:
    """Silver claims with these labels; their ids are their places."""
    return frame_of(SILVER_DECOMPOSED, [example_row(label=label) for label in labels])


@LAW
@given(
    st.lists(st.sampled_from((S, R)), max_size=24),
    st.sets(st.integers(0, 23)),
    st.integers(0, 30),
    st.integers(0, 9),
)
def test_it_holds_unused_claims_of_both_labels(
    labels: list[str], taken: set[int], count: int, seed: int
):
    """None was used, both labels alike where there are enough, a larger split begins with it."""
    silver = pool(labels)
    used = silver["claim_id"].gather(sorted(n for n in taken if n < len(labels)))
    split = dev_split(silver, [used], count, seed)
    ids = split.claims["claim_id"].to_list()
    assert not set(ids) & set(used)
    assert len(ids) == min(count, split.free) == len(set(ids))
    assert len(labels) - len(used) == split.free
    free = silver.filter(~pl.col("claim_id").is_in(used.implode()))["label"].to_list()
    drawn = [split.claims["label"].to_list().count(label) for label in (S, R)]
    assert abs(drawn[0] - drawn[1]) <= 1 or min(drawn) == min(free.count(S), free.count(R))
    longer = dev_split(silver.reverse(), [used], count + 3, seed)
    assert ids == longer.claims["claim_id"].to_list()[: len(ids)]
    assert split.claims.columns == silver.columns


def test_its_name_says_which_claims_they_are():
    """Another seed draws others; the name tells sizes, seed and a digest of the ids."""
    silver = pool([S, R] * 20)
    one, other = (dev_split(silver, [], 10, seed) for seed in (42, 43))
    assert set(one.claims["claim_id"]) != set(other.claims["claim_id"])
    assert one.name.startswith("10 of 40 unused claims of silver_decomposed (40), seed 42, claims ")
    assert one.name.split()[-1] != other.name.split()[-1]


def test_claims_without_evidence_are_none():
    """There is nothing to verify."""
    silver = pool([S, R]).with_columns(evidence=pl.Series([" ", "It is so."]))
    assert [R] == dev_split(silver, [], 5, 42).claims["label"].to_list()


def test_training_sets_and_a_policys_held_out_claims_are_used(tmp_path: Path):
    """Every system stays clear of the training sets, a policy of what it was chosen by too."""
    data, silver = DataFolder(base_dir=str(tmp_path)), pool([S, R] * 10)
    simple, policy = (
        system_named(key, SYSTEMS) for key in ("simple-rules-faithful", "decomposerl-tiny")
    )
    with pytest.raises(EvaluationError, match="decomposerl run silver_decomposed --upstream"):
        dev_claims(data, simple, 20, 42)
    write_parquet(silver, tmp_path / "silver_decomposed.parquet")
    write_parquet(silver[:6], tmp_path / "training_claims.parquet")
    write_parquet(silver[4:10], tmp_path / "training_claims_random.parquet")
    write_parquet(silver[10:13], tmp_path / "policy_runs/tiny/held_out.parquet")
    found = dev_claims(data, simple, 20, 42).claims
    assert set(silver[10:]["claim_id"]) == set(found["claim_id"])
    found = dev_claims(data, policy, 20, 42).claims
    assert set(silver[13:]["claim_id"]) == set(found["claim_id"])
    text = '[lora]\nmethod = "trace"\nmodel = "m"\nadapter = "./policy/tiny/adapter"\n'
    text += text.replace("lora", "other").replace("policy", "elsewhere")
    entries = parse_systems_toml(text, "systems.toml", tmp_path, {})
    lora, other = with_entries([], entries, [], "systems.toml")
    assert found.equals(dev_claims(data, lora, 20, 42).claims)
    assert 10 == dev_claims(data, other, 20, 42).claims.height
    write_parquet(silver, tmp_path / "training_claims.parquet")
    with pytest.raises(EvaluationError, match="nothing to calibrate on"):
        dev_claims(data, simple, 20, 42)
