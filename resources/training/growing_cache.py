"""Faster sampling on a CPU: a cache of keys and values with room for further tokens.

transformers' own copies all earlier keys and values at every token, which took up to half of the
time in which a tiny policy samples. This one copies them once in ``_ROOM`` tokens. Attention reads
the same numbers in the same order, so that the same tokens are sampled.
"""

from functools import cache
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import torch
    from transformers import DynamicCache, PreTrainedModel
    from transformers.cache_utils import DynamicLayer

_ROOM = 256


def use_growing_cache(model: "PreTrainedModel") -> None:
    """Let ``model.generate`` use such a cache where none is passed to it; not for beam search."""
    known: Any = model
    plain = known.generate

    def generate(*values: Any, **named: Any) -> Any:  # noqa: ANN401 - transformers'
        return plain(*values, **({"past_key_values": growing_cache(model)} | named))

    known.generate = generate


def growing_cache(model: "PreTrainedModel") -> "DynamicCache":
    """An empty cache for one generation; layers of another kind stay as transformers makes them."""
    from transformers import DynamicCache
    from transformers.cache_utils import DynamicLayer

    made = DynamicCache(config=model.config.get_text_config(decoder=True))
    made.layers = [_layer()() if type(one) is DynamicLayer else one for one in made.layers]
    return made


@cache
def _layer() -> "type[DynamicLayer]":
    """The class of a layer, whose base takes seconds to import."""
    from transformers.cache_utils import DynamicLayer

    class GrowingLayer(DynamicLayer):  # type: ignore[no-untyped-call] # as transformers has it
        """``keys`` and ``values`` are the first tokens of buffers that have room for more."""

        def __init__(self) -> None:
            super().__init__()  # type: ignore[no-untyped-call] # as transformers has it
            self._buffers: list[torch.Tensor] = []

        def update(
            self, key_states: "torch.Tensor", value_states: "torch.Tensor", *_: object, **__: object
        ) -> tuple["torch.Tensor", "torch.Tensor"]:
            """Append the states of new tokens, (batch, heads, tokens, width); returns all."""
            known, states = self.get_seq_length(), (key_states, value_states)
            if not self.is_initialized:
                self.lazy_initialization(*states)
                self._buffers = [one[..., :0, :] for one in states]
            tokens = known + key_states.shape[-2]
            if tokens > self._buffers[0].shape[-2]:
                self._buffers = [_with_room(one, known, tokens) for one in self._buffers]
            for buffer, new in zip(self._buffers, states, strict=True):
                buffer[..., known:tokens, :] = new
            self.keys, self.values = (buffer[..., :tokens, :] for buffer in self._buffers)
            return self.keys, self.values

    return GrowingLayer


def _with_room(buffer: "torch.Tensor", known: int, tokens: int) -> "torch.Tensor":
    """A larger buffer with the same first tokens."""
    *before, _, width = buffer.shape
    larger = buffer.new_empty((*before, tokens + _ROOM, width))
    larger[..., :known, :] = buffer[..., :known, :]
    return larger
