"""Markdown that GitHub and the built site show alike."""

from collections.abc import Iterable, Sequence

MADE = "This page is made from the code by `make reference`; a test keeps it current."


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table; line breaks in cells become spaces, bars are escaped."""
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(_cell(cell) for cell in line) + " |" for line in lines)


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")


def code(text: str) -> str:
    """The text as code; nothing where it is empty."""
    return f"`{text}`" if text else ""


def paragraphs(*parts: str) -> str:
    """The parts that are not empty, each after an empty line, as a page."""
    return "\n\n".join(part.strip("\n") for part in parts if part) + "\n"


def plain(docstring: str) -> str:
    """A docstring's text with Markdown's backticks."""
    return docstring.replace("``", "`")
