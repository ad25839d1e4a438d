"""The text of a first ``source.toml``, with a comment on what a person should check.

``docs/how-to/add-a-corpus.md`` describes the file, ``generic`` reads it.
"""

import json
from collections.abc import Iterator, Mapping, Sequence

from decomposerl.claims.column_guess import OPTIONAL, REQUIRED, Guess, Side, Split
from decomposerl.claims.records import excerpt
from decomposerl.printable import printable

_EXAMPLE_CHARS = 70


def source_toml(
    name: str,
    file: str,
    split: Split,
    guess: Guess,
    sides: Mapping[Side, Sequence[str]],
    counts: Mapping[str, int],
) -> str:
    """The text of the ``source.toml``, with a comment on everything that a person should check."""
    return "\n".join(
        [
            "# A first guess from the file's columns and labels: check every line.",
            "# docs/how-to/add-a-corpus.md explains all keys.",
            *("", "[source]"),
            f"name = {_text(name)}",
            f"title = {_text(name.replace('_', ' ').capitalize())}  # as tables show it",
            'domain = "user"',
            'license = "not stated"',
            'terms = "not stated"',
            'homepage = ""',
            *("", "[files]"),
            *_file_lines(file, split),
            *("", "[columns]"),
            *_column_lines(guess),
            *("", "[evidence]"),
            f'kind = "{guess.kind}"  # or "{"text" if guess.kind == "table" else "table"}"',
            f'split = "{guess.split}"  # none, lines, sentences or separator:<text>',
            '# group_by = "COLUMN"  # where each row is one line of evidence of a claim',
            *("", "[labels]"),
            *_label_lines(sides, counts),
            "",
        ]
    )


def _file_lines(file: str, split: Split) -> Iterator[str]:
    notes: dict[Split, str] = {
        "train": "",
        "dev": "read for training, too",
        "test": "a test set, never trained on",
    }
    for one, note in notes.items():
        comment = f"  # {note}" if note else ""
        line = f"{one} = [{_text(file)}]" if one == split else f"# {one} = []"
        yield line + comment


def _column_lines(guess: Guess) -> Iterator[str]:
    for role in (*REQUIRED, *OPTIONAL):
        column = guess.columns.get(role)
        if column is not None:
            yield f"{role} = {_text(column)}  # {_example(guess.examples[column])}"
    unused = [name for name in guess.examples if name not in guess.columns.values()]
    for name in unused:
        yield f"# not used: {_comment(name)}  # {_example(guess.examples[name])}"


def _label_lines(sides: Mapping[Side, Sequence[str]], counts: Mapping[str, int]) -> Iterator[str]:
    numbers = "numbers: check which is which" * all(map(str.isdecimal, counts))
    notes: dict[Side, str] = {
        "supported": numbers,
        "refuted": numbers,
        "middle": "neither; dropped, Refuted or the third label by label_rule",
        "drop": "not recognised: move each to its side, or leave it out of training",
    }
    for side, note in notes.items():
        labels = sides[side]
        rows = ", ".join(f"{counts[label]:,}" for label in labels)
        comment = "; ".join(filter(None, [f"rows: {rows}" * bool(rows), note * bool(labels)]))
        shown = f"{side} = [{', '.join(map(_text, labels))}]"
        yield f"{shown}  # {comment}" if comment else shown


def _text(value: str) -> str:
    """A TOML basic string."""
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")


def _example(value: object) -> str:
    shown = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)
    return _comment(excerpt(shown)[:_EXAMPLE_CHARS])


def _comment(text: str) -> str:
    """Text that cannot end a comment."""
    return printable(text, keep="")
