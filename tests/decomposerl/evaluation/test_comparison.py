"""Systems held against each other, and which claims a system is asked or calibrated on."""

from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from decomposerl.baselines.catalogue import METHODS
from decomposerl.errors import ConfigError, EvaluationError
from decomposerl.evaluation.calibration import dev_split
from decomposerl.evaluation.comparison import (
    compare,
    compare_systems,
    holm,
    mean_difference,
)
from decomposerl.evaluation.entries import parse_systems_toml
from decomposerl.evaluation.metrics import inverted_p
from decomposerl.evaluation.published import IN_DOMAIN
from decomposerl.evaluation.scored_claims import classes_of, evaluation_subset
from decomposerl.evaluation.systems import system_named, systems
from decomposerl.reports.system_report import comparison_markdown
from decomposerl.schemas import BENCHMARK_CLAIMS, SILVER_DECOMPOSED, VERDICTS
from plain_rows import plain, table_of
from resources.evaluation.model import dev_claims
from resources.store.parquet import DataFolder, write_parquet
from strategies import LAW, example_row, frame_of

S, R = "Supported", "Refuted"


def claims(labels: list[str | None], evidence: str | None = "It is so.") -> pl.DataFrame:
    """A test set with these labels; ids do not follow its order."""
    rows = [
        plain("benchmark_claims", claim_id=f"{(index * 7919) % 104729:016x}", source="toy")
        | {"native_id": str(index), "claim": f"claim {index}", "evidence": evidence}
        | {"passages": [], "label": label, "document_id": f"page {index}"}
        for index, label in enumerate(labels)
    ]
    return table_of(BENCHMARK_CLAIMS, rows)


def said(frame: pl.DataFrame, verdicts: list[str | None], engine: str = "rules") -> pl.DataFrame:
    """What a system said of the first of these claims."""
    ids = frame["claim_id"].head(len(verdicts))
    words = pl.Series(verdicts, dtype=pl.String)
    return pl.DataFrame({"claim_id": ids, "verdict": words, "engine": engine})


LABELS: list[str | None] = [S, R] * 20
TOY = claims(LABELS)
RIGHT, WRONG = said(TOY, LABELS), said(TOY, [R, S] * 20, "other")
HALF = said(TOY, [S, S] * 20)
MIXED = said(TOY, [S, R] * 8 + [R, S] * 8 + [S, R] * 4)


def compared(**systems: pl.DataFrame) -> pl.DataFrame:
    return compare_systems({"toy": TOY}, {"toy": systems})


def values(row: dict[str, object], names: str) -> tuple[object, ...]:
    return tuple(row[name] for name in names.split())


TINY = claims([S, R, S, R])
TURNED = said(TINY, [R, S, R, S])
SMALL = [
    (TOY, RIGHT, HALF, (), (40, 50.0, None)),
    (TOY, RIGHT, said(TOY, [None] * 10), (), (10, 100.0, "n = 5 of a label < 10")),
    (TOY, RIGHT, said(TOY, [S, S] * 5 + [S, R] * 15), (), (40, 12.5, "n = 5 differ < 6")),
    (TOY, RIGHT, said(TOY, [S, S] * 6 + [S, R] * 14), (), (40, pytest.approx(15.0), None)),
    (TINY, said(TINY, [S, R, S, R]), TURNED, (), (4, 100.0, "n = 2 of a label < 10")),
    (TINY, said(TINY, [S, R, S, R]), TURNED, {("b", "toy")}, (4, 100.0, "limited run")),
]


@pytest.mark.parametrize("case", SMALL)
def test_only_claims_that_both_have_count(case: tuple[Any, ...]):
    """Without a verdict a claim is wrong; a small or short run has an interval and no p-value."""
    labelled, ours, theirs, limited, expected = case
    systems = {"toy": {"b": theirs, "a": ours}}
    frame = compare_systems({"toy": labelled}, systems, limited=limited)
    (row,) = frame.to_dicts()
    assert ("a", "b", *expected) == values(row, "system other rows difference no_p")
    assert row["low"] <= row["difference"] <= row["high"]
    shown = comparison_markdown(frame).splitlines()[-1].replace("\\", "")
    if row["no_p"]:
        assert (None, None) == values(row, "p p_holm")
        assert f"| – | – ({row['no_p'].replace('<', '&lt;')}) |" in shown
    else:
        assert 2 / 2**20 <= row["p"] == row["p_holm"] < 0.05


DOMAIN = dict.fromkeys(IN_DOMAIN, TOY)
FOUND = {name: {"a": RIGHT, "b": HALF, "c": WRONG, "d": RIGHT} for name in IN_DOMAIN}


@pytest.fixture(scope="module")
def board() -> pl.DataFrame:
    """Four systems on nine test sets, one of which ``a`` was run on in part."""
    return compare_systems(DOMAIN, FOUND, limited={("a", IN_DOMAIN[0])})


def test_a_short_run_marks_its_rows_and_their_mean(board: pl.DataFrame):
    """In every pair that it is in, and in no other; the reader sees a star."""
    marked = board.filter("limited").select("system", "other", "benchmark").rows()
    columns = (IN_DOMAIN[0], "mean_in_domain")
    assert {("a", other, column) for other in "bcd" for column in columns} == set(marked)
    shown = comparison_markdown(board, most=99).splitlines()
    assert len(marked) == sum(line.endswith("\\* |") for line in shown)


def test_holm_corrects_over_all_pairs_of_one_test_set(board: pl.DataFrame):
    """Four systems are six pairs, five of them with a p-value: the least p counts five times.

    The family is what a sentence on a test set or mean counts, whatever other sets there are.
    """
    for name, size in (*((name, 5) for name in IN_DOMAIN[1:]), ("mean_in_domain", 3)):
        pairs = board.filter(benchmark=name)
        assert 6 == pairs.height
        known = pairs.drop_nulls("p").sort("p")
        assert size == known.height
        assert known["p_holm"][0] == pytest.approx(size * known["p"][0])
        assert known["p_holm"].to_list() == pytest.approx(holm(known["p"].to_list()))


def test_a_mean_needs_all_its_parts(board: pl.DataFrame):
    """Nine test sets give nine rows and their mean; eight give eight."""
    whole = board.filter(system="b", other="c")
    assert [*IN_DOMAIN, "mean_in_domain"] == whole["benchmark"].to_list()
    assert (50.0, 360) == values(whole.row(-1, named=True), "difference rows")
    fewer = {name: FOUND[name] for name in IN_DOMAIN[1:]}
    assert "mean_in_domain" not in compare_systems(DOMAIN, fewer)["benchmark"]


def test_all_pairs_or_those_with_one():
    """Without a choice each pair stands once; with one every other system faces it."""
    found = {"a": RIGHT, "b": HALF, "c": WRONG}
    every = compared(**found).select("system", "other").rows()
    assert [("a", "b"), ("a", "c"), ("b", "c")] == every
    assert ("rules", "other") == values(compared(**found).row(1, named=True), "engine other_engine")
    chosen = compare_systems({"toy": TOY}, {"toy": found}, ["b"])
    assert [("a", "b"), ("c", "b")] == chosen.select("system", "other").rows()
    assert [50.0, -50.0] == chosen["difference"].to_list()
    one_label = {"toy": TOY.filter(label=S)}  # has no balanced accuracy
    assert 0 == compare_systems(one_label, {"toy": found}).height


def test_claims_on_the_same_evidence_are_drawn_together_whether_or_not_it_is_named():
    """Equal text without a document is as good as a document; by claims apart it is not."""
    texts = pl.Series("evidence", [f"text {index // 8}" for index in range(len(LABELS))])
    named = TOY.with_columns(texts.str.replace("text", "page").alias("document_id"), texts)
    unnamed = named.with_columns(document_id=pl.lit(None, pl.String))
    found = {name: {"a": RIGHT, "b": MIXED} for name in ("toy", "named")}
    by_text = compare_systems({"toy": unnamed}, found)
    assert by_text.equals(compare_systems({"toy": named}, found))
    apart = TOY.with_columns(pl.Series("evidence", [str(n) for n in range(len(LABELS))]))
    assert not by_text.equals(compare_systems({"toy": apart}, found))


def test_under_no_difference_p_values_are_spread_out():
    """Two systems that are equally good: about one test in ten falls below 0.1."""
    rng = np.random.default_rng(7)
    labels = np.arange(200) % 2
    below = 0
    for _ in range(200):
        sides = [np.where(rng.random(200) < 0.7, labels, 1 - labels) for _ in range(2)]
        below += compare(labels, *sides, np.arange(200)).p < 0.1
    assert 8 <= below <= 36


both_said = st.tuples(st.integers(0, 1), st.integers(0, 2), st.integers(0, 2))


@LAW
@given(st.lists(both_said, min_size=4), st.integers(1, 6))
def test_a_p_value_below_five_percent_goes_with_an_interval_without_zero(
    rows: list[tuple[int, int, int]], size: int
):
    """In a test set and in a mean, where a p is shown, from six differing documents on.

    It is at least 2 ** (1 - m) for m of them.
    """
    labels, ours, theirs = np.array([*rows, (0, 0, 0), (1, 1, 1)]).T
    outcome = compare(labels, ours, theirs, np.arange(len(labels)) // size)
    mean = mean_difference([outcome] * 3)
    for one in (outcome, mean):
        low, high = one.bounds
        assert one.p >= min(1, 2.0 ** (1 - one.differing))
        assert one.no_p or one.differing >= 6
        assert one.no_p or (one.p < 0.05) == (low > 0 or high < 0)
        assert -1 <= low <= one.difference <= high <= 1
        assert low < high
    assert (3 * outcome.differing, 3 * outcome.rows) == (mean.differing, mean.rows)
    assert mean.difference == pytest.approx(outcome.difference)
    assert np.ptp(mean.bounds) < np.ptp(outcome.bounds)


def test_holm_by_hand():
    """Sorted p-values times 4, 3, 2, 1, never falling, at most 1, in the order given."""
    assert [0.9, 0.06, 0.04, 0.06] == pytest.approx(holm([0.9, 0.02, 0.01, 0.03]))
    assert [1.0, 0.03] == pytest.approx(holm([1.0, 0.015]))
    assert [] == holm([])


@given(st.lists(st.floats(0, 1), max_size=12), st.randoms(use_true_random=False))
def test_holm_only_raises_and_keeps_the_order(values: list[float], shuffler: object):
    """Corrected values are at least the given ones, at most 1, and go with them when moved."""
    found = holm(values)
    assert all(p <= corrected <= 1 for p, corrected in zip(values, found, strict=True))
    moved = list(range(len(values)))
    shuffler.shuffle(moved)
    again = holm([values[index] for index in moved])
    assert [found[index] for index in moved] == pytest.approx(again)


def test_an_interval_that_never_excludes_zero_has_p_one():
    """Undefined bounds, too; one that always does has a p near 0, but not 0."""
    assert {1.0} == {inverted_p(lambda _, low=low: (low, 1.0)) for low in (-1.0, float("nan"))}
    assert 0 < inverted_p(lambda _: (0.1, 0.2)) < 1e-6
    assert 1.0 == inverted_p(lambda level: (level - 0.99, 1.0))


def test_what_cannot_be_asked_is_counted_with_its_reason():
    """Without a label first, then without evidence; the rest is asked."""
    frame = pl.concat([claims([S, None]), claims([R, None], " "), claims([R], None)])
    found = evaluation_subset(frame)
    assert {"no_label": 2, "no_evidence": 2} == found.left_out
    assert (1, False) == (found.claims.height, found.limited)


@LAW
@given(st.lists(st.sampled_from(VERDICTS), max_size=20), st.integers(1, 24), st.integers(0, 6))
def test_a_short_run_is_balanced_and_part_of_a_longer_one(
    labels: list[str | None], limit: int, more: int
):
    """As many claims as asked for, of all labels alike, all of them in a longer run too."""
    frame = claims([S] * len(labels)).with_columns(label=pl.Series(labels, dtype=pl.String))
    short, longer = evaluation_subset(frame, limit), evaluation_subset(frame, limit + 2 * more)
    assert short.claims.height == min(limit, len(labels))
    assert short.limited == (limit < len(labels))
    assert classes_of(frame["label"]) == 2 + (VERDICTS[2] in labels)
    counts = [short.claims.filter(label=label).height for label in VERDICTS]
    for label, count in zip(VERDICTS, counts, strict=True):
        assert count in {labels.count(label), max(counts), max(counts) - 1}
    ids = short.claims["claim_id"].to_list()
    assert set(ids) <= set(longer.claims["claim_id"])
    assert [row for row in frame["claim_id"] if row in ids] == ids


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
    split, name = dev_split(silver, [used], count, seed)
    ids = split["claim_id"].to_list()
    assert not set(ids) & set(used)
    assert len(ids) == min(count, len(labels) - len(used)) == len(set(ids))
    assert f" of {len(labels) - len(used)} unused claims " in name
    free = silver.filter(~pl.col("claim_id").is_in(used.implode()))["label"].to_list()
    drawn = [split["label"].to_list().count(label) for label in (S, R)]
    assert abs(drawn[0] - drawn[1]) <= 1 or min(drawn) == min(free.count(S), free.count(R))
    longer, _ = dev_split(silver.reverse(), [used], count + 3, seed)
    assert ids == longer["claim_id"].to_list()[: len(ids)]
    assert split.columns == silver.columns


def test_training_sets_and_a_policys_held_out_claims_are_used(tmp_path: Path):
    """Every system stays clear of the training sets, a policy of what it was chosen by too."""
    data, silver = DataFolder(base_dir=str(tmp_path)), pool([S, R] * 10)
    keys = ("simple-rules-faithful", "decomposerl-tiny")
    simple, policy = (system_named(key, SYSTEMS) for key in keys)
    with pytest.raises(ConfigError, match='key:"silver_decomposed"'):
        dev_claims(data, simple, 20, 42)
    write_parquet(silver, tmp_path / "silver_decomposed.parquet")
    write_parquet(silver[:6], tmp_path / "training_claims.parquet")
    write_parquet(silver[4:10], tmp_path / "training_claims_random.parquet")
    write_parquet(silver[10:13], tmp_path / "policy_runs/tiny/held_out.parquet")
    found, _ = dev_claims(data, simple, 20, 42)
    assert set(silver[10:]["claim_id"]) == set(found["claim_id"])
    found, _ = dev_claims(data, policy, 20, 42)
    assert set(silver[13:]["claim_id"]) == set(found["claim_id"])
    text = '[lora]\nmethod = "trace"\nmodel = "m"\nadapter = "./policy/tiny/adapter"\n'
    text += text.replace("lora", "other").replace("policy", "elsewhere")
    entries = parse_systems_toml(text, "systems.toml", tmp_path)
    lora, other = systems([], [], entries)
    assert found.equals(dev_claims(data, lora, 20, 42)[0])
    assert 10 == dev_claims(data, other, 20, 42)[0].height
    write_parquet(silver, tmp_path / "training_claims.parquet")
    with pytest.raises(EvaluationError, match="nothing to calibrate on"):
        dev_claims(data, simple, 20, 42)
