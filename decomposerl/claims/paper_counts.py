"""The paper's counts per source, and where this project's differ: reason and setting.

``PAPER_COUNTS`` is the table of the paper's appendix "Per-Source Training Counts". ``DIFFERENCES``
has an entry for each source, in the same order, and for the test set whose files are not the
paper's alone. What was counted in the files is said as a fact; what only fits is "likely"; what
is neither is "unknown". Pages, asset metadata and ``decomposerl attrition --against paper`` show
these texts.
"""

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class PaperCounts:
    """Rows of one source in the paper's columns Raw, Diff., Dedup and Final.

    ``deduplicated`` includes decontamination and the least number of questions: it is the stage
    ``silver_decomposed`` here.
    """

    raw: int
    difficulty: int
    deduplicated: int
    final: int


PAPER_COUNTS: Mapping[str, PaperCounts] = {
    "ex_fever": PaperCounts(36_841, 8_394, 3_716, 823),
    "llm_aggrefact": PaperCounts(30_420, 5_498, 4_275, 1_069),
    "feverous": PaperCounts(26_928, 818, 787, 237),
    "hover": PaperCounts(18_171, 2_533, 2_106, 559),
    "foolmetwice": PaperCounts(11_588, 2_992, 2_684, 663),
    "faviq_a": PaperCounts(10_924, 444, 358, 238),
    "pubhealth": PaperCounts(9_096, 2_418, 2_357, 1_044),
    "ambifc": PaperCounts(4_912, 303, 176, 122),
    "pubhealthtab": PaperCounts(2_664, 224, 191, 139),
    "scifact": PaperCounts(1_295, 113, 106, 85),
    "scitab": PaperCounts(868, 226, 184, 161),
    "wice": PaperCounts(785, 233, 229, 182),
    "claimdecomp": PaperCounts(569, 40, 40, 40),
    "pubmedclaim": PaperCounts(445, 119, 119, 102),
}
"""By the catalogue's name, in the order of the paper's table."""
PAPER_TOTAL = PaperCounts(155_506, 24_355, 17_328, 5_464)
"""The table's last line, as printed."""


@dataclass(frozen=True, slots=True)
class Difference:
    """Why the rows of a corpus are not the paper's, or that they are.

    ``rows`` is what all its public files give with the default settings, by the files or their
    published sizes; None where neither says. ``setting`` reproduces the paper's rows, or comes
    nearest to them; it is empty where there is none.
    """

    corpus: str
    rows: int | None
    reason: str
    setting: str = ""

    @property
    def text(self) -> str:
        """The counts as far as they are known, the reason and the setting, in one line."""
        printed = PAPER_COUNTS.get(self.corpus)
        numbers = [
            f"{name}: {rows:,}."
            for name, rows in (("Paper", printed and printed.raw), ("Here", self.rows))
            if rows is not None
        ]
        setting = [f"Setting: {self.setting}."] if self.setting else []
        return " ".join([*numbers, self.reason, *setting])


DIFFERENCES: tuple[Difference, ...] = (
    Difference(
        "ex_fever",
        None,
        "Likely the same: train and dev without the middle class. That leaves two thirds of the "
        "test split (4,071 of 6,099), and two thirds of the other rows of over 60,000 would be "
        "about the paper's count. Train and dev were not counted.",
    ),
    Difference(
        "llm_aggrefact",
        0,
        "The paper trains on its dev split; the terms allow evaluation only, so it is off.",
        "LoadSettings.allow_training_off = true",
    ),
    Difference(
        "feverous",
        None,
        "Here the whole train file, about 71,000 rows. Likely the paper kept claims whose evidence "
        "is sentences: the public selection by that rule has 2,962 of about 7,900 dev rows, and "
        "that share of train is about the paper's count. The native files were not counted.",
        "LoadSettings.readings = {feverous: sentences}",
    ),
    Difference(
        "hover",
        18_171,
        "The same, the train split, if the page database is whole. Dev is the test set, as the "
        "labels of test are hidden. Without the train file a part of dev trains.",
    ),
    Difference(
        "foolmetwice",
        11_588,
        "The same: train and dev. Without the test file a part of dev is the test set.",
    ),
    Difference(
        "faviq_a",
        None,
        "Unknown: no split has the paper's size (train 17,008, dev 4,260). Here both splits but "
        "rows whose answering passage is N/A, not found: uncounted, perhaps the difference.",
        "LoadSettings.readings = {faviq_a: positive}",
    ),
    Difference(
        "pubhealth",
        None,
        "Likely the same: true and false of train and dev. Releases differ by a few rows; none "
        "was counted.",
    ),
    Difference(
        "ambifc",
        None,
        "Likely the paper counts passages; here passages of a page with one label are one row, "
        "as a passage alone rarely has three sentences. The native files were not counted; the "
        "hub's copy has 17,111 passages in train and 2,457 in dev, neutral ones included.",
        "LoadSettings.readings = {ambifc: passages}",
    ),
    Difference(
        "pubhealthtab",
        None,
        "Unknown: here train and dev without the middle class, which leaves 152 of dev's 195 "
        "rows. Train was not counted.",
    ),
    Difference(
        "scifact",
        773,
        "The paper counts rationales (957 in train, 338 in dev), here a claim and an abstract are "
        "one row (564 and 209).",
        "LoadSettings.readings = {scifact: rationales}",
    ),
    Difference("scitab", 868, "The same: both verdict classes of the whole file."),
    Difference(
        "wice",
        None,
        "Likely the same: train and dev without the middle class. Dev gives 158, so train must "
        "give 627; it was not counted.",
    ),
    Difference(
        "claimdecomp",
        None,
        "Unknown: the paper does not say which grades are dropped. The files come without "
        "articles, and the published reconstruct_dataset.py stops at the first one: line 62 "
        "unpacks a list into two names. Heed the site's terms. A row without article is dropped.",
    ),
    Difference(
        "pubmedclaim",
        445,
        "The same with ori_pqal.json and test_ground_truth.json: yes and no of the official half "
        "that is not the test set. From pqal_train_dev.json alone, a part is the test set.",
    ),
    Difference(
        "fever",
        None,
        "The paper does not say which FEVER it tests on. Here two files in one set: the FEVER "
        "paper's test split and FeverSymmetric, which carries its evidence.",
        "LoadSettings.readings = {fever: paper_test}",
    ),
)

STAGE_REASONS: Mapping[str, str] = {
    "difficulty": "The rows before it differ, and so may verifier and token counter; the paper's "
    "overlap threshold is unknown.",
    "deduplicated": "The rows before it differ, and so may embedder, duplicate search (here exact, "
    "there MinHash), the test sets on disk and the model that asks the questions.",
    "final": "Budgets per source follow from the rows before; long evidence is added from them.",
}
"""By field of ``PaperCounts`` after ``raw``: why rows differ, whichever source."""


def difference_of(corpus: str) -> Difference | None:
    """The entry of a source or test set; None for a corpus that is not the paper's."""
    return next((one for one in DIFFERENCES if one.corpus == corpus), None)
