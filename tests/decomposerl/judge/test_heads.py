"""The heads of the tiny judge: what they read and give, and the examples that teach them."""

from dataclasses import replace
from itertools import product
from typing import get_args

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from decomposerl.errors import TrainingError
from decomposerl.judge.call import JudgeCall, Ruling, Task
from decomposerl.judge.distillation import (
    HEADS,
    DistillationSettings,
    RuledCall,
    example_counts,
    head_examples,
    heads_of,
    judge_examples,
    published_text,
    ruling_of,
    texts_of,
)
from decomposerl.replies.rulings import CRITERIA
from decomposerl.schemas import VERDICTS
from judge_parts import SPLIT, WordJudge, examples, rollouts, ruled

VALUES = {
    "answerability": st.booleans(),
    "correctness": st.booleans(),
    "atomicity": st.tuples(*[st.booleans()] * len(CRITERIA)),
    "coverage": st.sampled_from(VERDICTS),
}


@given(st.sampled_from(get_args(Task)).flatmap(lambda t: st.tuples(st.just(t), VALUES[t])))
def test_the_heads_of_a_task_state_its_ruling(drawn: tuple[Task, object]):
    """Taken apart into classes and put together again, every ruling is itself."""
    task, value = drawn
    ruling = Ruling(value)  # type: ignore[arg-type]
    labels = [head.label(ruling.text or "") for head in heads_of(task)]
    assert ruling == ruling_of(labels)
    assert all(label in head.classes for head, label in zip(heads_of(task), labels, strict=True))


def test_a_head_reads_all_of_a_call():
    """Every field is in one of two texts, the long one in the second; or in one, as published."""
    call = JudgeCall("correctness", "the document", "", "the question?", ("the answer",))
    assert ("the question?\nthe answer", "the document") == texts_of(call)
    coverage = JudgeCall("coverage", claim="the claim", answers=("first\nline", "second"))
    assert ("the claim", "first line\nsecond") == texts_of(coverage)
    assert ("q", "d") == texts_of(JudgeCall("answerability", "d", question="q"))
    assert ("q", "c") == texts_of(JudgeCall("atomicity", claim="c", question="q"))
    assert "Document: d\nQuestion: q\nAnswer: a\nb" == published_text("correctness", "q\na\nb", "d")
    assert "Document: d\nQuestion: q" == published_text("answerability", "q", "d")
    assert "Claim: c\nQuestion: q" == published_text("atomicity", "q", "c")
    assert "Claim: c\nAnswers:\n- a\n- b" == published_text("coverage", "c", "a\nb")


def about(claim: str, document: str, number: int = 0, ruling: str = "1") -> RuledCall:
    call = JudgeCall("answerability", document, question=f"{claim} {number}?")
    return RuledCall(call, ruling, claim, claim, document)


@given(
    st.lists(st.tuples(st.integers(0, 12), st.integers(0, 12)), min_size=1, max_size=30),
    st.integers(0, 5),
)
def test_no_document_and_no_claim_is_on_two_sides(links: list[tuple[int, int]], seed: int):
    """Also where a claim has several documents, a document several claims, and so on."""
    pairs = [(f"claim {claim}", f"document {document}") for claim, document in links]
    settings = DistillationSettings(test_share=0.4, dev_share=0.3, seed=seed)
    made = judge_examples([about(*pair) for pair in pairs], "t", settings)
    sides = made.select("claim_id", "context", "split", "document").unique()
    for side in ("claim_id", "context"):
        by = sides.group_by(side).agg(pl.n_unique("split"), names=pl.n_unique("document"))
        assert {1} == {*by["split"], *by["names"]}


def test_the_split_of_a_document_stays_when_others_come():
    """More claims of other documents move none: agreement of two trainings is on the same side."""
    few = [about(f"claim {n}", f"document {n}") for n in range(20)]
    more = [*few, *(about(f"claim {n}", f"document {n}") for n in range(20, 60))]
    first, second = (judge_examples(calls, "t", SPLIT) for calls in (few, more))
    joined = first.join(second, on=("head", "call_key"), suffix="_2")
    assert first.height == joined.height
    assert joined["split"].equals(joined["split_2"].rename("split"))


@given(st.integers(0, 200), st.integers(2, 6))
def test_dev_has_each_class_that_two_training_documents_hold(seed: int, rare: int):
    """Otherwise a constant head is the best over dev; its documents move whole, test stays."""
    kinds = product(range(40), (0, 1))
    calls = [about(f"claim {n}", f"document {n}", of, "10"[n < rare and not of]) for n, of in kinds]
    settings = DistillationSettings(test_share=0.2, dev_share=0.05, seed=seed, most_dev=10)
    made = judge_examples(calls, "t", settings)
    same = judge_examples([replace(one, ruling="1") for one in calls], "t", settings)
    sides = made.filter(label="0")["split"].to_list()
    if sides.count("train") + sides.count("dev") > 1:
        assert sides.count("dev") >= 1
    assert {1} == {*made.group_by("document").agg(pl.n_unique("split"))["split"]}
    first, second = (one.filter(split="test")["call_key"] for one in (made, same))
    assert first.equals(second)
    dev = made.filter("selected", split="dev")
    assert 10 >= dev.height
    assert min(sides.count("dev"), 5) == dev.filter(label="0").height


@given(st.lists(st.sets(st.sampled_from(VERDICTS), min_size=1), min_size=2, max_size=6))
def test_no_class_loses_its_last_training_document_to_dev(held: list[set[str]]):
    """Also where a document that moves for one class is one of two that hold another."""
    named = [(str(n), of) for n, verdicts in enumerate(held) for of in verdicts]
    asked = [JudgeCall("coverage", claim=f"{n} {of}", answers=("a",)) for n, of in named]
    calls = [RuledCall(call, of, n, n, n) for call, (n, of) in zip(asked, named, strict=True)]
    made = judge_examples(calls, "t", DistillationSettings(test_share=1e-9, dev_share=1e-9))
    assert {*made["label"]} == {*made.filter(split="train")["label"]}
    for label in {*made["label"]}:
        of = made.filter(label=label)
        others = of.join(made.filter(pl.col("label") != label), on="document", how="anti")
        if others["document"].n_unique() > 1:
            assert "dev" in of["split"], "it has a document to spare"


@pytest.mark.parametrize("limit", [0, 9])
def test_every_class_is_learned_equally_often(limit: int):
    """Rarer ones by repeating, at most eight times; ``per_class`` limits them all."""
    calls = [about(f"claim {n}", f"document {n}", 0, "01"[n % 25 > 0]) for n in range(400)]
    calls += [one for one in ruled(WordJudge(), rollouts()) if one.call.task != "answerability"]
    made = judge_examples(calls, "t", SPLIT.model_copy(update={"per_class": limit}))
    head = HEADS[5]
    found = head_examples(made, head, 2)
    counts = dict(found.train["label"].value_counts().iter_rows())
    rare = made.filter(head=head.name, split="train", label="0").height
    assert counts["0"] == counts["1"] == (limit or 8 * rare)
    assert {True} == {*found.train["selected"], *found.dev["selected"]}
    assert not found.train["document"].is_in(found.dev["document"].implode()).any()


def test_the_picks_of_a_class_come_from_many_documents():
    """One document with most of the rulings does not fill a small training set."""
    many = [about("long", "one document", n, "1") for n in range(300)]
    one_each = [about(f"claim {n}", f"document {n}", 0, str(n % 2)) for n in range(300)]
    settings = DistillationSettings(test_share=0.01, dev_share=0.01, per_class=40)
    train = judge_examples([*many, *one_each], "t", settings).filter("selected", split="train")
    assert 40 == train.filter(label="1")["document"].n_unique()


def test_a_head_whose_rulings_are_all_the_same_is_constant():
    """Where a class is too rare to learn; a head without any ruling is refused."""
    calls = [about(f"claim {n}", f"document {n}", 0, "0" if n == 7 else "1") for n in range(90)]
    made = judge_examples(calls, "t", SPLIT)
    found = head_examples(made, HEADS[5], 8)
    assert ("1", 0) == (found.constant, found.train.height)
    with pytest.raises(TrainingError, match="coverage"):
        head_examples(made, HEADS[7], 8)


def test_examples_are_counted_by_head_class_and_split():
    """Every row is in one cell; the same rulings give the same examples."""
    made = examples()
    counts = example_counts(made)
    assert made.height == counts["rows"].sum()
    assert {"words:1"} == set(made["teacher"])
    calls = ruled(WordJudge(), rollouts())
    assert made.equals(judge_examples([*calls, *calls], "words:1", SPLIT))
