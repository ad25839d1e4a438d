"""A chat client in made-up time, with the fault server that it asks, and one that rules."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from pydantic import SecretStr

from chat_parts import MadeUpTime, frame_of, settings
from decomposerl.replies.rulings import CRITERIA
from fault_server import WELL, Answer, FaultServer, replying
from resources.chat.client import ChatClient

WAITS = ("retries", "cooldown_s", "patience_s")
FIVE = "\n".join(
    f"{name}:{word}" for name, word in zip(CRITERIA, "YES NO no YES YES".split(), strict=True)
)


def client(
    url: str,
    data: Path | None = None,
    time: MadeUpTime | None = None,
    key: str = "",
    **changes: Any,  # noqa: ANN401 - of the endpoint, the client and its timing
) -> ChatClient:
    """A client of the server at ``url``; two retries of a call."""
    waits = {name: changes.pop(name) for name in WAITS if name in changes}
    logprobs = changes.pop("needs_logprobs", True)
    chosen = settings(url, **changes)
    return ChatClient(
        chosen,
        data,
        lambda: (chosen.base_url, SecretStr(key) if key else None),
        needs_logprobs=logprobs,
        timing=(time or MadeUpTime()).timing(**{"retries": 2, **waits}),
    )


@contextmanager
def served_chat(
    script: Sequence[Answer] = (),
    usual: Answer = WELL,
    data: Path | None = None,
    time: MadeUpTime | None = None,
    **changes: Any,  # noqa: ANN401 - as above
) -> Iterator[tuple[FaultServer, ChatClient]]:
    """A server and a client of it."""
    with FaultServer(script, usual) as served, client(served.url, data, time, **changes) as chat:
        yield served, chat


def reasons(outcomes: Sequence[object]) -> list[str | None]:
    """Of each failure; None for a reply."""
    return [getattr(one, "reason", None) for one in outcomes]


def texts(outcomes: Sequence[object]) -> list[str]:
    """Of replies and of failures."""
    return [getattr(one, "text", "") for one in outcomes]


def stored_texts(chat: ChatClient) -> list[str]:
    """The texts of all replies that the client's folder holds."""
    assert chat.store is not None
    stored: list[str] = frame_of(chat.store)["text"].to_list()
    return stored


def reply_to(content: str) -> Answer:
    """What a sound judge says to a prompt, by the task that its words show."""
    if "<answers>" in content:
        return replying("Both parts are there.\n<answer>SUPPORTED</answer>")
    if "is_question" in content:
        return replying(f"<think>Two things.</think><answer>\n{FIVE}\n</answer>")
    return replying(f"So it is.\n<answer>{int('Who' in content)}</answer>")


class SoundServer(FaultServer):
    """A server that rules by what it is asked."""

    def _well(self, asked: dict[str, Any], answer: Answer) -> bytes:
        del answer
        return super()._well(asked, reply_to(asked["messages"][-1]["content"]))
