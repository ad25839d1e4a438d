"""What each stage finds of what the sample's generator planted, held against floors.

The rules, exact and near duplicates must be found without a miss; paraphrases and leaks by
paraphrase to 0.9; difficulty and silver to 0.8. Recall counts the planted claims that
reached the stage; precision counts the dropped ones. Duplicates are judged by group: of an
original and its copy one leaves, whichever comes second. The examples of
docs/explanation/funnel.md and the table of docs/explanation/sample.md are checked here, too.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import polars as pl
import pytest
import yaml

from decomposerl.claims.catalogue import BENCHMARKS, SOURCES, benchmark_of, source_of
from decomposerl.claims.load import LoadSettings, load_benchmark, load_source
from decomposerl.funnel import catalogue, settings
from decomposerl.funnel.step import StageResult
from project import ROOT
from resources.corpora.folder import FolderCorpora
from resources.decomposer.rule_engine import RuleDecomposer
from resources.embedder.resource import EmbedderResource
from resources.entities.rule_engine import RuleEntities
from resources.tokens.word_tokens import WordTokens
from resources.verifier.lexical import LexicalVerifier
from sample import Sample
from toy_corpus import write_sample

PARAPHRASE_FLOOR = 0.9
ENGINE_FLOOR = 0.8


@dataclass(frozen=True)
class Stage:
    """One stage's input and drops, with the answer key's columns beside them."""

    entered: pl.DataFrame
    dropped: pl.DataFrame
    kept: pl.DataFrame

    def recall(self, *kinds: str) -> float:
        """Share of the entered claims of some kinds that this stage dropped."""
        planned = self.entered.filter(pl.col("kind").is_in(kinds))
        gone = planned.join(self.dropped, on="claim_id", how="semi")
        return gone.height / planned.height

    def precision(self, reasons: Iterable[str], kinds: Iterable[str]) -> float:
        """Share of the claims dropped for some reasons that are of the planted kinds."""
        gone = self.dropped.filter(pl.col("reason").is_in(list(reasons)))
        return gone["kind"].is_in(list(kinds)).sum() / gone.height

    def settled(self, kind: str) -> float:
        """Share of the groups of one kind with both members entered that lose one of them."""
        groups = self.entered.filter(pl.col("kind") == kind)["group"]
        members = self.entered.filter(pl.col("group").is_in(groups.implode()))
        alive = members.with_columns(
            left=pl.col("claim_id").is_in(self.dropped["claim_id"].implode())
        )
        pairs = (
            alive.group_by("group").agg(pl.len(), pl.col("left").sum()).filter(pl.col("len") == 2)
        )
        return (pairs["left"] >= 1).sum() / pairs.height

    def in_pairs(self, reason: str) -> float:
        """Share of the claims dropped for a reason that are of a planted pair."""
        pairs = self.entered.filter(pl.col("kind").str.starts_with("duplicate"))["group"]
        gone = self.dropped.filter(pl.col("reason") == reason)["group"]
        found = gone.is_in(pairs.implode()).fill_null(value=False)
        return int(found.sum()) / gone.len()


@pytest.fixture(scope="module")
def stages(
    sample: Sample, sample_results: Path, tmp_path_factory: pytest.TempPathFactory
) -> dict[str, Stage]:
    """The sample through the funnel, from the rules to the silver questions."""
    claims, tests = _read(write_sample(sample, tmp_path_factory.mktemp("sample")))
    planted = sample.answer_key.filter(~pl.col("kind").is_in(["benchmark", "reject"]))
    minilm = EmbedderResource(results_dir=str(sample_results)).open()
    results: dict[str, StageResult] = {}
    frames = {"rule_filtered": claims}

    def keep(name: str, following: str, result: StageResult) -> pl.DataFrame:
        results[name], frames[following] = result, result.kept
        return result.kept

    ruled = catalogue.rule_filter(claims, settings.RuleSettings(), WordTokens(), RuleEntities())
    frame = keep("rule_filtered", "difficulty_band", ruled)
    band = catalogue.difficulty_band(frame, settings.DifficultySettings(), LexicalVerifier())
    frame = keep("difficulty_band", "deduplicated", band)
    unique = catalogue.deduplicate(frame, settings.DedupSettings(), minilm)
    frame = keep("deduplicated", "decontaminated", unique)
    clean = catalogue.decontaminate(frame, tests, settings.DecontaminationSettings(), minilm)
    frame = keep("decontaminated", "silver_decomposed", clean)
    silver = catalogue.silver_decompose(frame, settings.SilverSettings(), RuleDecomposer())
    frame = keep("silver_decomposed", "training_claims", silver)
    demo = yaml.safe_load((ROOT / "configs/demo.yaml").read_text("utf-8"))
    budget = settings.SelectionSettings(**demo["ops"]["diversity_selected"]["config"])
    chosen = catalogue.select_diverse(frame, budget, minilm).kept
    whole = catalogue.assemble_training(frame, chosen, settings.TrainingSettings(), WordTokens())
    keep("training_claims", "", whole)
    return {name: _stage(frames[name], result, planted) for name, result in results.items()}


def _read(root: Path) -> tuple[pl.DataFrame, pl.DataFrame]:
    files, terms = FolderCorpora(root), LoadSettings()
    sources = [load_source(one, benchmark_of(one), files, terms).claims for one in SOURCES]
    tests = [load_benchmark(one, source_of(one), files, terms).claims for one in BENCHMARKS]
    return pl.concat(sources), pl.concat(tests)


def _stage(frame: pl.DataFrame, result: StageResult, planted: pl.DataFrame) -> Stage:
    marked = frame.select("claim_id", "source", "native_id", "label", "claim").join(
        planted, on=["source", "native_id"], how="left"
    )
    dropped = result.drops.select("claim_id", "reason", "value").join(marked, on="claim_id")
    return Stage(marked, dropped, result.kept)


RULES = {
    "too_few_passages": "few_sentences",
    "too_few_tokens": "few_tokens",
    "too_many_tokens": "many_tokens",
    "paraphrased_evidence": "overlap",
    "too_few_entities": "no_entities",
}


@pytest.mark.parametrize(("reason", "kind"), RULES.items())
def test_rules_find_all_they_should_and_nothing_else(
    stages: dict[str, Stage], reason: str, kind: str
):
    """Recall and precision of each rule are 1."""
    stage = stages["rule_filtered"]
    planted = set(stage.entered.filter(pl.col("kind") == kind)["claim_id"])
    assert planted == set(stage.dropped.filter(pl.col("reason") == reason)["claim_id"])


@pytest.mark.parametrize(
    ("reason", "kind"), [("too_easy", "easy"), ("likely_mislabelled", "mislabelled")]
)
def test_difficulty_finds_easy_and_mislabelled_claims(
    stages: dict[str, Stage], reason: str, kind: str
):
    """Recall and precision at each end of the band are at least 0.8."""
    stage = stages["difficulty_band"]
    assert stage.recall(kind) >= ENGINE_FLOOR
    assert stage.precision([reason], [kind]) >= ENGINE_FLOOR


@pytest.mark.parametrize(
    ("kind", "floor"),
    [
        ("duplicate_exact", 1.0),
        ("duplicate_near", 1.0),
        ("duplicate_paraphrase", PARAPHRASE_FLOOR),
    ],
)
def test_one_of_each_pair_of_duplicates_leaves(stages: dict[str, Stage], kind: str, floor: float):
    """An original and its copy never both stay."""
    assert stages["deduplicated"].settled(kind) >= floor


@pytest.mark.parametrize(
    ("reason", "floor"), [("lexical_duplicate", 1.0), ("semantic_duplicate", PARAPHRASE_FLOOR)]
)
def test_claims_that_leave_as_duplicates_are_duplicates(
    stages: dict[str, Stage], reason: str, floor: float
):
    """Hardly a claim leaves as a duplicate without a planted twin in the stage."""
    assert stages["deduplicated"].in_pairs(reason) >= floor


@pytest.mark.parametrize(
    ("kind", "floor"),
    [("leak_exact", 1.0), ("leak_near", 1.0), ("leak_paraphrase", PARAPHRASE_FLOOR)],
)
def test_leaked_test_claims_leave(stages: dict[str, Stage], kind: str, floor: float):
    """Copies of test claims that reach the stage do not survive it."""
    assert stages["decontaminated"].recall(kind) >= floor


@pytest.mark.parametrize(
    ("reason", "floor"),
    [("exact_match", 1.0), ("lexical_match", 1.0), ("semantic_match", PARAPHRASE_FLOOR)],
)
def test_claims_that_leave_as_leaks_are_leaks(stages: dict[str, Stage], reason: str, floor: float):
    """Hardly a claim leaves as a leak that was not copied from a test set."""
    kinds = ("leak_exact", "leak_near", "leak_paraphrase")
    assert stages["decontaminated"].precision([reason], kinds) >= floor


def test_claims_of_one_question_leave(stages: dict[str, Stage]):
    """Recall and precision of the silver step are at least 0.8."""
    stage = stages["silver_decomposed"]
    assert stage.recall("one_question") >= ENGINE_FLOOR
    assert stage.precision(["too_few_questions"], ["one_question"]) >= ENGINE_FLOOR


def test_most_ordinary_claims_survive(stages: dict[str, Stage]):
    """A funnel that drops everything has perfect recall; this one keeps what is good."""
    entered = stages["rule_filtered"].entered.filter(pl.col("kind") == "ordinary").height
    last = stages["silver_decomposed"]
    left = last.entered.join(last.dropped, on="claim_id", how="anti")
    assert left.filter(pl.col("kind") == "ordinary").height >= 0.8 * entered


PAGE = " ".join((ROOT / "docs/explanation/funnel.md").read_text("utf-8").split())
EXAMPLE = r": `([0-9a-f]{8})` “([^”]+)”(?: \(([\d.,]+)\))?"


def matches(text: str, claim: str) -> bool:
    """Whether the page quotes this claim; a quotation that ends in … is its beginning."""
    return claim.startswith(text[:-2]) if text.endswith(" …") else claim == text


@pytest.mark.parametrize(
    ("reason", "start", "text", "value"), re.findall(r"`(\w+)`" + EXAMPLE, PAGE)
)
def test_the_page_on_the_funnel_shows_what_was_dropped(
    stages: dict[str, Stage], reason: str, start: str, text: str, value: str
):
    """Each example has the printed id, claim, reason and value."""
    dropped = pl.concat(
        one.dropped.select("claim_id", "claim", "reason", "value") for one in stages.values()
    )
    (row,) = dropped.filter(pl.col("claim_id").str.starts_with(start)).rows(named=True)
    assert row["reason"] == reason
    assert matches(text, row["claim"])
    digits = len(value.partition(".")[2])
    assert not value or f"{row['value']:,.{digits}f}" == value


def test_the_page_on_the_funnel_has_an_example_of_each_reason(stages: dict[str, Stage]):
    """And of claims that stay: one through all stages, with its numbers, and three more."""
    reasons = {one for stage in stages.values() for one in stage.dropped["reason"]}
    assert reasons == {found[0] for found in re.findall(r"`(\w+)`" + EXAMPLE, PAGE)}
    claims = stages["training_claims"].kept
    (row,) = claims.filter(pl.col("claim_id").str.starts_with("ad1c711c")).rows(named=True)
    numbers = (len(row["passages"]), row["evidence_tokens"], f"{row['overlap']:.2f}")
    numbers += (len(row["entities"]), f"{row['label_confidence']:.2f}", row["n_star"])
    assert [str(one) for one in numbers] == re.findall(r"Kept: ([\d.]*\d)", PAGE)
    assert f"“{row['claim']}”" in PAGE
    assert (3, "Kept: the fourth pick" in PAGE) == (row["selection_rank"], True)
    kept = stages["deduplicated"].kept.select("claim_id", "claim", "evidence_tokens")
    for start, text, tokens in re.findall("Kept" + EXAMPLE, PAGE):
        (one,) = kept.filter(pl.col("claim_id").str.starts_with(start)).rows(named=True)
        assert matches(text, one["claim"])
        assert tokens in {"", f"{one['evidence_tokens']:,}"}


LEAKS = {
    "exact_match": "leak_exact",
    "lexical_match": "leak_near",
    "semantic_match": "leak_paraphrase",
}
KINDS: dict[str, tuple[str, ...]] = {reason: (kind,) for reason, kind in (RULES | LEAKS).items()}
KINDS |= {"too_easy": ("easy",), "likely_mislabelled": ("mislabelled",)}
KINDS |= {"lexical_duplicate": ("duplicate_exact", "duplicate_near")}
KINDS |= {"semantic_duplicate": ("duplicate_paraphrase",), "too_few_questions": ("one_question",)}
SAMPLE = (ROOT / "docs/explanation/sample.md").read_text("utf-8")
ROWS = re.findall(r"\| (\d+) \| `(\w+)` \| ([\d.]+) \| ([\d.]+) \|", SAMPLE)


@pytest.mark.parametrize("reason", KINDS)
def test_the_page_on_the_sample_has_what_is_measured(stages: dict[str, Stage], reason: str):
    """Planted rows, recall and precision of each reason, by the measures of the tests above."""
    kinds = KINDS[reason]
    stage = next(one for one in stages.values() if reason in set(one.dropped["reason"]))
    if "duplicate" in reason:
        shares = [min(stage.settled(kind) for kind in kinds), stage.in_pairs(reason)]
    else:
        right = LEAKS.values() if reason in LEAKS else kinds
        shares = [stage.recall(*kinds), stage.precision([reason], right)]
    planted = stages["rule_filtered"].entered["kind"].is_in(kinds).sum()
    assert (str(planted), reason, *(f"{share:.2f}" for share in shares)) in ROWS
