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


def joined(page: str) -> str:
    """A page with its continuation lines joined."""
    return re.sub(r" \\\n *", " ", page)


def materialize_lines() -> list[str]:
    everywhere = [line for document in DOCUMENTS for line in shell_lines(document)]
    return [line for line in everywhere if "asset materialize" in line]


def decomposerl_lines() -> list[tuple[str, str]]:
    """Document and words of every ``decomposerl`` command that the documents print."""
    command = re.compile(r"(?:^|[|;&] *)(?:\w+=\S+ )*(?:\.venv/bin/)?decomposerl ([^|<>&#;]+)")
    return [
        (document.relative_to(ROOT).as_posix(), words.strip())
        for document in DOCUMENTS
        for line in shell_lines(document)
        for words in command.findall(line)
    ]


def configurations() -> list[tuple[str, str]]:
    """Document and text of every ``yaml`` block that configures assets."""
    return [
        (document.relative_to(ROOT).as_posix(), block)
        for document in DOCUMENTS
        for block in re.findall(r"```yaml\n(.*?)```", document.read_text("utf-8"), re.DOTALL)
        if block.startswith(("ops:", "resources:"))
    ]


def written(file: str) -> str:
    """What a document writes into this file by a here document; empty if none does."""
    pattern = re.compile(rf"^cat > {re.escape(file)} <<'END'\n(.*?)^END$", re.MULTILINE | re.DOTALL)
    found = (pattern.search(document.read_text("utf-8")) for document in DOCUMENTS)
    return next((match[1] for match in found if match), "")


def option(words: list[str], *names: str) -> str:
    return next(words[i + 1] for i, word in enumerate(words) if word in names)
