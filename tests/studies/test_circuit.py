"""The tiny policy's tokenizer, and the circuit that is written into the model."""

import unicodedata
from dataclasses import replace
from functools import cache
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from decomposerl.traces.grammar import parse_trace
from resources.policy_tiny.folder import END, PAD, START, TAGS, VIEW
from sample.policy_lessons import HELD, MISSING, lessons
from strategies import LAW
from studies.tiny_policy.examples import encoded
from studies.tiny_policy.tokenizer import CLAIM, EVIDENCE, train_tokenizer
from studies.tiny_policy.warm_start import WarmStart, _model

if TYPE_CHECKING:
    from torch import Tensor
    from transformers import PreTrainedTokenizerFast as Tokenizer
    from transformers import Qwen2ForCausalLM


SHAPE = replace(WarmStart(), vocabulary=1_000)
LENGTH = 60
SEEDS = pytest.mark.parametrize("seed", [0, 1, 2])


class Seen(NamedTuple):
    """What a model makes of random tokens that are all said twice, in the same order.

    ``rank`` is the mean number of tokens held for likelier than the one that came, the first
    and the second time; by chance it is half the vocabulary. ``back`` is the attention of head
    0 of layer 0 to the token before. ``follows`` and ``rests`` are that of the copying heads of
    layer 1: the second time to what followed the earlier occurrence, and both times to the
    opening token.
    """

    rank: tuple[float, float]
    back: float
    follows: float
    rests: tuple[float, float]


LESSONS = list(islice(lessons(3, VIEW), 300))


@cache
def tokenizer() -> "Tokenizer":
    """A tokenizer of few tokens, the marks among them; circuits are written around its marks."""
    texts = (f"{one.view}\n{one.trace}" for one in LESSONS)
    return train_tokenizer(texts, SHAPE.vocabulary)


@cache
def read() -> list[tuple[list[int], list[int]]]:
    """The lessons as tokens of prompt and trace."""
    return encoded(LESSONS, tokenizer())


def model(seed: int, *, wired: bool) -> "Qwen2ForCausalLM":
    """A model fresh from the warm start, or one of its shape that nothing was written into."""
    import torch
    from transformers import Qwen2ForCausalLM

    made = _model(replace(SHAPE, seed=seed), tokenizer())
    if not wired:
        torch.manual_seed(seed)
        made = Qwen2ForCausalLM(made.config)
    made.set_attn_implementation("eager")
    return made.eval()


@cache
def plain_tokens() -> "Tensor":
    """Ids of all tokens but special ones and tags."""
    import torch

    marks = {
        *tokenizer().all_special_ids,
        *tokenizer().convert_tokens_to_ids([START, EVIDENCE, CLAIM, *TAGS]),
    }
    return torch.tensor([one for one in range(len(tokenizer())) if one not in marks])


def ranks(logits: "Tensor", tokens: "Tensor", first: int, last: int) -> float:
    """Mean number of tokens that are likelier than those at ``first`` to ``last``."""
    given = logits[:, first - 1 : last - 1]
    came = tokens[:, first:last, None]
    return float((given > given.gather(-1, came)).sum(-1).float().mean())


@cache
def seen(seed: int, *, wired: bool, length: int = LENGTH) -> Seen:
    """Two rows of an opening token and ``length`` different tokens, twice."""
    import torch

    torch.manual_seed(seed + 100)
    opening = torch.tensor(tokenizer().convert_tokens_to_ids([START]))
    drawn = [plain_tokens()[torch.randperm(len(plain_tokens()))[:length]] for _ in range(2)]
    tokens = torch.stack([torch.cat([opening, row, row]) for row in drawn])
    with torch.no_grad():
        given = model(seed, wired=wired)(input_ids=tokens, output_attentions=True)
    back = given.attentions[0][:, 0].diagonal(offset=-1, dim1=-2, dim2=-1)
    copying = given.attentions[1][:, :2]
    second = torch.arange(length + 1, 2 * length)
    return Seen(
        rank=(
            ranks(given.logits, tokens, 2, length + 1),
            ranks(given.logits, tokens, length + 2, 2 * length + 1),
        ),
        back=float(back.mean()),
        follows=float(copying[:, :, second, second - length + 1].mean()),
        rests=(
            float(copying[:, :, 2 : length + 1, 0].mean()),
            float(copying[:, :, length + 1 :, 0].mean()),
        ),
    )


@SEEDS
def test_a_wired_model_continues_what_it_has_read(seed: int):
    """One head looks one token back; copying heads at what followed, or at the opening token."""
    wired, plain = seen(seed, wired=True), seen(seed, wired=False)
    assert wired.rank[1] < 0.5 * plain.rank[1]
    assert wired.rank[1] < 0.5 * wired.rank[0]
    for unknown in (wired.rank[0], *plain.rank):
        assert abs(unknown / len(tokenizer()) - 1 / 2) < 0.2
    assert wired.back > 0.9
    assert plain.back < 0.2
    assert wired.follows > 0.3
    assert plain.follows < 0.05  # an even spread over so many tokens
    new, old = wired.rests
    assert new > 0.1
    assert new > 10 * old
    assert plain.rests[0] < 0.2


def test_distance_does_not_matter():
    """What stood 400 tokens ago is still found: as far as the prompts of the warm start reach."""
    wired, plain = (seen(0, wired=wired, length=400) for wired in (True, False))
    assert wired.back > 0.9
    assert wired.follows > 0.1
    assert plain.follows < 0.01
    assert wired.rank[1] < 0.85 * wired.rank[0]


def foretold(seed: int, *, wired: bool) -> float:
    """Share of the tokens of some traces that the model holds for likeliest."""
    import torch

    policy, right, tokens = model(seed, wired=wired), 0, 0
    for head, tail in read()[:10]:
        with torch.no_grad():
            logits = policy(input_ids=torch.tensor([head + tail])).logits[0]
        right += int((logits[len(head) - 1 : -1].argmax(-1) == torch.tensor(tail)).sum())
        tokens += len(tail)
    return right / tokens


@SEEDS
def test_a_fresh_model_already_copies_in_traces(seed: int):
    """Before any training a quarter of a trace is foretold; without the circuit next to nothing."""
    assert foretold(seed, wired=True) > 0.25
    assert foretold(seed, wired=False) < 0.05


class Sureness(NamedTuple):
    """What a fresh model makes of the names in thoughts, over twenty traces.

    ``parts`` are the attention of head 2 of layer 0 to the token that opens the evidence, within
    it, and to the one that opens the claim, where a mark is due. ``held`` is the chance that a
    thing which the evidence has gets a higher logit of its mark than one that it has not (area
    under the ROC curve).
    """

    parts: tuple[float, float]
    held: float


@cache
def sureness(seed: int, *, wired: bool) -> Sureness:
    """Before any training."""
    import torch
    from sklearn.metrics import roc_auc_score

    evidence, claim = tokenizer().convert_tokens_to_ids([EVIDENCE, CLAIM])
    has, lacks = (tokenizer().encode(f" {mark}")[0] for mark in (HELD, MISSING))
    policy, rests, scores, truths = model(seed, wired=wired), [], [], []
    for head, tail in read()[:20]:
        ids = head + tail
        tokens = torch.tensor(ids)
        with torch.no_grad():
            given = policy(input_ids=tokens[None], output_attentions=True)
        stage, shown = given.attentions[0][0, 2], ids.index(claim) - 1
        for at in (index for index, one in enumerate(ids) if one in {has, lacks}):
            rests.append([float(stage[shown, tokens == evidence].sum())])
            rests[-1].append(float(stage[at - 1, tokens == claim].sum()))
            logits = given.logits[0, at - 1]
            scores.append(float(logits[has] - logits[lacks]))
            truths.append(ids[at] == has)
    within, behind = torch.tensor(rests).mean(0).tolist()
    return Sureness((within, behind), float(roc_auc_score(truths, scores)))


def test_a_head_tells_evidence_from_what_follows():
    """So what the evidence has is told from what it has not, before any training."""
    wired, plain = ([sureness(seed, wired=wired) for seed in range(3)] for wired in (True, False))
    assert min(part for one in wired for part in one.parts) > 0.9
    assert max(part for one in plain for part in one.parts) < 0.2
    told, told_plain = (sum(one.held for one in every) / 3 for every in (wired, plain))
    assert told > 0.75
    assert told > told_plain + 0.1


SOME = list(islice(lessons(3, VIEW), 120))
VOCABULARY = 500
TEXTS = st.text(max_size=60) | st.lists(
    st.sampled_from(
        [*TAGS, "Ilva", " ", "  ", "\n", "\t", "1921", "'s", "é", "e\u0301", "漢", "🙂"]
    )
).map("".join)


@pytest.fixture(scope="module")
def made() -> "Tokenizer":
    return trained()


def trained() -> "Tokenizer":
    return train_tokenizer((f"{one.view}\n{one.claim}\n{one.trace}" for one in SOME), VOCABULARY)


def ids(cutter: "Tokenizer", text: str) -> list[int]:
    return cutter(text, add_special_tokens=False)["input_ids"]


@pytest.fixture(scope="module")
def loaded(made: "Tokenizer", tmp_path_factory: pytest.TempPathFactory) -> "Tokenizer":
    """The tokenizer as transformers reads it from a model's folder, which makes it Qwen2's own."""
    from transformers import AutoTokenizer, Qwen2Config

    folder: Path = tmp_path_factory.mktemp("tokenizer")
    Qwen2Config().save_pretrained(folder)
    made.save_pretrained(folder)
    return AutoTokenizer.from_pretrained(folder)


@pytest.fixture(scope="module", params=["made", "loaded"])
def either(request: pytest.FixtureRequest, made: "Tokenizer", loaded: "Tokenizer") -> "Tokenizer":
    return {"made": made, "loaded": loaded}[request.param]


@LAW
@given(text=TEXTS)
def test_any_text_comes_back_as_it_was(made: "Tokenizer", loaded: "Tokenizer", text: str):
    """Whatever it holds; what is loaded cuts as what was made, accents alone are composed."""
    assert text == made.decode(ids(made, text))
    assert text == made.decode(ids(made, text), skip_special_tokens=True)
    composed = unicodedata.normalize("NFC", text)
    assert ids(made, composed) == ids(loaded, text)
    assert composed == loaded.decode(ids(loaded, text), skip_special_tokens=True)


def test_loading_changes_nothing(made: "Tokenizer", loaded: "Tokenizer"):
    """No token is added, and cuts that lessons do not show are the same; no number is a token."""
    assert made.get_vocab() == loaded.get_vocab()
    assert loaded.unk_token_id in (None, made.pad_token_id)
    for text in ("Table  2.  Brokenn", "Ilva_Torbeck", 'of "Ilva" (1921)', "a\tb"):
        assert ids(made, text) == ids(loaded, text)
    assert 4 == len(ids(made, "1921"))
    learnt = [token for token in made.get_vocab() if sum(map(str.isdecimal, token)) > 1]
    assert [] == learnt


def test_a_tag_is_one_token_that_decoding_shows(either: "Tokenizer"):
    """Between letters too, and no special one; so a decoded completion is the trace."""
    assert len(TAGS) == len(set(TAGS)) == 8
    for tag in TAGS:
        (only,) = ids(either, tag)
        assert only not in either.all_special_ids
        assert [only] == [one for one in ids(either, f"a{tag}b") if one == only]
        assert tag == either.decode([only], skip_special_tokens=True)
    for one in SOME:
        completion = [*ids(either, one.trace), either.eos_token_id, either.pad_token_id]
        text = either.decode(completion, skip_special_tokens=True)
        assert text == one.trace
        assert () == parse_trace(text).faults


def test_the_chat_template_opens_and_ends_every_turn(either: "Tokenizer"):
    """A completion begins with its trace; marks are where a trainer looks for them."""
    turns = [{"role": "user", "content": "Ilva sang.\n\nIlva swam."}]
    closed = f"{START}{turns[0]['content']}{END}"
    assert closed == either.apply_chat_template(turns, tokenize=False)
    asked = either.apply_chat_template(turns, tokenize=False, add_generation_prompt=True)
    assert asked == closed + START
    parts = (START, turns[0]["content"], END, START)
    assert ids(either, asked) == [one for part in parts for one in ids(either, part)]
    assert (PAD, END) == (either.pad_token, either.eos_token)
    assert either.padding_side == "left"
    assert VOCABULARY + len((*TAGS, EVIDENCE, CLAIM)) == len(either)
    assert len({*ids(either, PAD), *ids(either, START), *ids(either, END)}) == 3


def test_the_same_texts_make_the_same_tokenizer(made: "Tokenizer", tmp_path: Path):
    """The checkpoint can be made again byte for byte; another seed has other weights."""
    import torch

    files = []
    for name, one in (("first", made), ("second", trained())):
        one.save_pretrained(tmp_path / name)
        files.append({path.name: path.read_bytes() for path in (tmp_path / name).iterdir()})
    assert "tokenizer.json" in files[0]
    assert files[0] == files[1]
    first, again, other = (model(seed, wired=True).state_dict() for seed in (0, 0, 1))
    assert all(torch.equal(first[name], again[name]) for name in first)
    assert not torch.equal(first["model.embed_tokens.weight"], other["model.embed_tokens.weight"])
