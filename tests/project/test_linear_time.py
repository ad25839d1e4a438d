"""Hostile text costs time that grows with its length: a law of all that reads outside text.

Corpora, evidence, claims and model replies are anybody's. A reader whose time grows with the square
of a run of dots or brackets would stop a run of the funnel, a reward server or training.
"""

import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import partial
from itertools import count
from typing import get_args

import pytest

from decomposerl.baselines.catalogue import METHODS
from decomposerl.baselines.method import ClaimInput, ModelReply, Procedure
from decomposerl.baselines.program import read_program
from decomposerl.claims import passages
from decomposerl.claims.generic import native_text
from decomposerl.claims.records import delimited_records, json_records, jsonl_records
from decomposerl.errors import DecomposeRLError
from decomposerl.kernels.text_scan import best_overlap, content_words, normalise_claim
from decomposerl.kernels.unspaced import count_words
from decomposerl.kernels.word_sets import pack_sets
from decomposerl.normal_form import normalised
from decomposerl.printable import printable, printable_json
from decomposerl.prompts.escape import escaped
from decomposerl.prompts.silver import read_questions
from decomposerl.prompts.template import placeholders_of
from decomposerl.replies import lines, lists
from decomposerl.replies.abstention import abstains
from decomposerl.replies.answers import (
    answer_text,
    read_step,
    read_truth,
    read_verdict,
    says_nothing,
    says_unknown,
)
from decomposerl.replies.json_lines import without_json
from decomposerl.replies.languages import in_english
from decomposerl.replies.predicates import read_predicates, read_truths
from decomposerl.replies.rulings import Form, read_ruling
from decomposerl.reports.report_page import table_html
from decomposerl.reports.tables import markdown_table
from decomposerl.reports.trace_page.details import evidence_json
from decomposerl.text.clauses import checks_of
from decomposerl.text.numbers import lists_more
from decomposerl.text.sentences import split_sentences
from decomposerl.text.words import parse
from decomposerl.traces.grammar import parse_trace
from decomposerl.traces.grounding import grounded_answer, quotations, quotes
from decomposerl.traces.records import json_object, safe_name
from decomposerl.training.evidence_view import evidence_view
from decomposerl.training.experiment import EvidenceView
from resources.corpora.page_build import title_key
from resources.corpora.pages import spellings
from resources.corpora.text_search import passages_of
from resources.decomposer.rule_engine import questions_of
from resources.entities.rule_engine import RuleEntities
from resources.judge.rule_judge import answerable, atomicity, clean, correct, verdict
from resources.verifier.chunks import chunks, words
from resources.verifier.evidence_match import match

Reader = Callable[[str], object]
TEXT = "Ada Brown was born in Odense in 1937. She won the cup, and nobody else did."
ASKED = "Where was Ada Brown born?"
SHAPES: Mapping[str, str] = {
    "dots": ".",
    "marks": "!…?",
    "brackets": "([{",
    "quotes": "\"'“",
    "tags": "<question>",
    "pairs of tags": "<answer>a</answer>",
    "digits": "1",
    "spaces": " ",
    "lines": "- a\n\n",
    "rows": "|a|b|\n",
    "commas": "a, ",
    "combining marks": "\u0301\u0327",
    "marks that decompose": "\u0f73",
    "marks and a letter": "\u0301\u0327" * 400 + "e",
    "CJK": "字。",
    "letters and dots": "a.",
    "names": "Ab of Cd. ",
    "questions": "Is it not so? ",
    "terms": "two cell ",
    "JSON": '{"a": [',
}
SHORT, LONGEST = 4_000, 250_000
FLOOR_S, TRIES, MOST = 0.005, 3, 2.5
_number = count()


def drive(procedure: Procedure, reply: str) -> None:
    """A method whose model always says the same."""
    steps, replies = procedure(ClaimInput(TEXT, TEXT, (TEXT,))), None
    with suppress(StopIteration):
        for _ in range(30):
            calls = steps.send(replies)
            replies = [ModelReply(reply) for _ in calls]


def readers() -> dict[str, Reader]:
    """What reads outside text, by name; a function of two texts has one entry for each."""
    alone: tuple[Reader, ...] = (
        *(split_sentences, parse, checks_of, content_words, normalise_claim, count_words),
        *(passages.sentence_passages, passages.without_links, passages.without_treebank),
        *(passages.without_entities, passages.with_entities, native_text, title_key, printable),
        *(printable_json, json_object, safe_name, quotations),
        *(abstains, answer_text, read_truth, says_unknown, says_nothing, without_json, in_english),
        *(lines.one_line, lines.spoken, lines.plain_text, lines.lines_of, lines.bare),
        *(lists.read_list, lists.read_items, lists.read_question, lists.says_none),
        *(
            lists.says_no_more,
            lists.read_pairs,
            read_predicates,
            read_step,
            read_verdict,
            read_program,
        ),
        *(read_questions, escaped),
        *(placeholders_of, parse_trace, evidence_json, clean, questions_of),
    )
    named = {f"{reader.__module__}.{reader.__name__}": reader for reader in alone}
    methods = {
        f"{method.name} {protocol}": lambda text, run=procedure: drive(run, text)
        for method in METHODS
        for protocol, procedure in method.procedures.items()
    }
    judge = {form: partial(read_ruling, form=form) for form in get_args(Form)}
    return named | judge | methods | of_two_texts() | of_files()


def of_two_texts() -> dict[str, Reader]:
    view = EvidenceView(most_sentences=3)
    return {
        "lists_more, statement": lambda text: lists_more(text, TEXT),
        "lists_more, text": lambda text: lists_more(TEXT, text),
        "read_numbers": lambda text: lists.read_numbers(text, 5),
        "read_truths": lambda text: read_truths(text, ["Born(Ada)"]),
        "best_overlap, claim": lambda text: best_overlap(text, TEXT),
        "best_overlap, evidence": lambda text: best_overlap(TEXT, text),
        "quotes, answer": lambda text: list(quotes(text, TEXT)),
        "quotes, evidence": lambda text: list(quotes(TEXT, text)),
        "grounded_answer, question": lambda text: grounded_answer(text, TEXT, TEXT),
        "grounded_answer, answer": lambda text: grounded_answer(ASKED, text, TEXT),
        "grounded_answer, evidence": lambda text: grounded_answer(ASKED, TEXT, text),
        "grounded_answer, both": lambda text: grounded_answer(ASKED, text, text),
        "verdict, claim": lambda text: verdict(text, [TEXT]),
        "verdict, answer": lambda text: verdict(TEXT, [text]),
        "answerable, document": lambda text: answerable(text, ASKED),
        "answerable, question": lambda text: answerable(TEXT, text),
        "correct, answer": lambda text: correct(TEXT, ASKED, text),
        "atomicity, claim": lambda text: atomicity(text, ASKED),
        "atomicity, question": lambda text: atomicity(TEXT, text),
        "match, evidence": lambda text: match(text, TEXT),
        "match, claim": lambda text: match(TEXT, text),
        "evidence_view, claim": lambda text: evidence_view(text, TEXT, view),
        "evidence_view, evidence": lambda text: evidence_view(TEXT, text, view),
        "normalised": lambda text: [normalised(form, text) for form in ("NFC", "NFKD")],
        "pack_sets": lambda text: pack_sets([text]),
    }


def of_files() -> dict[str, Reader]:
    entities = RuleEntities()
    return {
        "entities": lambda text: entities.entities([text]),
        "chunks": lambda text: chunks(text, 300, words),
        "passages of a text": lambda text: [*passages_of(text)],
        "spellings of a title": lambda text: [*spellings(text)],
        "JSON": lambda text: [*json_records("a.json", text.encode())],
        "lines of JSON": lambda text: [*jsonl_records("a.jsonl", text.encode().splitlines())],
        "rows": lambda text: [*delimited_records("a.csv", [text.encode()], ",")],
        "a cell of a report": lambda text: table_html(markdown_table(["a"], [[text]])),
    }


def seconds(reader: Reader, unit: str, length: int) -> float:
    """Processor time for this repetition; no two texts are equal, as some readers remember."""
    text = f"{unit * (length // len(unit))} {next(_number)}"
    started = time.process_time()
    with suppress(ValueError, DecomposeRLError):
        reader(text)
    return time.process_time() - started


def growth(reader: Reader, unit: str) -> float:
    """How many times the time is for twice the text, where it is long enough to be measured.

    A busy machine and its caches disturb some measurements: these are made again, on longer texts.
    """
    length, double = SHORT, 0.0
    while length < LONGEST and (double := seconds(reader, unit, 2 * length)) < FLOOR_S:
        length *= 4
    ratio = double / seconds(reader, unit, length) if double >= FLOOR_S else 1.0
    for _ in range(TRIES):
        if ratio > MOST:
            length *= 2
            sizes = (2 * length, length)
            double, single = (min(seconds(reader, unit, size) for _ in range(3)) for size in sizes)
            ratio = double / single
    return ratio


@pytest.mark.parametrize("name", READERS := readers())
def test_twice_the_text_takes_at_most_two_and_a_half_times_as_long(name: str):
    """Whatever is repeated."""
    seconds(READERS[name], TEXT, SHORT)  # tables are built at the first text
    slow = {shape: growth(READERS[name], unit) for shape, unit in SHAPES.items()}
    assert {} == {shape: ratio for shape, ratio in slow.items() if ratio > MOST}
