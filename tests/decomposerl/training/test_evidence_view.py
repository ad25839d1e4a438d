"""The evidence view: which sentences a small policy reads in place of the document."""

from dataclasses import replace
from itertools import product
from pathlib import Path

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from decomposerl.claims.passages import table_passages
from decomposerl.kernels.text_scan import sentences
from decomposerl.training.evidence_view import evidence_view
from decomposerl.training.experiment import EvidenceView
from resources.training.data import training_prompts
from resources.training.process import TrainingRun
from strategies import LAW, VOCABULARY, any_text, claim_text, passages
from studies.tiny_policy.tokenizer import train_tokenizer
from training_parts import run_of

ENTITIES = frozenset({"Ilva", "Torbeck", "1921", "Ösk"})
VIEWS = st.integers(1, 6).map(EvidenceView)
DOCUMENTS = st.lists(passages.map(" ".join), max_size=4).map("\n".join) | any_text
SENTENCES = st.lists(st.sampled_from(VOCABULARY), min_size=1, max_size=6).map(
    lambda drawn: "so " + " ".join(drawn) + "."  # no word gets a capital from its place
)


def seen(claim: str, evidence: str, most: int) -> list[str]:
    """The lines of a view."""
    return evidence_view(claim, evidence, EvidenceView(most)).splitlines()


def entities(text: str) -> set[str]:
    """Those of the vocabulary's entities that stand in a text."""
    return ENTITIES & set(text.removesuffix(".").split())


@LAW
@given(claim_text | st.just(""), DOCUMENTS, VIEWS)
def test_a_view_is_sentences_of_the_evidence_in_its_order(
    claim: str, evidence: str, view: EvidenceView
):
    """Whole ones, no more than set, none where there is no evidence; a view of it is itself."""
    once = evidence_view(claim, evidence, view)
    lines = once.split("\n") if evidence.strip() else []
    rest = iter(sentences(evidence))
    assert all(line in rest for line in lines)
    assert len(lines) <= view.most_sentences
    assert bool(evidence.strip()) == bool(once)
    assert once == evidence_view(claim, evidence, view) == evidence_view(claim, once, view)


@LAW
@given(claim_text, DOCUMENTS, st.integers(1, 5))
def test_a_wider_view_holds_the_narrower(claim: str, evidence: str, most: int):
    """Room for one more sentence takes none away."""
    wider = iter(seen(claim, evidence, most + 1))
    assert all(line in wider for line in seen(claim, evidence, most))


@LAW
@given(SENTENCES, st.lists(SENTENCES, min_size=1, max_size=8), st.integers(1, 4))
def test_sentences_that_share_an_entity_come_first(claim: str, document: list[str], most: int):
    """All of them where there is room, none besides them; where none shares one, one alone."""
    sharing = [line for line in document if entities(claim) & entities(line)]
    lines = seen(claim, "\n".join(document), most)
    assert len(lines) == min(most, max(1, len(sharing)))
    assert not sharing or all(line in sharing for line in lines)


@LAW
@given(st.integers(2, 6), st.integers(0, 6), st.integers(1, 3))
def test_the_sentence_with_the_rare_name_comes_in(common: int, index: int, most: int):
    """Of all that share the claim's common name, the one that also has its rare name is shown."""
    document = [f"Torbeck has a bridge of kind {kind}." for kind in "abcdef"[:common]]
    document.insert(index, "It was Ilva who closed the mill.")
    assert document[min(index, common)] in seen(
        "Ilva opened it near Torbeck.", "\n".join(document), most
    )


@LAW
@given(st.permutations(["Ilva", "Torbeck", "1921", "Ösk"]), st.integers(1, 4))
def test_the_order_is_the_documents_whatever_weighs_more(names: list[str], most: int):
    """Lines are read as they follow each other in the text, not as they were ranked."""
    document = [f"so {name} was {'here ' * index}again." for index, name in enumerate(names)]
    document.insert(2, f"so {names[3]} and {names[0]} met.")
    lines = seen(f"Did Torbeck and {names[3]} meet Ilva in 1921 at Ösk?", "\n".join(document), most)
    assert lines == [line for line in document if line in lines]
    assert len(lines) == most


def test_an_entity_weighs_twice_a_plain_word():
    """Of two sentences that share a name, the one that shares another name, not another word."""
    document = ["Ilva has green paint.", "Ilva met Torbeck."]
    assert document[1:] == seen("Ilva gave Torbeck something green.", "\n".join(document), 1)
    assert document[:1] == seen("Ilva gave torbeck something green.", "\n".join(document), 1)


def test_an_entity_has_a_capital_or_a_digit_in_both_texts():
    """Names and numbers count where both write them so; a word that opens a sentence does not."""
    document = ["Bridges are old.", "The river has 1921 fish.", "ilva is a word.", "See Ilva."]
    assert document[1:2] == seen("In 1921 bridges fell.", "\n".join(document), 3)
    assert document[3:] == seen("Ilva fell.", "\n".join(document), 3)


def test_between_namesakes_plain_words_decide_and_then_the_order():
    """The first five letters of the other words count; ties go to the earlier sentence."""
    document = ["Ilva owns a mill.", "Ilva sponsored a race.", "Ilva sold a boat."]
    assert document[1:2] == seen("Ilva sponsors it.", "\n".join(document), 1)
    document = ["Ilva sang.", "Ilva swam.", "Ilva slept."]
    assert document[:2] == seen("Ilva won.", "\n".join(document), 2)
    assert document[:1] == seen("Nobody won.", "\n".join(document), 2)
    assert document[:1] == seen("", "\n".join(document), 2)


def test_rows_of_a_table_are_sentences():
    """Rows come whole, with their cells, those that name what the claim names."""
    rows = [("Vexford", 12, 3), ("Haim", 9, 4), ("Brill", 12, 8), ("Osk", 7, 7)]
    lines = table_passages("Results of the league", ("Team", "Won", "Lost"), rows)
    shown = {
        "Osk lost more games than Vexford.": ["Vexford | 12 | 3", "Osk | 7 | 7"],
        "Two teams won 12 games.": ["Vexford | 12 | 3", "Brill | 12 | 8"],
    }
    assert shown == {claim: seen(claim, "\n".join(lines), 3) for claim in shown}


def test_a_view_of_nothing_is_refused():
    """No setting hides all evidence from a policy, not even for a document without any."""
    for most, evidence in product((0, -1), ("Ilva sang.", "")):
        with pytest.raises(ValueError, match=f"most_sentences.*{most}"):
            evidence_view("Ilva sang.", evidence, EvidenceView(most))


def test_a_prompt_does_not_depend_on_the_label(tmp_path: Path):
    """The policy is shown the view, the same under both labels; rewards keep the whole text."""
    run = with_view(run_of(tmp_path / "run", tmp_path), 1)
    claims = pl.read_parquet(run.claims).with_columns(
        claim=pl.lit("Ilva was in Torbeck."),
        evidence=pl.lit("The river is old.\nIlva swam.\nIlva saw Torbeck."),
        n_star=pl.int_range(pl.len(), dtype=pl.Int64),
    )
    claims.write_parquet(run.claims)
    assert {"Supported", "Refuted"} == set(claims["label"])
    tokenizer = train_tokenizer(["Ilva saw Torbeck."], 300)
    rows = training_prompts(run, tokenizer).rows
    assert len(rows) == claims.height
    assert {row["prompt"][0]["content"] for row in rows} == {rows[0]["prompt"][0]["content"]}
    assert "Ilva saw Torbeck." in rows[0]["prompt"][0]["content"]
    assert "Ilva swam." not in rows[0]["prompt"][0]["content"]
    assert {row["evidence"] for row in rows} == {claims["evidence"][0]}


def with_view(run: TrainingRun, most: int) -> TrainingRun:
    """The run with a view and room for its prompts."""
    sampling = replace(run.experiment.sampling, max_prompt_tokens=9_000)
    experiment = replace(run.experiment, sampling=sampling, evidence_view=EvidenceView(most))
    return replace(run, experiment=experiment)
