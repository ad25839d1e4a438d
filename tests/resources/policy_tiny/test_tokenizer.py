"""The tiny policy's tokenizer: nothing is lost, and tags are tokens that stay visible."""

import unicodedata
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from decomposerl.traces.grammar import parse_trace
from resources.policy_tiny.folder import VIEW
from resources.policy_tiny.tokenizer import (
    CLAIM,
    END,
    EVIDENCE,
    PAD,
    START,
    TAGS,
    train_tokenizer,
)
from sample.policy_lessons import lessons
from strategies import LAW

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerFast as Tokenizer

SOME = list(islice(lessons(3, VIEW), 120))
VOCABULARY = 500
TEXTS = st.text(max_size=60) | st.lists(
    st.sampled_from(
        [*TAGS, "Ilva", " ", "  ", "\n", "\t", "1921", "'s", "é", "e\u0301", "漢", "🙂"]
    )
).map("".join)


@pytest.fixture(scope="module")
def tokenizer() -> "Tokenizer":
    return train_tokenizer((f"{one.view}\n{one.claim}\n{one.trace}" for one in SOME), VOCABULARY)


def ids(tokenizer: "Tokenizer", text: str) -> list[int]:
    return tokenizer(text, add_special_tokens=False)["input_ids"]


@pytest.fixture(scope="module")
def loaded(tokenizer: "Tokenizer", tmp_path_factory: pytest.TempPathFactory) -> "Tokenizer":
    """The tokenizer as transformers reads it from a model's folder, which makes it Qwen2's own."""
    from transformers import AutoTokenizer, Qwen2Config

    folder: Path = tmp_path_factory.mktemp("tokenizer")
    Qwen2Config().save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return AutoTokenizer.from_pretrained(folder)


@pytest.fixture(scope="module", params=["made", "loaded"])
def either(
    request: pytest.FixtureRequest, tokenizer: "Tokenizer", loaded: "Tokenizer"
) -> "Tokenizer":
    return {"made": tokenizer, "loaded": loaded}[request.param]


@LAW
@given(text=TEXTS)
def test_any_text_comes_back_as_it_was(tokenizer: "Tokenizer", text: str):
    """Scripts, accents, spaces, line breaks and tags that no lesson ever held."""
    assert text == tokenizer.decode(ids(tokenizer, text))
    assert text == tokenizer.decode(ids(tokenizer, text), skip_special_tokens=True)


@LAW
@given(text=TEXTS)
def test_what_is_loaded_cuts_as_what_was_made(
    tokenizer: "Tokenizer", loaded: "Tokenizer", text: str
):
    """The warm start and the training see the same tokens; accents alone are composed."""
    composed = unicodedata.normalize("NFC", text)
    assert ids(tokenizer, composed) == ids(loaded, text)
    assert composed == loaded.decode(ids(loaded, text), skip_special_tokens=True)


def test_loading_adds_no_token(tokenizer: "Tokenizer", loaded: "Tokenizer"):
    """A token more than the model has embeddings for would end a run."""
    assert tokenizer.get_vocab() == loaded.get_vocab()
    assert loaded.unk_token_id in (None, tokenizer.pad_token_id)


@pytest.mark.parametrize("text", ["Table  2.  Brokenn", "Ilva_Torbeck", 'of "Ilva" (1921)', "a\tb"])
def test_cuts_that_lessons_do_not_show(tokenizer: "Tokenizer", loaded: "Tokenizer", text: str):
    """Double spaces and marks between words are cut the same as well."""
    assert ids(tokenizer, text) == ids(loaded, text)


def test_a_tag_is_one_token_that_decoding_shows(either: "Tokenizer"):
    """A tag stays a token of its own between letters, and is none of the special ones."""
    assert len(TAGS) == len(set(TAGS)) == 8
    for tag in TAGS:
        (only,) = ids(either, tag)
        assert only not in either.all_special_ids
        assert [only] == [one for one in ids(either, f"a{tag}b") if one == only]
        assert tag == either.decode([only], skip_special_tokens=True)


def test_a_decoded_trace_reads_as_it_was_written(either: "Tokenizer"):
    """Without its special tokens a completion is the trace, and its parts are all there."""
    for one in SOME:
        completion = [*ids(either, one.trace), either.eos_token_id, either.pad_token_id]
        text = either.decode(completion, skip_special_tokens=True)
        assert text == one.trace
        assert () == parse_trace(text).faults


def test_the_chat_template_opens_and_ends_every_turn(either: "Tokenizer"):
    """The generation prompt is the opening mark alone, so a completion begins with its trace."""
    turns = [{"role": "user", "content": "Ilva sang.\n\nIlva swam."}]
    closed = f"{START}{turns[0]['content']}{END}"
    assert closed == either.apply_chat_template(turns, tokenize=False)
    asked = either.apply_chat_template(turns, tokenize=False, add_generation_prompt=True)
    assert asked == closed + START
    assert ids(either, asked) == [
        *ids(either, START),
        *ids(either, turns[0]["content"]),
        *ids(either, END),
        *ids(either, START),
    ]


def test_marks_are_where_a_trainer_looks_for_them(either: "Tokenizer"):
    """Padding stands on the left, and is not what ends a trace."""
    assert (PAD, END) == (either.pad_token, either.eos_token)
    assert either.padding_side == "left"
    assert VOCABULARY + len((*TAGS, EVIDENCE, CLAIM)) == len(either)
    assert len({*ids(either, PAD), *ids(either, START), *ids(either, END)}) == 3


def test_digits_are_read_one_by_one(tokenizer: "Tokenizer"):
    """No number is a token, so that every number can be quoted."""
    assert 4 == len(ids(tokenizer, "1921"))
    learnt = [token for token in tokenizer.get_vocab() if sum(map(str.isdecimal, token)) > 1]
    assert [] == learnt


def test_the_same_texts_make_the_same_tokenizer(tokenizer: "Tokenizer", tmp_path: Path):
    """The checkpoint can be made again byte for byte."""
    again = train_tokenizer((f"{one.view}\n{one.claim}\n{one.trace}" for one in SOME), VOCABULARY)
    for name, made in (("first", tokenizer), ("second", again)):
        made.save_pretrained(tmp_path / name)
    files = {path.name for path in (tmp_path / "first").iterdir()}
    assert "tokenizer.json" in files
    for name in files:
        assert (tmp_path / "first" / name).read_bytes() == (tmp_path / "second" / name).read_bytes()
