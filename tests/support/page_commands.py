"""Shell blocks of a documentation page as sessions that a test can run.

A session is the blocks of one heading, in order, in one shell. The page's table ``In the tests |
Stands for`` says what is replaced. ``Not run by a test:`` begins the line below or above a block
that is not run. Other changes are the same on every page: a port becomes a free one. A server in
the foreground is started in the background; it ends with its session, or when another one takes its
port. Of a block's calls of a function that the page defines, only the first is run.
"""

import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import polars as pl

from decomposerl.schemas import SILVER_DECOMPOSED, TRAINING_CLAIMS
from project import PYTHONPATH, ROOT, SUPPORT
from resources.policy_tiny.folder import load_base_policy
from resources.store.parquet import write_parquet
from resources.vllm.process import free_port
from tiny_models import tiny_chat
from training_graph import claims
from warm_programs import write_clients

LIMIT_S = 1_200
RULING = "<answer>1</answer>"

NOT_RUN = re.compile(r"^\s*(?:\*\*)?Not run by a test:", re.IGNORECASE)
_FENCE = re.compile(r"^\s*```(\w*)\s*$")
_SHELLS = {"sh", "bash", "console"}
_HEADING = re.compile(r"^#{1,6} (.+)$")
_PORT = re.compile(r"(?<=127\.0\.0\.1:)\d+|(?<=--port )\d+")
_OF_PROFILE = {  # the judge's address is the profile's, whose port must be the page's free one
    "DECOMPOSERL_JUDGE__MODEL=": "DECOMPOSERL_JUDGE__BASE_URL=http://127.0.0.1:8000/v1 "
    "DECOMPOSERL_JUDGE__RUNS=vllm DECOMPOSERL_JUDGE__MODEL="
}
_CODE = re.compile(r"`([^`]+)`")
_FUNCTION = re.compile(r"^(\w+)\(\) \{", re.MULTILINE)
_SERVES = re.compile(r"(?:^|\s)vllm serve\s")
HEAD = "| In the tests | Stands for |"
PRELUDE = """\
set -eu
declare -A served=()
serve_at() {  # PORT COMMAND...: a server in the foreground of another terminal, until it answers
  local port=$1; shift
  if [ -n "${served[$port]:-}" ]; then kill "${served[$port]}"; wait "${served[$port]}" || true; fi
  env "$@" & served[$port]=$!
  until curl -sf "http://127.0.0.1:$port/health"; do kill -0 "${served[$port]}"; sleep 0.1; done
}
"""


@dataclass(frozen=True, slots=True)
class Block:
    """A shell block: its heading, its first line on the page, whether the page says 'not run'."""

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
            if lines[start].strip(" `") in _SHELLS:
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
    for printed, used in {**replaced, **_OF_PROFILE}.items():
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
            yield f"serve_at {at} {line}"
        else:
            yield line


def free_ports() -> Callable[[str], int]:
    """A free port for each printed one, the same for the whole session."""
    return cache(lambda _: free_port())


def write_programs(folder: Path, replaced: Mapping[str, str], python: str, root: Path) -> None:
    """A program for each name that the page's table replaces by a Python file."""
    folder.mkdir(parents=True, exist_ok=True)
    for printed, used in replaced.items():
        if used.endswith(".py"):
            _program(folder / printed, f'exec {python} {root / used} "$@"')


@dataclass(frozen=True)
class Desk:
    """A folder in which the commands of a page run as a reader's do in the project's."""

    folder: Path

    def run(self, page: str, session: list[Block], **variables: str) -> tuple[int, str]:
        """Exit status and output of a session; every process that it started is gone."""
        text = script(session, stand_ins(page), free_ports())
        output = self.folder / "output"
        with output.open("w") as printed:
            shell = subprocess.Popen(
                ["/bin/bash", "-c", text],
                cwd=self.folder,
                env=self._environment() | variables,
                stdout=printed,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        try:
            status = shell.wait(LIMIT_S)
        finally:
            with suppress(ProcessLookupError):
                os.killpg(shell.pid, signal.SIGKILL)
            shell.wait()
        return status, output.read_text()

    def _environment(self) -> dict[str, str]:
        programs = (self.folder / "programs", Path(sys.prefix) / "bin")
        return {
            "PATH": ":".join([*map(str, programs), "/usr/bin", "/bin"]),
            "PYTHONPATH": PYTHONPATH,
            "HOME": str(self.folder),
            "HF_HUB_OFFLINE": "1",
            "OMP_NUM_THREADS": "1",
            "DAGSTER_HOME": str(self.folder / ".dagster_home"),
            "DECOMPOSERL_DATA": str(self.folder / "data"),
            "STAND_IN_HOLDS": str(self.folder / "held"),
            "STAND_IN_SAYS": RULING,
        }


def project_in(folder: Path, page: str, warm: Path | None = None) -> Desk:
    """A project's folder with the page's programs; ``make`` there shows what it would run.

    ``pip`` checks that the project has the extras that it is given. ``warm`` is the socket of
    ``warm_programs``, which start at once.
    """
    write_programs(folder / "programs", stand_ins(page), sys.executable, ROOT)
    for name in ("configs", "constraints-gpu.txt", "dagster.yaml", "docs"):
        (folder / name).symlink_to(ROOT / name)
    bins = folder / ".venv/bin"
    bins.mkdir(parents=True)
    for name in ("decomposerl", "dagster", "python"):
        (bins / name).symlink_to(Path(sys.prefix) / "bin" / name)
    if warm:
        write_clients(bins, warm)
    _program(bins / "pip", f'exec {sys.executable} {SUPPORT / "extras_stand_in.py"} "$@"')
    _program(folder / "programs/make", f'exec /usr/bin/make --dry-run -C {ROOT} "$@" > make.log')
    (folder / ".dagster_home").mkdir()
    shutil.copy(ROOT / "dagster.yaml", folder / ".dagster_home")
    return Desk(folder)


def _program(file: Path, line: str) -> None:
    file.write_text(f"#!/bin/sh\n{line}\n", "utf-8")
    file.chmod(0o755)


def write_silver(data: Path) -> None:
    """Claims of the last two stages, each with evidence of its own."""
    for table, rows in ((SILVER_DECOMPOSED, 60), (TRAINING_CLAIMS, 8)):
        page = pl.format("Page {}. {}", pl.int_range(pl.len()), "evidence")
        frame = claims(table, rows).with_columns(evidence=page)
        write_parquet(frame, data / f"{table.name}.parquet")


def desk_in(folder: Path, page: str, warm: Path | None = None) -> Desk:
    """A project's folder with claims, base policy and a tiny chat model."""
    desk = project_in(folder, page, warm)
    write_silver(folder / "data")
    load_base_policy(folder / "data/base_policy")
    (folder / "models").mkdir()
    tiny_chat(folder / "models/tiny")
    return desk
