"""The cache with room samples what transformers' own does."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import AutoModelForCausalLM
from transformers.cache_utils import DynamicLayer

from resources.policy_tiny.folder import CHECKPOINT
from resources.training.growing_cache import growing_cache, use_growing_cache
from resources.training.train import load_policy
from training_parts import run_of, tiny_policy

TOKENS = 300
"""More than the cache has room for at first."""


@pytest.fixture(scope="module")
def policy() -> Any:  # noqa: ANN401 - transformers'
    return AutoModelForCausalLM.from_pretrained(CHECKPOINT, dtype=torch.float32).eval()


def generated(policy: Any, *, greedy: bool) -> Any:  # noqa: ANN401 - transformers'
    """Tokens and logits after prompts of two lengths, whatever the policy would end with."""
    prompts = torch.arange(3, 35).repeat(2, 1)
    attended = torch.ones_like(prompts)
    attended[0, :9] = 0
    torch.manual_seed(5)
    with torch.no_grad():
        found = policy.generate(
            input_ids=prompts, attention_mask=attended, min_new_tokens=TOKENS, output_logits=True,
            max_new_tokens=TOKENS, do_sample=not greedy, return_dict_in_generate=True,
        )  # fmt: skip
    return found.sequences, torch.stack(found.logits)


@pytest.mark.parametrize("greedy", [True, False])
def test_the_same_tokens_and_logits_to_the_last_bit(policy: Any, greedy: bool):  # noqa: ANN401, FBT001
    """Greedy and sampled, beyond the first room, with a padded prompt."""
    tokens, logits = generated(policy, greedy=greedy)
    roomy = AutoModelForCausalLM.from_pretrained(CHECKPOINT, dtype=torch.float32).eval()
    use_growing_cache(roomy)
    again, close = generated(roomy, greedy=greedy)
    assert 32 + TOKENS == tokens.shape[1]
    assert torch.equal(tokens, again)
    assert torch.equal(logits, close)


def test_a_layer_holds_what_transformers_holds(policy: Any):  # noqa: ANN401
    """Whatever the sizes of the parts, also after a crop; and a token does not move the others."""
    roomy, plain = growing_cache(policy).layers[0], DynamicLayer()
    torch.manual_seed(0)
    moved = 0
    for size in (7, 1, 1, 300, 2, 1, 400):
        parts = torch.randn(2, 2, 3, size, 8)
        before = roomy.keys.data_ptr() if roomy.is_initialized else 0
        held, expected = roomy.update(*parts), plain.update(*parts)
        moved += before != roomy.keys.data_ptr()
        assert all(map(torch.equal, held, expected))
        if size == 2:
            roomy.crop(-3)
            plain.crop(-3)
    assert 3 == moved
    assert plain.get_seq_length() == roomy.get_seq_length()


@pytest.mark.parametrize(("device", "kind"), [("cpu", "GrowingLayer"), ("cuda", "DynamicLayer")])
def test_a_run_on_a_cpu_samples_with_it(tmp_path: Path, device: str, kind: str):
    """On a card, where it was not tried, transformers' own stays."""
    run = replace(run_of(tmp_path / "run", tiny_policy(tmp_path / "base")), device=device)
    found = load_policy(run).model.generate(
        torch.tensor([[3, 4]]), max_new_tokens=2, return_dict_in_generate=True
    )
    assert {kind} == {type(one).__name__ for one in found.past_key_values.layers}
