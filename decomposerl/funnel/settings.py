"""Every threshold of the funnel, with the paper's value as its default.

One frozen model per stage; the Dagster configuration classes inherit from these, so the UI,
``--config`` files and the domain share one definition.
"""

from typing import Self

from pydantic import Field, field_validator, model_validator

from decomposerl.kernels.selectors import METHODS, Method
from decomposerl.kernels.set_join import LexicalEngine
from decomposerl.kernels.word_sets import Shingle
from decomposerl.settings import Settings


class RuleSettings(Settings):
    """Stage ``rule_filtered`` (paper, "Rule-Based Filtering" and "NER Grounding")."""

    min_sentences: int = Field(3, ge=0, description="least evidence sentences; tables exempt")
    min_tokens: int = Field(200, ge=0, description="least evidence tokens, inclusive")
    max_tokens: int = Field(10_000, ge=1, description="most evidence tokens, inclusive")
    overlap_filter: bool = Field(default=True, description="whether the overlap step drops")
    max_overlap: float = Field(
        0.9, ge=0, le=1, description="most overlap of the claim with one evidence sentence"
    )
    min_entities: int = Field(2, ge=0, description="least distinct entities in the claim")

    @model_validator(mode="after")
    def _in_order(self) -> Self:
        _ascending("min_tokens", self.min_tokens, "max_tokens", self.max_tokens)
        return self


class DifficultySettings(Settings):
    """Stage ``difficulty_band`` (paper, "Difficulty-Based Filtering")."""

    low: float = Field(0.3, ge=0, le=1, description="least label-aligned confidence, inclusive")
    high: float = Field(0.8, ge=0, le=1, description="most label-aligned confidence, inclusive")

    @model_validator(mode="after")
    def _in_order(self) -> Self:
        _ascending("low", self.low, "high", self.high)
        return self


class TaskSettings(Settings):
    """How large one task of a step over all claims may be."""

    task_memory_mb: int = Field(
        8_000,
        ge=1,
        description="memory of one task; a search that needs more is split into tasks, with the "
        "same result",
    )


class LexicalSettings(TaskSettings):
    """How sets of words are compared, for duplicates and for leaks."""

    lexical_engine: LexicalEngine = Field(
        "auto",
        description="exact join, MinHash candidates verified exactly, or plain MinHash LSH; "
        "auto is the exact join up to candidate_budget, verified MinHash above it; a join that "
        "is split into tasks is exact for auto too",
    )
    candidate_budget: int = Field(
        2_000_000_000, ge=0, description="most candidate pairs, estimated, of the exact join"
    )
    jaccard: float = Field(0.7, gt=0, le=1, description="least Jaccard of a duplicate or a leak")
    shingle: Shingle = Field(
        "word", description="unit of the sets compared: words, or runs of five characters"
    )
    num_perm: int = Field(128, ge=16, description="MinHash permutations")


class DedupSettings(LexicalSettings):
    """Stage ``deduplicated`` (paper, "Deduplication and Decontamination")."""

    cosine: float = Field(0.70, gt=0, le=1, description="least cosine of a semantic duplicate")
    keep_contrastive: bool = Field(
        default=False, description="whether claims of different labels are no duplicates"
    )
    pairs_floor: float | None = Field(
        None,
        gt=0,
        le=1,
        description="keep every pair at least so similar in the pairs table; null for none",
    )
    device: str = Field("cpu", description="where cosines are filtered: cpu, cuda or cuda:0")
    threads: int = Field(0, ge=0, description="threads of the searches; 0 for one a core")

    @model_validator(mode="after")
    def _floor_below_thresholds(self) -> Self:
        lowest = min(self.jaccard, self.cosine)
        if self.pairs_floor is not None and self.pairs_floor > lowest:
            raise ValueError(
                f"pairs_floor ({self.pairs_floor}) is above a threshold ({lowest}): "
                "the pairs could not answer even for this run"
            )
        return self


class DecontaminationSettings(LexicalSettings):
    """Stage ``decontaminated`` (paper, "Deduplication and Decontamination")."""

    cosine: float = Field(0.90, gt=0, le=1, description="least cosine of a semantic leak")
    device: str = Field("cpu", description="where cosines are filtered: cpu, cuda or cuda:0")
    threads: int = Field(0, ge=0, description="threads of the searches; 0 for one a core")


class SilverSettings(Settings):
    """Stage ``silver_decomposed`` (paper, "Silver Decomposition")."""

    min_questions: int = Field(2, ge=1, description="least distinct sub-questions")
    max_questions: int = Field(20, ge=1, description="sub-questions beyond this are cut")

    @model_validator(mode="after")
    def _in_order(self) -> Self:
        _ascending("min_questions", self.min_questions, "max_questions", self.max_questions)
        return self


class SelectionSettings(TaskSettings):
    """Stage ``diversity_selected`` (paper, "Diversity Selection")."""

    budget_per_label: int = Field(2_500, ge=0, description="claims selected per label")
    selector: Method = Field("facility_location", description="how a cell's claims are chosen")
    exact_cell: int = Field(
        23_000,
        ge=1,
        description="claims of the largest cell for the exact greedy; facility location of a "
        "larger one takes the best of a random sample for each pick",
    )
    seed: int = Field(
        42, ge=0, description="seed of the k-means and random selectors, and of the samples"
    )
    threads: int = Field(0, ge=0, description="cells worked on at a time; 0 for one a core")


class SelectorStudySettings(Settings):
    """Study ``study/selectors`` (paper, appendix "Diversity Selector Ablation")."""

    selectors: list[str] = Field(list(METHODS), description="the selectors that are compared")
    budget_per_label: int = Field(
        0,
        ge=0,
        description="claims selected per label; 0: the paper's share of the pool, half per label",
    )
    sample: int = Field(3_000, ge=1, description="claims whose distance to a pick is measured")
    seed: int = Field(42, ge=0, description="seed of the sample; the first of k-means and random")
    seeds: int = Field(5, ge=1, description="runs of k-means and random, each with the next seed")
    threads: int = Field(0, ge=0, description="cells worked on at a time; 0 for one a core")

    @field_validator("selectors")
    @classmethod
    def known(cls, selectors: list[str]) -> list[str]:
        """Refuse a name that is no selector's."""
        if unknown := set(selectors) - {*METHODS}:
            raise ValueError(f"no selector is called {', '.join(sorted(unknown))}")
        return selectors


class TrainingSettings(Settings):
    """Stage ``training_claims`` (paper, "Long-Evidence Augmentation")."""

    long_evidence_tokens: int = Field(
        3_000, ge=0, description="least evidence tokens of an unselected claim that is added"
    )


def _ascending(low_name: str, low: float, high_name: str, high: float) -> None:
    """Refuse bounds that would drop every row with a plausible reason."""
    if low > high:
        raise ValueError(f"{low_name} ({low}) is above {high_name} ({high})")
