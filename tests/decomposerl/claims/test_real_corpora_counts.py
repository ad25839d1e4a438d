"""The adapters on the real corpora give exactly the counts that their README states."""

from collections import Counter
from functools import cache

import pytest

from decomposerl.claims.claim import Draft, LabelRule, apply_rule
from decomposerl.claims.source import Source
from native_rows import MEMBERS, Member
from project import ROOT
from resources.corpora.folder import FolderCorpora
from studies.reference.corpora_status import REAL_FILES

FOLDER = ROOT.parent / "shared" / "corpora"
FILES = FolderCorpora(FOLDER)

pytestmark = [
    pytest.mark.real,
    pytest.mark.skipif(not FOLDER.is_dir(), reason="the real corpora are not beside this folder"),
]

GOT = {one.path: one.got for one in REAL_FILES if one.kept}
# Corpus and file: Supported and Refuted rows with text under each rule.
COUNTS = {
    ("hover", "hover/hover_dev_release_v1.1.json"): ((2_000, 1_278), (2_000, 1_278)),
    ("feverous", "feverous_s/dev.json"): ((1_411, 1_551), (1_411, 1_551)),
    ("foolmetwice", "foolmetwice/dev.jsonl"): ((596, 573), (596, 573)),
    ("scitab", "scitab/sci_tab.json"): ((457, 411), (457, 767)),
    ("scifact", "scifact/claims_train.jsonl"): ((370, 194), (370, 498)),
    ("scifact", "scifact/claims_dev.jsonl"): ((138, 71), (138, 183)),
    ("fever", "fever_symmetric/fever_symmetric_dev.jsonl"): ((354, 354), (354, 354)),
    ("pubmedclaim", "pubmedqa/pqal_train_dev.json"): ((276, 169), (276, 224)),
    ("wice", "wice/claim/dev.jsonl"): ((115, 43), (115, 234)),
    ("wice", "wice/non_supported_tokens/train.jsonl"): ((0, 0), (0, 374)),
    ("wice", "wice/non_supported_tokens/dev.jsonl"): ((0, 0), (0, 124)),
    ("pubhealthtab", "pubhealthtab/pubhealthtab_evalset.jsonl"): ((106, 46), (106, 89)),
    ("pubhealth", "pubhealth/tuning_excerpt.tsv"): ((69, 36), (69, 51)),
}
CLAIM_LISTS = (
    ("fever", "fever/paper_dev.jsonl"),
    ("hover", "hover/hover_test_release_v1.1.json"),
    ("ex_fever", "ex_fever/mini_test.csv"),
)


@cache
def outcomes(name: str, path: str) -> tuple[Member, list[Draft]]:
    """All rows of one real file of a member; none is rejected."""
    for member in MEMBERS:
        extra = member.extra if isinstance(member, Source) else member.claim_lists
        for file in (*member.files, *extra):
            if (member.name, file.path) == (name, path):
                found = list(member.read(FILES, file))
                drafts = [one for one in found if isinstance(one, Draft)]
                assert len(found) == len(drafts)
                return member, drafts
    raise LookupError(name, path)


def with_text(name: str, path: str, rule: LabelRule) -> tuple[int, int]:
    """Supported and Refuted rows with text under a label rule."""
    member, found = outcomes(name, path)
    counts: Counter[str | None] = Counter()
    for draft in found:
        if draft.passages:
            side = member.labels.side(draft.native_label or "")
            assert side is not None, draft.native_label
            counts[apply_rule(side, rule)] += 1
    return counts["Supported"], counts["Refuted"]


@pytest.mark.parametrize(("name", "path"), [*COUNTS, *CLAIM_LISTS])
def test_every_file_gives_its_stated_counts(name: str, path: str):
    """Rows and label balance are those of the README; the ids tell all rows of a file apart.

    Claims of a list are there without text. Rows of a hold-out corpus name their document, so
    that a split can keep it whole.
    """
    drafts = outcomes(name, path)[1]
    assert GOT[path] == len(drafts) == len({draft.native_id for draft in drafts})
    if (name, path) in CLAIM_LISTS:
        assert not any(draft.passages for draft in drafts)
        assert all(draft.claim.strip() for draft in drafts)
    else:
        dropped, refuted = COUNTS[name, path]
        assert dropped == with_text(name, path, "drop_middle")
        assert refuted == with_text(name, path, "middle_is_refuted")
        assert name == "fever" or all(draft.documents for draft in drafts), "fever: no split"


def test_the_page_of_checked_files_names_each_one_that_is_read_here():
    """What ``docs/reference/corpora-status.md`` calls tested is tested, and nothing else is.

    In all 10,618 claims with text without the middle class; 11,307 with WiCE's as refuted.
    """
    assert GOT.keys() == {path for _, path in (*COUNTS, *CLAIM_LISTS)}
    chosen = [(sum(counts[0]), sum(counts[name == "wice"])) for (name, _), counts in COUNTS.items()]
    assert [10_618, 11_307] == [sum(column) for column in zip(*chosen, strict=True)]


def test_hover_paragraphs_reach_the_stated_hops():
    """Claims with text by hops, and one passage a gold paragraph: two to four."""
    _, found = outcomes("hover", "hover/hover_dev_release_v1.1.json")
    drafts = [one for one in found if one.passages]
    assert {2: 640, 3: 1_655, 4: 983} == Counter(draft.num_hops for draft in drafts)
    assert {2, 3, 4} == {len(draft.passages) for draft in drafts}
