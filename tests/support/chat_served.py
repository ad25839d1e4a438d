"""A chat client with the fault server that it asks, and one that rules."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from pydantic import SecretStr

from chat_parts import frame_of, settings
from decomposerl.replies.rulings import CRITERIA
from fault_server import WELL, Answer, FaultServer, replying
from resources.chat.client import ChatClient

OF_CLIENT = ("retries", "cooldown_s", "needs_logprobs")
FIVE = "\n".join(
    f"{name}:{word}" for name, word in zip(CRITERIA, "YES NO no YES YES".split(), strict=True)
)


def client(
    url: str,
    data: Path | None = None,
    key: str = "",
    **changes: Any,  # noqa: ANN401 - of the endpoint and the client
) -> ChatClient:
    """A client of the server at ``url``; two retries of a call."""
    own = {"retries": 2} | {name: changes.pop(name) for name in OF_CLIENT if name in changes}
    chosen = settings(url, **changes)
    return ChatClient(chosen, data, lambda: (chosen.base_url, SecretStr(key)), **own)


@contextmanager
def served_chat(
    script: Sequence[Answer] = (),
    usual: Answer = WELL,
    data: Path | None = None,
    **changes: Any,  # noqa: ANN401 - as above
) -> Iterator[tuple[FaultServer, ChatClient]]:
    """A server and a client of it."""
    with FaultServer(script, usual) as served, client(served.url, data, **changes) as chat:
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
