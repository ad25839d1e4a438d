"""The plan of the paper's pool: counts, partners, fates."""

import numpy as np

from decomposerl.claims.catalogue import BENCHMARKS, SOURCES
from studies import paper_plan


def test_the_plan_has_the_papers_counts():
    """Raw rows per source, rows in the band and test claims are those of the paper."""
    plan = paper_plan.plan_pool()
    names, counts = np.unique(plan.sources, return_counts=True)
    raw = {source.name: source.paper_raw for source in SOURCES}
    assert raw == dict(zip(names.tolist(), counts.tolist(), strict=True))
    assert len(plan.in_band) == 24_355
    assert len(plan.tests) == 50_000
    assert {benchmark.name for benchmark in BENCHMARKS} == set(plan.tests.tolist())
    leaving = np.isin(plan.fates, list(paper_plan.LATE)).sum()
    assert abs(24_355 - int(leaving) - 17_328) < 40


def test_an_original_is_kept_and_stands_before_its_copies():
    """So that keep-first must remove the copy, and only the copy."""
    plan = paper_plan.plan_pool(8_000)
    copies = np.flatnonzero(np.isin(plan.fates, paper_plan.WITH_ORIGINAL))
    originals = plan.partners[copies]
    assert len(copies) > 300
    assert np.all((originals >= 0) & (originals < copies))
    assert {paper_plan.KEPT} == set(plan.fates[originals].tolist())
    assert np.all(plan.sources[originals] == plan.sources[copies])


def test_each_leak_has_a_test_claim_of_its_own():
    """No two leaks share a test claim, and nobody else has a partner."""
    plan = paper_plan.plan_pool(8_000)
    leaks = np.flatnonzero(np.isin(plan.fates, list(paper_plan.LEAKS)))
    partners = plan.partners[leaks]
    assert len(set(partners.tolist())) == len(leaks) > 20
    others = ~np.isin(plan.fates, [*paper_plan.LEAKS, *paper_plan.WITH_ORIGINAL])
    assert {-1} == set(plan.partners[others].tolist())
