"""Heads that copy and compare, written into the tiny policy before it learns.

A verifier quotes, and notices what its quotations do not hold. Both take an induction circuit: two
heads of layer 0 that tell each token which two stood before it, and heads of layer 1 that look
for a place where the present token stood already, and give what followed it there (Olsson et al.,
2022, "In-context Learning and Induction Heads"). One of them, which copies, also compares the token
before. The other prefers places in the trace to those in the prompt and writes down which it
found: what a question names and the first thought does not hold is in doubt, and a head of layer
2 looks at that. A model of this size needs thousands of steps to find such a circuit by itself;
written down it is there at once, roughly, and the warm start makes it exact.

How: queries and keys have biases in this architecture, and rotary positions turn biases into a
function of distance alone, so a bias on the fast rotations attends one token back. Contents are
compared on the slow rotations, which hardly turn within a thousand tokens.

Left out deliberately: everything that has to be learnt (what to quote, what to ask, and which
words are a fact's and which are mere wording).
"""

import math
from dataclasses import dataclass
from typing import Any

_FAST = 0.06
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
_TOLD, _COPIED, _FLAG, _HELD = 0.4, 0.8, 0.2, 0.8
"""How strongly the earlier token, the token to copy, the stages and what is held are written."""
_AFTER, _PREFERRED = 2.8, 3.0
"""Scales of attention to the marks, and to places in the trace."""
_ASKED, _FACT, _UNHELD, _NEAR = 30.0, 30.0, 20.0, 6.0
"""Scales of attention where doubt is looked for: in the question, at its facts, at what is not
held, near by."""
_NAMED, _SPOKEN, _SURE, _MIDDLE = 0.6, 3.0, 1.0, 1.5
"""Marks of words of fact and of yes and no; how strongly sureness is written, and its middle."""
_MARKS = 8
"""Directions for marks and flags."""


@dataclass(frozen=True, slots=True)
class _Places:
    """Orthonormal directions of the residual stream, one a row.

    ``now``, ``before`` and ``earlier`` hold the content of the present token and of the two that
    stood before it. ``opening``, ``think``
    and ``question`` mark the tokens that open a prompt, a thought and a question. ``told`` marks
    tokens from the first thought on, ``asked`` from the first question on, ``held`` tokens that
    stood in the trace before. ``named`` tells words that facts are made of from mere wording, and
    ``sure`` says that the present question's are held. ``content`` is all that embeddings use.
    """

    now: Any
    before: Any
    earlier: Any
    opening: Any
    think: Any
    question: Any
    told: Any
    asked: Any
    held: Any
    named: Any
    sure: Any
    content: Any


@dataclass(frozen=True, slots=True)
class Words:
    """What the circuit must know of a vocabulary.

    The ids of the tokens that open a prompt, a thought and a question, and of a yes and a no;
    ``named`` is for each id how much its word belongs to facts, -1 (wording) to 1, shape (v,).
    """

    opening: int
    think: int
    question: int
    yes: int
    no: int
    named: Any


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
        _wire_stages(first, slice(2 * width, 3 * width), rest, places)
        _wire_induction(second, width, (axes, rest), places)
        _wire_doubt(third, width, turns, rest, places)


def _places(hidden: int, compared: int) -> _Places:
    import torch

    rows = torch.linalg.qr(torch.randn(hidden, hidden))[0].T
    sizes = [compared, compared, *[1] * _MARKS, hidden - 2 * compared - _MARKS]
    before, earlier, *marks, content = rows.split(sizes)
    opening, think, question, told, asked, held, named, sure = marks
    return _Places(
        now=content[:compared],
        before=before,
        earlier=earlier,
        opening=opening,
        think=think,
        question=question,
        told=told,
        asked=asked,
        held=held,
        named=named,
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
    table += _NAMED * words.named[:, None] * places.named
    table[words.opening] += _MARK * places.opening[0]
    table[words.think] += _MARK * places.think[0]
    table[words.question] += _MARK * places.question[0]
    table[words.yes] += _SPOKEN * places.sure[0]
    table[words.no] -= _SPOKEN * places.sure[0]


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


def _wire_stages(attention: Any, head: slice, rest: int, places: _Places) -> None:  # noqa: ANN401 - tensors
    """A head rests on a question where there was one, else on a thought, and says so."""
    import torch

    sought = places.opening[0] + 2 * places.think[0] + 3 * places.question[0]
    _constant_query(attention, head, rest, _AFTER, sought)
    read = torch.cat([places.think + places.question, places.question])
    _carry(attention, head, read, torch.cat([places.told, places.asked]) * _FLAG)


def _wire_doubt(attention: Any, width: int, near: Any, rest: int, places: _Places) -> None:  # noqa: ANN401 - tensors
    """Head 0 looks at the present question's words of fact, at those not held first.

    It writes ``sure`` by what it finds there, less where that is not held. The rotation ``near``
    makes it prefer what stands close by.
    """
    for number in (0, 1):
        head = slice(number * width, (number + 1) * width)
        _wire_distance(attention, head, near, number + 1)
        _carry(attention, head, places.held, places.sure * _SURE)
        attention.v_proj.bias[head.start] = -_MIDDLE


def _constant_query(attention: Any, head: slice, rest: int, scale: float, sought: Any) -> None:  # noqa: ANN401 - tensors
    """Let a head attend to what lies along ``sought``, whatever the present token is."""
    attention.q_proj.weight[head], attention.k_proj.weight[head] = 0, 0
    attention.q_proj.bias[head], attention.k_proj.bias[head] = 0, 0
    attention.q_proj.bias[head.start + rest] = scale
    attention.k_proj.weight[head.start + rest] = scale * sought


def _wire_induction(
    attention: Any,  # noqa: ANN401 - a module
    width: int,
    axes: tuple[list[int], int],
    places: _Places,
) -> None:
    """Heads 0 and 1 look where ``before`` is the present token, and copy what stands there.

    Head 0 also compares the tokens before the two. Without such a place both rest on the opening
    token. Head 1 prefers places in the trace, and writes ``held`` where it found one.
    """
    import torch

    compared, rest = axes
    hidden = places.now.shape[1]
    turned = _subspace(len(compared), len(compared)) * _CONTEXT
    for place in (0, 1):
        context = turned * (1 - place)
        sought = places.now + context @ places.before / _TOLD
        found = (places.before + context @ places.earlier) / _TOLD
        head = slice(place * width, (place + 1) * width)
        query, key = torch.zeros(width, hidden), torch.zeros(width, hidden)
        query[compared], key[compared] = sought * _MATCH, found * _MATCH
        key[rest] = places.opening[0] * _REST + place * places.told[0] * _PREFERRED
        attention.q_proj.weight[head], attention.k_proj.weight[head] = query, key
        attention.q_proj.bias[head], attention.k_proj.bias[head] = 0, 0
        attention.q_proj.bias[head.start + rest] = _REST
        read = places.content[place * (width - 1) : (place + 1) * (width - 1)]
        written = read * _COPIED
        if place == 1:
            read = torch.cat([read, places.told])
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
