"""What the generator planted, as one frame for the tests; it is never written to disk."""

from collections.abc import Mapping, Sequence

import polars as pl

from sample.planting import SampleClaim

EXPECTED = {
    "few_sentences": ("rule_filtered", "too_few_passages"),
    "few_tokens": ("rule_filtered", "too_few_tokens"),
    "many_tokens": ("rule_filtered", "too_many_tokens"),
    "overlap": ("rule_filtered", "paraphrased_evidence"),
    "no_entities": ("rule_filtered", "too_few_entities"),
    "easy": ("difficulty_band", "too_easy"),
    "mislabelled": ("difficulty_band", "likely_mislabelled"),
    "duplicate_exact": ("deduplicated", "lexical_duplicate"),
    "duplicate_near": ("deduplicated", "lexical_duplicate"),
    "duplicate_paraphrase": ("deduplicated", "semantic_duplicate"),
    "leak_exact": ("decontaminated", "exact_match"),
    "leak_near": ("decontaminated", "lexical_match"),
    "leak_paraphrase": ("decontaminated", "semantic_match"),
    "one_question": ("silver_decomposed", "too_few_questions"),
    "middle": ("claims", "middle_class"),
    "reject": ("claims", "rejected"),
}
"""Planted kind to the stage and reason of the expected drop."""

SCHEMA = {
    "source": pl.String(),
    "native_id": pl.String(),
    "kind": pl.String(),
    "group": pl.String(),
    "expected_stage": pl.String(),
    "expected_reason": pl.String(),
    "partner_native_id": pl.String(),
    "partner_source": pl.String(),
}


def answer_key(cases: Sequence[SampleClaim], ids: Mapping[str, str]) -> pl.DataFrame:
    """One row per claim.

    Columns: ``source`` (catalogue name of the corpus or test set), ``native_id``, ``kind``,
    ``group`` (shared by a copy and its original, else null), ``expected_stage`` and
    ``expected_reason`` (null for ordinary and test-set claims; the reason of a reject is its
    fault), ``partner_native_id`` and ``partner_source`` (the original of a copy, else null).
    """
    by_uid = {case.uid: case for case in cases}
    groups = {case.group for case in cases if case.group}
    return pl.DataFrame(
        [_row(case, by_uid.get(case.group), ids, groups) for case in cases],
        schema=SCHEMA,
        orient="row",
    )


def _row(
    case: SampleClaim, partner: SampleClaim | None, ids: Mapping[str, str], groups: set[str]
) -> tuple[str | None, ...]:
    stage, reason = EXPECTED.get(case.kind, (None, None))
    return (
        catalogue_name(case.source),
        ids[case.uid],
        case.kind,
        case.group or (case.uid if case.uid in groups else None),
        stage,
        case.fault or reason,
        ids[partner.uid] if partner else None,
        catalogue_name(partner.source) if partner else None,
    )


_LISTS = {
    "hover_test": "hover",
    "fever_dev": "fever",
    "ex_fever_mini": "ex_fever",
    "fever_symmetric": "fever",
}


def catalogue_name(source: str) -> str:
    """The catalogue name behind ``benchmark/<name>`` and ``list/<name>``."""
    head, _, name = source.rpartition("/")
    return _LISTS[name] if head == "list" else name
