"""Copying heads, written into the first two layers of the tiny policy before it learns.

A verifier quotes, and quoting takes an induction circuit: a head of layer 0 that tells each
token which one stood before it, and heads of layer 1 that look for the place where the present
token stood before and give what followed it there (Olsson et al., 2022, "In-context Learning
and Induction Heads"). A model of this size needs thousands of steps to find that circuit by
itself; written down it is there at once, and the warm start only refines it.

How: queries and keys have biases in this architecture, and rotary positions turn biases into a
function of distance alone, so a bias on the fast rotations attends one token back. Contents are
compared on the slow rotations, which hardly turn within a thousand tokens.

Left out deliberately: everything that has to be learnt (what to quote, and what follows).
"""

import math
from typing import Any

_FAST = 0.06
"""Radians a token above which a rotation is used for distances, below for contents."""
_BACK = 10.0
"""Attention score of the token before, over that of one in no relation."""
_MATCH = 2.2
"""Scale of queries and keys that are compared by content."""
_EMBEDDING, _LOGITS, _WRITES = 0.5, 0.3, 0.3
"""Standard deviation of embeddings, scale of the last norm, share that other parts write."""
_TOLD, _COPIED = 0.6, 0.8
"""How strongly the earlier token, and the token to copy, are written."""


def wire_copying(model: Any) -> None:  # noqa: ANN401 - a transformers model
    """Write the circuit into a fresh Qwen2 of two layers or more and two heads or more.

    Uses torch's global random state for the subspaces.
    """
    import torch

    config = model.config
    width = config.hidden_size // config.num_attention_heads
    turns = config.rope_parameters["rope_theta"] ** (-torch.arange(0, width, 2) / width)
    with torch.no_grad():
        _quieten(model)
        slow = [place for place, turn in enumerate(turns.tolist()) if turn <= _FAST]
        axes = [*slow, *(place + width // 2 for place in slow)]
        now, before = (_subspace(len(axes), config.hidden_size) for _ in range(2))
        _wire_previous(model.model.layers[0].self_attn, width, turns, now, before)
        _wire_induction(model.model.layers[1].self_attn, width, axes, now, before)


def _quieten(model: Any) -> None:  # noqa: ANN401 - as above
    """Large embeddings and small writes, so that the circuit's signals stand out."""
    model.model.embed_tokens.weight.normal_(0, _EMBEDDING)
    model.model.norm.weight.fill_(_LOGITS)
    for layer in model.model.layers:
        layer.self_attn.o_proj.weight.mul_(_WRITES)
        layer.mlp.down_proj.weight.mul_(_WRITES)


def _subspace(rows: int, columns: int) -> Any:  # noqa: ANN401 - a tensor
    """Orthonormal rows, shape (rows, columns)."""
    import torch

    return torch.linalg.qr(torch.randn(columns, rows))[0].T


def _wire_previous(attention: Any, width: int, turns: Any, now: Any, before: Any) -> None:  # noqa: ANN401 - tensors
    """Head 0 attends one token back and writes that token's ``now`` into ``before``."""
    import torch

    head, half = slice(0, width), width // 2
    strength = math.sqrt(_BACK * math.sqrt(width))
    query, key = torch.zeros(width), torch.zeros(width)
    for place, turn in enumerate(turns.tolist()):
        if turn > _FAST:
            key[place] = strength
            query[place] = strength * math.cos(turn)
            query[place + half] = -strength * math.sin(turn)
    attention.q_proj.weight[head], attention.k_proj.weight[head] = 0, 0
    attention.q_proj.bias[head], attention.k_proj.bias[head] = query, key
    _read(attention, head, now)
    attention.o_proj.weight[:, head] = 0
    attention.o_proj.weight[:, : len(now)] = before.T * _TOLD


def _wire_induction(attention: Any, width: int, axes: list[int], now: Any, before: Any) -> None:  # noqa: ANN401 - tensors
    """Heads 0 and 1 look where ``before`` is the present token, and copy what stands there."""
    import torch

    hidden = now.shape[1]
    copied = _subspace(2 * width, hidden)
    for place in (0, 1):
        head = slice(place * width, (place + 1) * width)
        query, key = torch.zeros(width, hidden), torch.zeros(width, hidden)
        query[axes], key[axes] = now * _MATCH, before * _MATCH
        attention.q_proj.weight[head], attention.k_proj.weight[head] = query, key
        attention.q_proj.bias[head], attention.k_proj.bias[head] = 0, 0
        _read(attention, head, copied[head])
        attention.o_proj.weight[:, head] = copied[head].T * _COPIED


def _read(attention: Any, head: slice, what: Any) -> None:  # noqa: ANN401 - tensors
    """Let a head's values be the coordinates of ``what``."""
    attention.v_proj.weight[head], attention.v_proj.bias[head] = 0, 0
    attention.v_proj.weight[head.start : head.start + len(what)] = what
