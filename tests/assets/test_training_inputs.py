"""The random training set and the claims held out of all of them."""

from pathlib import Path
from random import Random

import dagster as dg
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from assets.training_inputs import training_claims_random
from decomposerl.schemas import LABELS, SILVER_DECOMPOSED, TRAINING_CLAIMS
from decomposerl.training.claim_draws import held_out_claims, random_claims
from resources.store.parquet import DataFolder, ParquetTables, write_parquet
from strategies import FRAME_LAW, example_row, frame_of, frames

counts, seeds = st.integers(0, 24), st.integers(0, 3)
pools = frames(SILVER_DECOMPOSED, 20)


def pool_of(supported: int, refuted: int) -> pl.DataFrame:
    labels = ["Supported"] * supported + ["Refuted"] * refuted
    return frame_of(SILVER_DECOMPOSED, [example_row(label=label) for label in labels])


def ids(frame: pl.DataFrame) -> list[str]:
    return frame["claim_id"].to_list()


@FRAME_LAW
@given(pools, counts, seeds)
def test_a_random_set_is_part_of_the_pool_in_its_order(pool: pl.DataFrame, count: int, seed: int):
    """As many as asked for or all there are, conforming, each with its own columns unchanged."""
    drawn = TRAINING_CLAIMS.conform(random_claims(pool, count, seed))
    assert min(count, pool.height) == drawn.height
    assert [one for one in ids(pool) if one in set(ids(drawn))] == ids(drawn)
    kept = pool.filter(pl.col("claim_id").is_in(ids(drawn)))
    assert kept.equals(drawn.select(list(SILVER_DECOMPOSED.schema)))
    assert {"random"} >= set(drawn["origin"])


@FRAME_LAW
@given(pools, counts, seeds, st.randoms(use_true_random=False))
def test_a_draw_depends_on_no_order(pool: pl.DataFrame, count: int, seed: int, luck: Random):
    """Shuffling the pool draws the same claims; a smaller draw is part of a larger one."""
    rows = list(range(pool.height))
    luck.shuffle(rows)
    here = set(ids(random_claims(pool, count, seed)))
    assert here == set(ids(random_claims(pool[rows], count, seed)))
    assert here <= set(ids(random_claims(pool, count + 1, seed)))


def test_a_random_draw_is_uniform():
    """Over 400 seeds each of 20 claims is drawn about as often as another, whatever its label."""
    pool = pool_of(15, 5)
    drawn = [one for seed in range(400) for one in ids(random_claims(pool, 5, seed))]
    times = [drawn.count(one) for one in ids(pool)]
    assert 400 * 5 == sum(times)
    assert 70 <= min(times) <= max(times) <= 130  # 100 expected, a spread of 8.7
    assert ids(random_claims(pool, 5, 1)) != ids(random_claims(pool, 5, 2))


@FRAME_LAW
@given(pools, pools, counts, seeds)
def test_held_out_claims_are_in_no_training_set(
    pool: pl.DataFrame, other: pl.DataFrame, count: int, seed: int
):
    """They are of the pool, in its order and with its columns, and nobody trains on them."""
    training = random_claims(pool, pool.height // 2, 7)
    held = SILVER_DECOMPOSED.conform(
        held_out_claims(pool, training, other.head(3), count=count, seed=seed)
    )
    used = set(ids(training)) | set(ids(other.head(3)))
    assert min(count, len(set(ids(pool)) - used)) == held.height
    assert used.isdisjoint(ids(held))
    assert held.equals(pool.filter(pl.col("claim_id").is_in(ids(held))))


@FRAME_LAW
@given(st.integers(0, 12), st.integers(0, 12), counts)
def test_held_out_labels_are_as_even_as_they_can_be(supported: int, refuted: int, count: int):
    """Half each, the first label one more; where one has too few the other fills up."""
    pool = pool_of(supported, refuted)
    found = dict(held_out_claims(pool, count=count, seed=1)["label"].value_counts().rows())
    first, second = (found.get(label, 0) for label in LABELS)
    assert min(count, supported + refuted) == first + second
    expected = min(supported, max(-(-count // 2), count - refuted))
    assert (expected, min(refuted, count - expected)) == (first, second)


def test_more_held_out_claims_hold_the_fewer():
    """A longer list goes on where the shorter one ended; another seed takes others."""
    pool = pool_of(30, 30)
    few, many = (held_out_claims(pool, count=count, seed=3) for count in (10, 20))
    assert set(ids(few)) < set(ids(many))
    assert ids(few) != ids(held_out_claims(pool, count=10, seed=4))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    pool = pool_of(20, 20)
    write_parquet(pool, tmp_path / "silver_decomposed.parquet")
    write_parquet(random_claims(pool, 12, 99), tmp_path / "training_claims.parquet")
    return tmp_path


def test_the_random_set_is_as_large_as_the_curated_one(folder: Path):
    """The asset draws from the pool on disk, stores its frame and its run record."""
    inputs = [dg.AssetSpec(key) for key in ("silver_decomposed", "training_claims")]
    done = dg.materialize(
        [training_claims_random, *inputs],
        selection=["training_claims_random"],
        resources={"io_manager": ParquetTables(base_dir=str(folder))},
        run_config={"ops": {"training_claims_random": {"config": {"seed": 5}}}},
    )
    assert done.success
    data = DataFolder(base_dir=str(folder))
    drawn = TRAINING_CLAIMS.conform(data.read("training_claims_random"))
    assert drawn.equals(random_claims(data.read("silver_decomposed"), 12, 5))
    record = data.run("training_claims_random")
    assert ('{"seed": 5}', 12) == (record["config"], record["rows_kept"])
    (event,) = done.get_asset_materialization_events()
    metadata = event.materialization.metadata
    shared = drawn.join(data.read("training_claims"), on="claim_id", how="semi").height
    assert (40, shared) == (metadata["pool"].value, metadata["also in the curated set"].value)
