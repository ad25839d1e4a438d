"""An induction circuit, written into the tiny policy before training.

A verifier splits a claim and notices what the evidence lacks. Both need an induction circuit
(Olsson et al., 2022, "In-context Learning and Induction Heads"):

- Layer 0: two heads write the two preceding tokens to each position, one marks the evidence.
- Layer 1: heads find an earlier occurrence of the current token and give its successor. The first
  also compares the preceding token, and copies. The second prefers matches in the evidence, and
  writes whether there was one.
- Layer 2: two heads read that flag where a yes or no is due.

A model of this size needs thousands of steps to learn such a circuit. Written in, it works roughly
at once, and the warm start refines it.

Queries and keys have biases in this architecture, and rotary embeddings make them a function of
distance alone: a bias on fast rotations attends one token back. Contents are compared on slow
rotations, which hardly turn within a thousand tokens.
"""

import math
from dataclasses import dataclass
from typing import Any

from decomposerl.errors import ConfigError
from resources.policy_tiny.folder import START
from sample.policy_lessons import HELD, MISSING
from studies.tiny_policy.tokenizer import CLAIM, EVIDENCE

_MARKED = (START, EVIDENCE, CLAIM, f" {HELD}", f" {MISSING}")
"""The tokens that steer the circuit."""
_FAST = 0.004
"""Radians per token: faster rotations serve distances, slower ones contents."""
_BACK = 10.0
"""Attention score of the token at the target distance."""
_COMPARED, _CONTEXT = 20, 0.3
"""Dimensions of compared contents, and the weight of the preceding token."""
_MATCH, _REST = 2.6, 4.0
"""Scales of queries and keys: for compared contents, and for the opening token as the default."""
_EMBEDDING, _MARK, _LOGITS, _WRITES = 0.5, 3.0, 0.3, 0.1
"""Standard deviation of embeddings, scale of marks, of the last norm, and of all other writes."""
_EARLIER, _COPIED, _FLAG, _HELD = 0.4, 0.8, 0.2, 1.6
"""Write scales of earlier tokens, the token to copy, the evidence flag, the flag of a match."""
_AFTER, _PREFERRED = 2.8, 6.0
"""Scales of attention to the marks, and to matches in the evidence."""
_SPOKEN, _SURE, _MIDDLE = 3.0, 1.0, 1.5
"""Scale of the two marks along ``sure``; write scale of ``sure``, and its offset."""
_MARKS = 6
"""Number of directions for marks and flags."""
_RESUMES = 2
"""The head that continues after a mark."""


@dataclass(frozen=True, slots=True)
class _Directions:
    """Orthonormal directions of the residual stream, one per row.

    ``now``, ``before`` and ``earlier`` have the content of the current token and the two preceding
    ones. ``opening``, ``evidence`` and ``claim`` mark the tokens that open a prompt and its two
    parts, ``shown`` the tokens of the evidence, ``held`` tokens that also occur there. ``sure``
    says that the thing just named is in the evidence. ``content`` is the space of embeddings.
    """

    now: Any
    before: Any
    earlier: Any
    opening: Any
    evidence: Any
    claim: Any
    shown: Any
    held: Any
    sure: Any
    content: Any


@dataclass(frozen=True, slots=True)
class Words:
    """Token ids that the circuit needs.

    They open a prompt, its evidence and its claim, or mark what the evidence contains (``held``)
    and lacks (``missing``).
    """

    opening: int
    evidence: int
    claim: int
    held: int
    missing: int


def wire_copying(model: Any, words: Words) -> None:  # noqa: ANN401 - a transformers model
    """Write the circuit into a fresh Qwen2 of three layers and three heads or more.

    Uses torch's global random state for the directions.
    """
    import torch

    config = model.config
    width = config.hidden_size // config.num_attention_heads
    turns = config.rope_parameters["rope_theta"] ** (-torch.arange(0, width, 2) / width)
    slow = [axis for axis, turn in enumerate(turns.tolist()) if turn <= _FAST]
    rest, compared = slow[-1], slow[:-1]
    axes = [*compared, *(axis + width // 2 for axis in compared)][:_COMPARED]
    with torch.no_grad():
        directions = _directions(config.hidden_size, len(axes))
        _scale_down(model, directions)
        _mark(model.model.embed_tokens.weight, words, directions)
        first, second, third = (layer.self_attn for layer in model.model.layers[:3])
        for number, (distance, into) in enumerate(
            ((1, directions.before), (2, directions.earlier))
        ):
            head = slice(number * width, (number + 1) * width)
            _wire_distance(first, head, turns, distance)
            _carry(first, head, directions.now, into * _EARLIER)
        _wire_evidence(first, slice(2 * width, 3 * width), rest, directions)
        _wire_induction(second, width, (axes, rest), directions)
        _wire_sureness(third, width, turns, directions)


def _directions(hidden: int, compared: int) -> _Directions:
    import torch

    rows = torch.linalg.qr(torch.randn(hidden, hidden))[0].T
    sizes = [compared, compared, *[1] * _MARKS, hidden - 2 * compared - _MARKS]
    before, earlier, *marks, content = rows.split(sizes)
    opening, evidence, claim, shown, held, sure = marks
    return _Directions(
        now=content[:compared],
        before=before,
        earlier=earlier,
        opening=opening,
        evidence=evidence,
        claim=claim,
        shown=shown,
        held=held,
        sure=sure,
        content=content,
    )


def _scale_down(model: Any, directions: _Directions) -> None:  # noqa: ANN401 - as above
    """Make embeddings large and writes small, so that the circuit's signals dominate."""
    table = model.model.embed_tokens.weight
    table.normal_(0, _EMBEDDING)
    table.copy_(table @ directions.content.T @ directions.content)
    contents = table @ directions.now.T
    # The same length for every token, so that every match counts the same.
    factor = _EMBEDDING * len(directions.now) ** 0.5 / contents.norm(dim=1, keepdim=True)
    table += (factor - 1) * contents @ directions.now
    model.model.norm.weight.fill_(_LOGITS)
    for layer in model.model.layers:
        layer.self_attn.o_proj.weight.mul_(_WRITES)
        layer.mlp.down_proj.weight.mul_(_WRITES)


def _mark(table: Any, words: Words, directions: _Directions) -> None:  # noqa: ANN401 - as above
    """Add the marks to the tokens that steer the circuit."""
    table[words.opening] += _MARK * directions.opening[0]
    table[words.evidence] += _MARK * directions.evidence[0]
    table[words.claim] += _MARK * directions.claim[0]
    table[words.held] += _SPOKEN * directions.sure[0]
    table[words.missing] -= _SPOKEN * directions.sure[0]


def _wire_distance(attention: Any, head: slice, turns: Any, distance: int) -> None:  # noqa: ANN401 - tensors
    """Make a head attend ``distance`` tokens back, whatever their content."""
    import torch

    width = head.stop - head.start
    strength = math.sqrt(_BACK * math.sqrt(width))
    query, key = torch.zeros(width), torch.zeros(width)
    for axis, turn in enumerate(turns.tolist()):
        if turn > _FAST:
            key[axis] = strength
            query[axis] = strength * math.cos(turn * distance)
            query[axis + width // 2] = -strength * math.sin(turn * distance)
    attention.q_proj.weight[head], attention.k_proj.weight[head] = 0, 0
    attention.q_proj.bias[head], attention.k_proj.bias[head] = query, key


def _wire_evidence(attention: Any, head: slice, rest: int, directions: _Directions) -> None:  # noqa: ANN401 - tensors
    """Make a head attend to the evidence's opening up to the claim's, and write a flag."""
    sought = directions.opening[0] + 2 * directions.evidence[0] + 3 * directions.claim[0]
    attention.q_proj.weight[head], attention.k_proj.weight[head] = 0, 0
    attention.q_proj.bias[head], attention.k_proj.bias[head] = 0, 0
    attention.q_proj.bias[head.start + rest] = _AFTER
    attention.k_proj.weight[head.start + rest] = _AFTER * sought
    _carry(attention, head, directions.evidence, directions.shown * _FLAG)


def _wire_sureness(attention: Any, width: int, turns: Any, directions: _Directions) -> None:  # noqa: ANN401 - tensors
    """Make heads 0 and 1 read ``held`` of the current and the preceding token.

    They write ``sure``, positive where it is set and negative where not.
    """
    for number in (0, 1):
        head = slice(number * width, (number + 1) * width)
        _wire_distance(attention, head, turns, number)
        _carry(attention, head, directions.held, directions.sure * _SURE)
        attention.v_proj.bias[head.start] = -_MIDDLE


def _wire_induction(
    attention: Any,  # noqa: ANN401 - a module
    width: int,
    axes: tuple[list[int], int],
    directions: _Directions,
) -> None:
    """Make heads find an earlier occurrence of the current token and copy its successor.

    Head 0 matches positions where ``before`` is the current token and ``earlier`` the preceding
    one. Head 1 matches ``before`` only, prefers the evidence, and writes ``held`` for a match
    there. Head 2 matches the preceding token: after a mark it continues the text before the mark.
    Without a match all attend to the opening token.
    """
    import torch

    compared, rest = axes
    hidden = directions.now.shape[1]
    turned = _subspace(len(compared), len(compared)) * _CONTEXT
    for number in range(3):
        context = turned * (1, 0, 1)[number]
        present, past = (directions.now, directions.before / _EARLIER)
        if number == _RESUMES:
            present, past = (directions.before / _EARLIER, directions.earlier / _EARLIER)
        head = slice(number * width, (number + 1) * width)
        query, key = torch.zeros(width, hidden), torch.zeros(width, hidden)
        query[compared] = (present + context @ past) * _MATCH
        key[compared] = (directions.before + context @ directions.earlier) / _EARLIER * _MATCH
        key[rest] = directions.opening[0] * _REST + (number == 1) * directions.shown[0] * _PREFERRED
        attention.q_proj.weight[head], attention.k_proj.weight[head] = query, key
        attention.q_proj.bias[head], attention.k_proj.bias[head] = 0, 0
        attention.q_proj.bias[head.start + rest] = _REST
        first = min(number, 1) * (width - 1)
        read = directions.content[first : first + width - 1]
        written = read * _COPIED
        if number == 1:
            read = torch.cat([read, directions.shown])
            written = torch.cat([written, directions.held * _HELD])
        _carry(attention, head, read, written)


def _subspace(rows: int, columns: int) -> Any:  # noqa: ANN401 - a tensor
    """Orthonormal rows, shape (rows, columns)."""
    import torch

    return torch.linalg.qr(torch.randn(columns, rows))[0].T


def _carry(attention: Any, head: slice, read: Any, written: Any) -> None:  # noqa: ANN401 - tensors
    """Make a head write, row by row, along ``written`` the values it reads along ``read``."""
    attention.v_proj.weight[head], attention.v_proj.bias[head] = 0, 0
    attention.v_proj.weight[head.start : head.start + len(read)] = read
    attention.o_proj.weight[:, head] = 0
    attention.o_proj.weight[:, head.start : head.start + len(read)] = written.T


def words_of(tokenizer: Any) -> Words:  # noqa: ANN401 - a transformers tokenizer
    """The ids that the circuit needs.

    Raises:
        ConfigError: the vocabulary is too small: a mark is not one token.
    """
    pieces = {mark: tokenizer.encode(mark, add_special_tokens=False) for mark in _MARKED}
    if several := [mark.strip() for mark, ids in pieces.items() if len(ids) > 1]:
        marks = " and ".join(several)
        raise ConfigError(f"a vocabulary of {len(tokenizer)} is too small: no token for {marks}")
    opening, evidence, claim, held, missing = (ids[0] for ids in pieces.values())
    return Words(opening=opening, evidence=evidence, claim=claim, held=held, missing=missing)
