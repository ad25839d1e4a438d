"""Shell blocks of a documentation page as sessions that a test can run.

A session is the blocks of one heading, in order, in one shell. The page's table ``In the tests |
Stands for`` says what is replaced. ``Not run by a test:`` begins the line below or above a block
that is not run. Other changes are the same on every page: a port becomes a free one. A server in
the foreground is started in the background; it ends with its session, or when another one takes its
port. Of a block's calls of a function that the page defines, only the first is run.
"""

import re
import shlex
import socket
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

NOT_RUN = re.compile(r"^\s*(?:\*\*)?Not run by a test:", re.IGNORECASE)
_FENCE = re.compile(r"^\s*```(\w*)\s*$")
_HEADING = re.compile(r"^#{1,6} (.+)$")
_PORT = re.compile(r"(?<=127\.0\.0\.1:)\d+|(?<=--port )\d+")
_CODE = re.compile(r"`([^`]+)`")
_FUNCTION = re.compile(r"^(\w+)\(\) \{", re.MULTILINE)
_SERVES = re.compile(r"(?:^|\s)vllm serve\s")
HEAD = "| In the tests | Stands for |"
PRELUDE = """\
set -eu
declare -A served=()
serve() {  # PORT COMMAND...: a server in the foreground of another terminal, until it answers
  local port=$1; shift
  if [ -n "${served[$port]:-}" ]; then kill "${served[$port]}"; wait "${served[$port]}" || true; fi
  env "$@" & served[$port]=$!
  until curl -sf "http://127.0.0.1:$port/health"; do kill -0 "${served[$port]}"; sleep 0.1; done
}
"""


@dataclass(frozen=True, slots=True)
class Block:
    """One ``sh`` block: its heading, its first line on the page, and why it is not run."""

    heading: str
    line: int
    text: str
    not_run: bool


def blocks(page: str) -> list[Block]:
    """Every ``sh`` block of a page."""
    lines, found, heading, start = page.splitlines(), list[Block](), "", -1
    for number, line in enumerate(lines):
        fence = _FENCE.match(line)
        if start < 0:
            title = _HEADING.match(line)
            heading = title[1] if title else heading
            start = number if fence and fence[1] else start
        elif fence:
            if "```sh" in lines[start]:
                around = [*reversed(lines[:start]), ""], [*lines[number + 1 :], ""]
                not_run = any(NOT_RUN.match(next(filter(None, side), "")) for side in around)
                text = "\n".join(one.strip() for one in lines[start + 1 : number])
                found.append(Block(heading, start + 1, text, not_run))
            start = -1
    return found


def stand_ins(page: str) -> dict[str, str]:
    """What is printed, and what the tests put in its place, in the order of the page's table."""
    if HEAD not in page:
        return {}
    rows = page.split(HEAD)[1].split("\n\n", maxsplit=1)[0].splitlines()[2:]
    pairs = [_CODE.findall(row) for row in rows]
    return {printed: used for used, printed in pairs}


def sessions(page: str) -> dict[str, list[Block]]:
    """The blocks that are run, by heading."""
    run: dict[str, list[Block]] = {}
    for block in blocks(page):
        if not block.not_run:
            run.setdefault(block.heading, []).append(block)
    return run


def script(run: list[Block], replaced: Mapping[str, str], port: Callable[[str], int]) -> str:
    """A session as a bash script; ``port`` gives the free port for a printed one."""
    functions = _FUNCTION.findall("\n".join(block.text for block in run))
    whole = [block.text.replace("\\\n", " ") for block in run]
    text = "\n".join(line for one in whole for line in _first_calls(one, functions))
    for printed, used in replaced.items():
        text = text if used.endswith(".py") else text.replace(printed, used)
    text = _PORT.sub(lambda found: str(port(found[0])), text)
    return PRELUDE + "\n".join(_in_background(text.splitlines())) + "\n"


def _first_calls(block: str, functions: Sequence[str]) -> Iterator[str]:
    called = set[str]()
    for line in block.splitlines():
        name = line.split(" ")[0]
        if name not in called:
            yield line
        called |= {name} & set(functions)


def _in_background(lines: list[str]) -> Iterator[str]:
    for line in lines:
        if _SERVES.search(line) and not line.rstrip().endswith("&") and not line.startswith("#"):
            words = shlex.split(line)
            at = words[words.index("--port") + 1]
            yield f"serve {at} {line}"
        else:
            yield line


class FreePorts:
    """A free port for each printed one, the same for the whole session."""

    def __init__(self) -> None:
        self._given: dict[str, int] = {}

    def __call__(self, printed: str) -> int:
        """The port in place of ``printed``."""
        if printed not in self._given:
            with socket.socket() as asked:
                asked.bind(("127.0.0.1", 0))
                self._given[printed] = asked.getsockname()[1]
        return self._given[printed]


def write_programs(folder: Path, replaced: Mapping[str, str], python: str, root: Path) -> None:
    """A program for each name that the page's table replaces by a Python file."""
    folder.mkdir(parents=True, exist_ok=True)
    for printed, used in replaced.items():
        if used.endswith(".py"):
            program = folder / printed
            program.write_text(f'#!/bin/sh\nexec {python} {root / used} "$@"\n', "utf-8")
            program.chmod(0o755)
