"""Commands in the documents, for the tests that run or check them."""

import re
from pathlib import Path

from project import ROOT

DOCUMENTS = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]


def shell_lines(document: Path) -> list[str]:
    """Commands in a document's ``sh`` blocks, continuation lines joined, comments cut."""
    blocks = re.findall(r"```(?:sh|bash|console)\n(.*?)```", document.read_text("utf-8"), re.DOTALL)
    lines = "\n".join(blocks).replace("\\\n", " ").splitlines()
    return [line.split("  #")[0].strip() for line in lines if line.strip()]


def materialize_lines() -> list[str]:
    everywhere = [line for document in DOCUMENTS for line in shell_lines(document)]
    # A corpus of the reader's own is in no graph but his; test_generic_source runs those lines.
    ours = [line for line in everywhere if "claims/bridge_notes" not in line]
    return [line for line in ours if "asset materialize" in line]


def option(words: list[str], *names: str) -> str:
    return next(words[i + 1] for i, word in enumerate(words) if word in names)
