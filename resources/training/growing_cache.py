"""A cache of keys and values that grows in place while a model on a processor generates.

transformers copies the whole cache for each token: for the tiny policy a third of the time of a
rollout. Here each layer keeps spare room behind its last token, and a token is written into it.
Attention reads the same numbers in the same order, so that every bit of the result is the same.
"""

from functools import cache
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import torch

ROOM = 256
"""Tokens of spare room; when it is used up a layer is copied, with as much room again."""


def grow_in_place(model: "torch.nn.Module") -> None:
    """Let ``model`` generate with such a cache wherever transformers gives it a plain new one."""
    model.register_forward_pre_hook(_with_room, with_kwargs=True)


def _with_room(
    _: "torch.nn.Module", args: tuple[Any, ...], named: dict[str, Any]
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    from transformers.cache_utils import DynamicLayer

    layers = getattr(named.get("past_key_values"), "layers", [])
    if all(type(one) is DynamicLayer and not one.is_initialized for one in layers):
        layers[:] = [_growing_layer()() for _ in layers]
    return args, named


@cache
def _growing_layer() -> type[Any]:
    import torch
    from transformers.cache_utils import DynamicLayer

    class GrowingLayer(DynamicLayer):  # type: ignore[no-untyped-call] # of transformers
        """Shapes (batch, heads, tokens, width); ``keys`` and ``values`` are views of the room."""

        rooms: tuple[torch.Tensor | None, torch.Tensor | None] = (None, None)

        def update(
            self,
            key_states: torch.Tensor,
            value_states: torch.Tensor,
            *args: object,
            **named: object,
        ) -> tuple[torch.Tensor, torch.Tensor]:
            """Append; with gradients or on another device as transformers does it."""
            if torch.is_grad_enabled() or key_states.device.type != "cpu":
                return super().update(key_states, value_states, *args, **named)
            if not self.is_initialized:
                self.lazy_initialization(key_states, value_states)
            start = self.get_seq_length()
            keys = _appended(self.rooms[0], self.keys, key_states, start)
            values = _appended(self.rooms[1], self.values, value_states, start)
            self.rooms = keys, values
            end = start + key_states.shape[-2]
            self.keys, self.values = keys[:, :, :end], values[:, :, :end]
            return self.keys, self.values

    return GrowingLayer


def _appended(
    room: "torch.Tensor | None", kept: "torch.Tensor | None", new: "torch.Tensor", start: int
) -> "torch.Tensor":
    """The room with ``new`` behind its first ``start`` tokens, ``kept``."""
    end = start + new.shape[-2]
    # Beam search and the like put other tensors in the place of the views.
    same = room is not None and kept is not None and kept.data_ptr() == room.data_ptr()
    if room is None or not same or end > room.shape[-2]:
        room = new.new_empty(*new.shape[:2], end + ROOM, new.shape[-1])
        if start and kept is not None:
            room[:, :, :start] = kept
    room[:, :, start:end] = new
    return room
