"""Normal forms: as the standard library's, in linear time."""

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from decomposerl.kernels.text_scan import normalise_claim
from decomposerl.kernels.word_sets import pack_sets
from decomposerl.normal_form import LONGEST_RUN, Form, normalised
from decomposerl.traces.abstention import abstains
from resources.corpora.pages import spellings
from resources.judge.rule_text import clean
from strategies import LAW

FORMS: tuple[Form, ...] = ("NFC", "NFD", "NFKC", "NFKD")
marked = st.text(st.sampled_from("ab \u0301\u0327\u0344\u0f73\u3099가각ﷺé\U0001d15e"), max_size=600)
MARKS = 250_000
RUNS = {
    "alternating": "\u0301\u0327",
    "that decompose": "\u0f73",
    "of two": "\u0344\u0327",
    "of one kind": "\u0301",
    "with a letter now and then": "\u0301\u0327" * 400 + "e",
}


@LAW
@given(st.sampled_from(FORMS), st.text() | marked)
def test_text_without_a_long_run_comes_out_as_from_the_standard_library(form: Form, text: str):
    """And whatever the text, normalising twice changes nothing."""
    found = normalised(form, text)
    assert found == normalised(form, found)
    if len(text) < LONGEST_RUN:
        assert unicodedata.normalize(form, text) == found


@pytest.mark.timeout(120)
@pytest.mark.parametrize("marks", RUNS.values(), ids=RUNS)
def test_half_a_megabyte_of_marks_is_read_by_all_who_normalise(marks: str):
    """The library sorts a run by insertion: on these, a minute or more for each form and reader."""
    text = "War e" + marks * (MARKS // len(marks)) + " ended."
    for form in FORMS:
        assert len(normalised(form, text)) >= MARKS
    assert normalise_claim(text).startswith("war")
    assert pack_sets([text, "war ended"]).starts.size
    assert clean(text).sentences
    assert not abstains(text)
    assert len(set(spellings(text))) >= 2
