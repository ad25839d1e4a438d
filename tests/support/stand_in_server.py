"""The vLLM stand-in as a running process, for tests: started, asked, and what it was asked."""

import fcntl
import json
import os
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from project import SUPPORT
from resources.vllm.process import free_port

WORDS = [sys.executable, str(SUPPORT / "vllm_stand_in.py"), "serve"]
PATIENCE_S = 60


def adapter(folder: Path, rank: int = 64) -> Path:
    """A folder that vLLM would take for an adapter."""
    folder.mkdir()
    (folder / "adapter_config.json").write_text(json.dumps({"r": rank}))
    (folder / "adapter_model.safetensors").write_bytes(b"weights")
    return folder


@contextmanager
def serving(folder: Path, *words: str, model: str = "org/m", **names: str) -> Iterator[str]:
    """The URL of a stand-in that runs in the block; ``names`` are variables."""
    port = free_port()
    asked = [*WORDS, model, "--port", str(port), "--holds", str(folder / "held"), *words]
    child = subprocess.Popen(
        asked, env=os.environ | names, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    url = f"http://127.0.0.1:{port}"
    deadline = time.monotonic() + PATIENCE_S
    try:
        while not _answers(url):
            assert child.poll() is None, f"the stand-in ended with {child.returncode}"
            assert time.monotonic() < deadline, "the stand-in does not answer"
            time.sleep(0.05)
        yield url
    finally:
        child.terminate()
        child.wait(PATIENCE_S)


def waited_for(condition: Callable[[], bool]) -> bool:
    """Whether it came true, given time."""
    deadline = time.monotonic() + PATIENCE_S
    while not condition() and time.monotonic() < deadline:
        time.sleep(0.02)
    return condition()


def _answers(url: str) -> bool:
    """Whether a server is there, healthy or not."""
    try:
        urllib.request.urlopen(f"{url}/health", timeout=PATIENCE_S).close()  # noqa: S310
    except urllib.error.HTTPError as error:
        error.close()
    except OSError:
        return False
    return True


def held(path: Path) -> bool:
    """Whether a server or its worker still holds the file of ``--holds``."""
    with path.open("a") as mine:
        try:
            fcntl.flock(mine, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
    return False


def requests_of(folder: Path) -> list[dict[str, Any]]:
    """What the stand-ins of a folder were asked, in order."""
    return [json.loads(line) for line in (folder / "held.requests").read_text().splitlines()]
