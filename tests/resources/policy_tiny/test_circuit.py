"""The circuit that is written into the tiny policy: what its heads look at, and what it gives."""

from dataclasses import replace
from functools import cache
from itertools import islice
from typing import TYPE_CHECKING, NamedTuple

import pytest

from resources.policy_tiny.examples import encoded
from resources.policy_tiny.folder import VIEW
from resources.policy_tiny.tokenizer import CLAIM, EVIDENCE, START, TAGS, train_tokenizer
from resources.policy_tiny.warm_start import WarmStart, _model
from sample.policy_lessons import HELD, MISSING, lessons

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
    """The second time the token to come is far up the list; the first time nobody can know it."""
    wired, plain = seen(seed, wired=True), seen(seed, wired=False)
    assert wired.rank[1] < 0.5 * plain.rank[1]
    assert wired.rank[1] < 0.5 * wired.rank[0]
    for unknown in (wired.rank[0], *plain.rank):
        assert abs(unknown / len(tokenizer()) - 1 / 2) < 0.2


@SEEDS
def test_one_head_looks_one_token_back(seed: int):
    """Nearly all of its attention, at every place; without the circuit it is spread."""
    assert seen(seed, wired=True).back > 0.9
    assert seen(seed, wired=False).back < 0.2


@SEEDS
def test_copying_heads_look_at_what_followed_before(seed: int):
    """Many times what an even spread over so many tokens would give them."""
    assert seen(seed, wired=True).follows > 0.3
    assert seen(seed, wired=False).follows < 0.05


@SEEDS
def test_copying_heads_rest_on_the_opening_token_where_nothing_repeats(seed: int):
    """So a new token is distinguished from one that was read before."""
    new, old = seen(seed, wired=True).rests
    assert new > 0.1
    assert new > 10 * old
    plain_new, _ = seen(seed, wired=False).rests
    assert plain_new < 0.2


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
    """What a fresh model makes of the names in thoughts, over sixty traces.

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
    for head, tail in read()[:60]:
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


@SEEDS
def test_a_head_tells_evidence_from_what_follows(seed: int):
    """It rests on what opens the part of the prompt that was last opened."""
    assert min(sureness(seed, wired=True).parts) > 0.9
    assert max(sureness(seed, wired=False).parts) < 0.2


def test_what_the_evidence_has_is_told_from_what_it_has_not():
    """On the mean of three circuits, before any training, over the length of a prompt and trace."""
    wired, plain = (
        sum(sureness(seed, wired=wired).held for seed in range(3)) / 3 for wired in (True, False)
    )
    assert wired > 0.75
    assert wired > plain + 0.1


def test_the_same_random_state_gives_the_same_circuit():
    """Whoever seeds torch gets the same weights again, and others from another seed."""
    import torch

    first, again, other = (model(seed, wired=True).state_dict() for seed in (0, 0, 1))
    assert all(torch.equal(first[name], again[name]) for name in first)
    assert not torch.equal(first["model.embed_tokens.weight"], other["model.embed_tokens.weight"])
