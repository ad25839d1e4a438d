"""What a kill at any moment costs: the last unwritten batch of replies, nothing else."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path

import pytest

import chat_child
from chat_child import IN_FLIGHT
from chat_parts import frame_of, request, settings
from decomposerl.chat import ChatReply
from fault_server import HANGING, MODEL, WELL, Answer, FaultServer, well_text
from project import PYTHONPATH, ROOT
from resources.chat.client import ChatClient
from resources.chat.reply_store import REPLIES_FILE, ReplyStore

ENVIRONMENT = {**os.environ, "PYTHONPATH": PYTHONPATH}
SIZE, KILLED_AFTER = 2_000, 800
PATIENCE_S = 120


def child(
    *arguments: object, environment: Mapping[str, str] = ENVIRONMENT
) -> "subprocess.Popen[str]":
    command = [sys.executable, chat_child.__file__, *map(str, arguments)]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    return subprocess.Popen(command, cwd=ROOT, env=environment, text=True, **pipes)


def kill(process: "subprocess.Popen[str]") -> None:
    process.send_signal(signal.SIGKILL)
    process.communicate(timeout=PATIENCE_S)
    assert -signal.SIGKILL == process.returncode


def stored_replies(data: Path) -> int:
    with ReplyStore(data / REPLIES_FILE, MODEL) as cache:
        return frame_of(cache).height


def test_a_killed_batch_asks_only_for_what_is_missing(tmp_path: Path):
    """After kill -9 in the middle, the next run asks the rest once and the result is whole."""
    with FaultServer(usual=Answer(delay_s=0.002)) as served:
        running = child("batch", served.url, tmp_path, SIZE)
        while len(served.asked) < KILLED_AFTER:
            assert running.poll() is None
            time.sleep(0.01)
        kill(running)
        kept = stored_replies(tmp_path)
        assert 0 < kept < SIZE
        served.asked.clear()
        with ChatClient(settings(served.url, concurrency=64), tmp_path) as chat:
            found = chat.complete([request(number) for number in range(SIZE)])
            assert (kept, SIZE - kept) == (chat.counts.hits, chat.counts.calls)
        assert SIZE - kept == len(served.asked) == len(set(served.prompts))
    uninterrupted = [well_text(f"q {number}") for number in range(SIZE)]
    assert uninterrupted == [o.text for o in found if isinstance(o, ChatReply)]


def test_an_interrupted_batch_keeps_what_came(tmp_path: Path):
    """Ctrl-C ends the program at once, quietly but for its own trace; replies are stored."""
    with FaultServer([WELL] * 9, usual=HANGING) as served:
        running = child("batch", served.url, tmp_path, 500)
        while len(served.asked) < 9 + IN_FLIGHT:  # so all nine replies were received
            assert running.poll() is None
            time.sleep(0.01)
        running.send_signal(signal.SIGINT)
        _, complaint = running.communicate(timeout=PATIENCE_S)
    assert "KeyboardInterrupt" in complaint
    assert "was destroyed" not in complaint
    assert 9 == stored_replies(tmp_path)


def test_the_environment_sets_no_key_and_no_address(tmp_path: Path):
    """Variables that the openai package reads by itself change nothing."""
    other = {"OPENAI_API_KEY": "sk-environment", "OPENAI_BASE_URL": "http://127.0.0.1:1/v1"}
    with FaultServer() as served:
        running = child("batch", served.url, tmp_path, 1, environment=ENVIRONMENT | other)
        assert "" == running.communicate(timeout=PATIENCE_S)[1]
        assert ["Bearer none"] == served.authorizations


@pytest.mark.parametrize("lines", [1, 7, 40])
def test_what_was_flushed_survives_a_kill_while_writing(lines: int, tmp_path: Path):
    """Each reply that ``flush`` returned for is there, the file is whole, and can be written."""
    writing = child("write", tmp_path)
    assert writing.stdout is not None
    flushed = [int(writing.stdout.readline()) for _ in range(lines)][-1]
    kill(writing)
    with ReplyStore(tmp_path / REPLIES_FILE, MODEL) as cache:
        held = cache.get([f"{number:064x}" for number in range(flushed + 1)])
        assert [f"r {n}" for n in range(flushed + 1)] == [held[k].text for k in sorted(held)]
        check = frame_of(cache)
        assert check.height == check["key"].n_unique() >= flushed + 1


def test_the_first_of_several_processes_wins_everywhere(tmp_path: Path):
    """Processes that store under the same keys at once all hold the same replies after."""
    racing = [child("race", tmp_path, name) for name in "abcd"]
    held = {process.communicate(timeout=PATIENCE_S)[0] for process in racing}
    assert [0] * len(racing) == [process.returncode for process in racing]
    assert 1 == len(held)
    assert len(chat_child.RACED_KEYS) == len(held.pop().split())
