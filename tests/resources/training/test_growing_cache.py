"""A cache that grows in place gives every bit that transformers' own gives."""

from typing import Any

import pytest
import torch
from transformers import Qwen2Config, Qwen2ForCausalLM

from resources.training.growing_cache import ROOM, grow_in_place

TOKENS = ROOM + 30  # the room is used up once


@pytest.fixture
def model() -> Qwen2ForCausalLM:
    """Two layers with random weights."""
    torch.manual_seed(0)
    config = Qwen2Config(
        vocab_size=61,
        hidden_size=24,
        intermediate_size=32,
        num_hidden_layers=2,
        num_attention_heads=2,
        num_key_value_heads=1,
        max_position_embeddings=512,
        eos_token_id=None,
        pad_token_id=0,
    )
    return Qwen2ForCausalLM(config).eval()


def _generated(model: Qwen2ForCausalLM, **how: object) -> tuple[torch.Tensor, ...]:
    torch.manual_seed(1)
    ids = torch.randint(1, 61, (3, 20))
    mask = torch.ones_like(ids)
    mask[1, :7] = 0
    made: Any = model.generate(
        input_ids=ids,
        attention_mask=mask,
        output_scores=True,
        return_dict_in_generate=True,
        **how,
    )
    return made.sequences, *made.scores


@pytest.mark.parametrize(
    "how",
    [
        {"do_sample": True, "top_k": 0, "max_new_tokens": TOKENS},
        {"num_beams": 3, "do_sample": False, "max_new_tokens": 12},
    ],
    ids=["sampled beyond the room", "beam search, which reorders the cache"],
)
def test_generation_is_the_same_bit_for_bit(model: Qwen2ForCausalLM, how: dict[str, Any]):
    """Tokens and scores, for rows with padding too."""
    plain = _generated(model, **how)
    grow_in_place(model)
    grown = _generated(model, **how)
    assert all(torch.equal(one, other) for one, other in zip(plain, grown, strict=True))


def test_a_token_is_written_into_the_room(model: Qwen2ForCausalLM):
    """The tokens before it are not copied."""
    grow_in_place(model)
    places = set()

    def note(_: object, __: object, named: dict[str, Any]) -> None:
        layer = named["past_key_values"].layers[0]
        if layer.is_initialized:
            places.add(layer.keys.data_ptr())

    model.register_forward_pre_hook(note, with_kwargs=True)
    _generated(model, do_sample=False, max_new_tokens=40)
    assert len(places) == 1


def test_gradients_flow_through_a_cache(model: Qwen2ForCausalLM):
    """A cache that is used while gradients are recorded gives those of transformers."""
    from transformers import DynamicCache

    def gradient() -> torch.Tensor:
        past = DynamicCache(config=model.config)
        torch.manual_seed(2)
        ids = torch.randint(1, 61, (2, 9))
        model.zero_grad()
        model(input_ids=ids[:, :5], past_key_values=past)
        model(input_ids=ids[:, 5:], past_key_values=past).logits.square().sum().backward()
        found = model.get_input_embeddings().weight.grad
        assert found is not None
        return found.clone()

    plain = gradient()
    grow_in_place(model)
    assert torch.equal(plain, gradient())
