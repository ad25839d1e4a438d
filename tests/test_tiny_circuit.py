"""The circuit that is written into the tiny policy: what its heads look at, and what it gives."""

from dataclasses import replace
from functools import cache
from itertools import islice
from typing import TYPE_CHECKING, NamedTuple

import pytest

from decomposerl.sample.policy_lessons import lessons
from resources.embedded.tiny_policy import VIEW, WarmStart, _model
from resources.embedded.tiny_tokenizer import START, TAGS, train_tokenizer

if TYPE_CHECKING:
    from torch import Tensor
    from transformers import PreTrainedTokenizerFast as Tokenizer
    from transformers import Qwen2ForCausalLM

SHAPE = replace(WarmStart(), vocabulary=600)
TOLD = 60
SEEDS = pytest.mark.parametrize("seed", [0, 1, 2])


class Seen(NamedTuple):
    """What a model makes of random tokens that are all said twice, in the same order.

    ``rank`` is the mean number of tokens held for likelier than the one that came, the first
    and the second time; by chance it is half the vocabulary. ``back`` is the attention of head
    0 of layer 0 to the token before. ``follows`` is that of the copying heads of
    layer 1, the second time, to what followed the earlier occurrence.
    """

    rank: tuple[float, float]
    back: float
    follows: float


@cache
def tokenizer() -> "Tokenizer":
    """A tokenizer of few tokens; circuits are written around its marks."""
    return train_tokenizer((one.view for one in islice(lessons(3, VIEW), 60)), SHAPE.vocabulary)


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

    marks = {*tokenizer().all_special_ids, *tokenizer().convert_tokens_to_ids([START, *TAGS])}
    return torch.tensor([one for one in range(len(tokenizer())) if one not in marks])


def ranks(logits: "Tensor", tokens: "Tensor", first: int, last: int) -> float:
    """Mean number of tokens that are likelier than those at ``first`` to ``last``."""
    given = logits[:, first - 1 : last - 1]
    came = tokens[:, first:last, None]
    return float((given > given.gather(-1, came)).sum(-1).float().mean())


@cache
def seen(seed: int, *, wired: bool, told: int = TOLD) -> Seen:
    """Two rows of an opening token and ``told`` different tokens, twice."""
    import torch

    torch.manual_seed(seed + 100)
    opening = torch.tensor(tokenizer().convert_tokens_to_ids([START]))
    drawn = [plain_tokens()[torch.randperm(len(plain_tokens()))[:told]] for _ in range(2)]
    tokens = torch.stack([torch.cat([opening, row, row]) for row in drawn])
    with torch.no_grad():
        given = model(seed, wired=wired)(input_ids=tokens, output_attentions=True)
    back = given.attentions[0][:, 0].diagonal(offset=-1, dim1=-2, dim2=-1)
    copying = given.attentions[1][:, :2]
    second = torch.arange(told + 1, 2 * told)
    return Seen(
        rank=(
            ranks(given.logits, tokens, 2, told + 1),
            ranks(given.logits, tokens, told + 2, 2 * told + 1),
        ),
        back=float(back.mean()),
        follows=float(copying[:, :, second, second - told + 1].mean()),
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


def test_distance_does_not_matter():
    """What stood 400 tokens ago is still found: as far as the prompts of the warm start reach."""
    wired, plain = (seen(0, wired=wired, told=400) for wired in (True, False))
    assert wired.back > 0.9
    assert wired.follows > 0.1
    assert plain.follows < 0.01
    assert wired.rank[1] < 0.85 * wired.rank[0]


def test_the_same_random_state_gives_the_same_circuit():
    """Whoever seeds torch gets the same weights again, and others from another seed."""
    import torch

    first, again, other = (model(seed, wired=True).state_dict() for seed in (0, 0, 1))
    assert all(torch.equal(first[name], again[name]) for name in first)
    assert not torch.equal(first["model.embed_tokens.weight"], other["model.embed_tokens.weight"])
