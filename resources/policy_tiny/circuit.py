"""Heads that copy and compare, written into the tiny policy before it learns.

A verifier takes a claim apart, and notices what the evidence does not hold. Both take an induction
circuit: two heads of layer 0 that tell each token which two stood before it, and heads of layer 1
that look for a place where the present token stood already, and give what followed it there
(Olsson et al., 2022, "In-context Learning and Induction Heads"). One of them, which copies, also
compares the token before. The other prefers places in the evidence and writes down where it
found one: what a thought names and the evidence has not is not held, and two heads of layer 2
look there when a yes or a no is due. A model of this size needs thousands of steps to find such
a circuit by itself; written down it is there at once, roughly, and the warm start makes it exact.

How: queries and keys have biases in this architecture, and rotary positions turn biases into a
function of distance alone, so a bias on the fast rotations attends one token back. Contents are
compared on the slow rotations, which hardly turn within a thousand tokens.

Left out deliberately: everything that has to be learnt (what to quote, what to ask, and which
words are a fact's and which are mere wording).
"""

import math
from dataclasses import dataclass
from typing import Any

_FAST = 0.004
"""Radians a token above which a rotation is used for distances, below for contents."""
_BACK = 10.0
"""Attention score of the token at the wanted distance."""
_COMPARED, _CONTEXT = 20, 0.3
"""Dimensions in which contents are compared, and how much the token before them counts."""
_MATCH, _REST = 2.6, 4.0
"""Scales of queries and keys: of contents compared, and of the opening token to rest on."""
_EMBEDDING, _MARK, _LOGITS, _WRITES = 0.5, 3.0, 0.3, 0.1
"""Embeddings' standard deviation, the two marks, the last norm's scale, and the share that all
other parts write at first."""
_TOLD, _COPIED, _FLAG, _HELD = 0.4, 0.8, 0.2, 1.6
"""How strongly earlier tokens, the token to copy, the evidence and what is held are written."""
_AFTER, _PREFERRED = 2.8, 6.0
"""Scales of attention to the marks, and to places in the evidence."""
_SPOKEN, _SURE, _MIDDLE = 3.0, 1.0, 1.5
"""The direction of the two marks; how strongly sureness is written, and its middle."""
_MARKS = 6
"""Directions for marks and flags."""
_RESUMES = 2
"""The head that goes on behind a mark."""


@dataclass(frozen=True, slots=True)
class _Places:
    """Orthonormal directions of the residual stream, one a row.

    ``now``, ``before`` and ``earlier`` hold the content of the present token and of the two that
    stood before it. ``opening``, ``evidence`` and ``claim`` mark the tokens that open a prompt and
    its two parts, ``shown`` the tokens of the evidence, ``held`` those that stood there before.
    ``sure`` says that what has just been named is held. ``content`` is all that embeddings use.
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
    """What the circuit must know of a vocabulary.

    The ids of the tokens that open a prompt, its evidence and its claim, and of the marks behind
    what the evidence has and has not.
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
    slow = [place for place, turn in enumerate(turns.tolist()) if turn <= _FAST]
    rest, compared = slow[-1], slow[:-1]
    axes = [*compared, *(place + width // 2 for place in compared)][:_COMPARED]
    with torch.no_grad():
        places = _places(config.hidden_size, len(axes))
        _quieten(model, places)
        _mark(model.model.embed_tokens.weight, words, places)
        first, second, third = (layer.self_attn for layer in model.model.layers[:3])
        for number, (distance, into) in enumerate(((1, places.before), (2, places.earlier))):
            head = slice(number * width, (number + 1) * width)
            _wire_distance(first, head, turns, distance)
            _carry(first, head, places.now, into * _TOLD)
        _wire_evidence(first, slice(2 * width, 3 * width), rest, places)
        _wire_induction(second, width, (axes, rest), places)
        _wire_sureness(third, width, turns, places)


def _places(hidden: int, compared: int) -> _Places:
    import torch

    rows = torch.linalg.qr(torch.randn(hidden, hidden))[0].T
    sizes = [compared, compared, *[1] * _MARKS, hidden - 2 * compared - _MARKS]
    before, earlier, *marks, content = rows.split(sizes)
    opening, evidence, claim, shown, held, sure = marks
    return _Places(
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


def _quieten(model: Any, places: _Places) -> None:  # noqa: ANN401 - as above
    """Large embeddings and small writes, so that the circuit's signals stand out."""
    table = model.model.embed_tokens.weight
    table.normal_(0, _EMBEDDING)
    table.copy_(table @ places.content.T @ places.content)
    told = table @ places.now.T  # as long for every token, so that every match counts the same
    longer = _EMBEDDING * len(places.now) ** 0.5 / told.norm(dim=1, keepdim=True)
    table += (longer - 1) * told @ places.now
    model.model.norm.weight.fill_(_LOGITS)
    for layer in model.model.layers:
        layer.self_attn.o_proj.weight.mul_(_WRITES)
        layer.mlp.down_proj.weight.mul_(_WRITES)


def _mark(table: Any, words: Words, places: _Places) -> None:  # noqa: ANN401 - as above
    """Give the tokens that steer the circuit their marks."""
    table[words.opening] += _MARK * places.opening[0]
    table[words.evidence] += _MARK * places.evidence[0]
    table[words.claim] += _MARK * places.claim[0]
    table[words.held] += _SPOKEN * places.sure[0]
    table[words.missing] -= _SPOKEN * places.sure[0]


def _wire_distance(attention: Any, head: slice, turns: Any, distance: int) -> None:  # noqa: ANN401 - tensors
    """Let a head attend ``distance`` tokens back, whatever stands there."""
    import torch

    width = head.stop - head.start
    strength = math.sqrt(_BACK * math.sqrt(width))
    query, key = torch.zeros(width), torch.zeros(width)
    for place, turn in enumerate(turns.tolist()):
        if turn > _FAST:
            key[place] = strength
            query[place] = strength * math.cos(turn * distance)
            query[place + width // 2] = -strength * math.sin(turn * distance)
    attention.q_proj.weight[head], attention.k_proj.weight[head] = 0, 0
    attention.q_proj.bias[head], attention.k_proj.bias[head] = query, key


def _wire_evidence(attention: Any, head: slice, rest: int, places: _Places) -> None:  # noqa: ANN401 - tensors
    """A head that rests on what opens the evidence until a claim opens, and says so."""
    sought = places.opening[0] + 2 * places.evidence[0] + 3 * places.claim[0]
    attention.q_proj.weight[head], attention.k_proj.weight[head] = 0, 0
    attention.q_proj.bias[head], attention.k_proj.bias[head] = 0, 0
    attention.q_proj.bias[head.start + rest] = _AFTER
    attention.k_proj.weight[head.start + rest] = _AFTER * sought
    _carry(attention, head, places.evidence, places.shown * _FLAG)


def _wire_sureness(attention: Any, width: int, turns: Any, places: _Places) -> None:  # noqa: ANN401 - tensors
    """Heads 0 and 1 look at the present token and the one before it, where a mark is due.

    They write ``sure`` where that is held, and less than nothing where it is not.
    """
    for number in (0, 1):
        head = slice(number * width, (number + 1) * width)
        _wire_distance(attention, head, turns, number)
        _carry(attention, head, places.held, places.sure * _SURE)
        attention.v_proj.bias[head.start] = -_MIDDLE


def _wire_induction(
    attention: Any,  # noqa: ANN401 - a module
    width: int,
    axes: tuple[list[int], int],
    places: _Places,
) -> None:
    """Heads that look for what stood in the present token's place before, and copy what followed.

    Head 0 looks where ``before`` is the present token and ``earlier`` the one before it. Head 1
    looks where ``before`` is the present token, prefers places in the evidence, and writes
    ``held`` where it found one. Head 2 looks where ``before`` is what stood before the present
    token: behind a mark it goes on with what the mark was put into. Without such a place all rest
    on the opening token.
    """
    import torch

    compared, rest = axes
    hidden = places.now.shape[1]
    turned = _subspace(len(compared), len(compared)) * _CONTEXT
    for place in range(3):
        context = turned * (1, 0, 1)[place]
        present, past = (places.now, places.before / _TOLD)
        if place == _RESUMES:
            present, past = (places.before / _TOLD, places.earlier / _TOLD)
        head = slice(place * width, (place + 1) * width)
        query, key = torch.zeros(width, hidden), torch.zeros(width, hidden)
        query[compared] = (present + context @ past) * _MATCH
        key[compared] = (places.before + context @ places.earlier) / _TOLD * _MATCH
        key[rest] = places.opening[0] * _REST + (place == 1) * places.shown[0] * _PREFERRED
        attention.q_proj.weight[head], attention.k_proj.weight[head] = query, key
        attention.q_proj.bias[head], attention.k_proj.bias[head] = 0, 0
        attention.q_proj.bias[head.start + rest] = _REST
        first = min(place, 1) * (width - 1)
        read = places.content[first : first + width - 1]
        written = read * _COPIED
        if place == 1:
            read = torch.cat([read, places.shown])
            written = torch.cat([written, places.held * _HELD])
        _carry(attention, head, read, written)


def _subspace(rows: int, columns: int) -> Any:  # noqa: ANN401 - a tensor
    """Orthonormal rows, shape (rows, columns)."""
    import torch

    return torch.linalg.qr(torch.randn(columns, rows))[0].T


def _carry(attention: Any, head: slice, read: Any, written: Any) -> None:  # noqa: ANN401 - tensors
    """Let a head write, for each row, along ``written`` what it finds along ``read``."""
    attention.v_proj.weight[head], attention.v_proj.bias[head] = 0, 0
    attention.v_proj.weight[head.start : head.start + len(read)] = read
    attention.o_proj.weight[:, head] = 0
    attention.o_proj.weight[:, head.start : head.start + len(read)] = written.T
