"""The command line of a vLLM server.

A server that is started here listens on loopback without a key, so key variables are removed from
its environment.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from decomposerl.errors import ConfigError

HOST = "127.0.0.1"
KEYS = ("VLLM_API_KEY", "OPENAI_API_KEY", "DECOMPOSERL_VERIFIER_KEY")
"""Never passed on: vLLM would require the first; the others belong to other servers."""
_WITH_VALUE = {"-u", "--unset", "-C", "--chdir"}
_REMOTE_CODE = "--trust-remote-code"
_COMMIT = re.compile(r"[0-9a-f]{40}")
_ASSIGNMENT = re.compile(r"[A-Za-z_]\w*=.*", re.DOTALL)


@dataclass(frozen=True, slots=True)
class ServerCommand:
    """Settings of a server. ``port`` 0 means a free one; an empty ``served_name`` means ``model``.

    ``revision`` applies to weights, tokenizer and the model's code (empty: the default),
    ``max_model_len`` is in tokens (0: the model's own), ``gpu_memory_utilization`` a share of
    each GPU's memory. ``extra`` words go last. To choose GPUs, set ``executable`` to
    ``("env", "CUDA_VISIBLE_DEVICES=1", "vllm", "serve")``. ``withheld`` are variables that are
    removed from the server's environment besides ``KEYS``.
    """

    model: str
    served_name: str = ""
    executable: tuple[str, ...] = ("vllm", "serve")
    port: int = 0
    revision: str = ""
    tensor_parallel_size: int = 1
    max_model_len: int = 0
    gpu_memory_utilization: float = 0.9
    extra: tuple[str, ...] = ()
    withheld: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """The model name in requests."""
        return self.served_name or self.model

    @property
    def program(self) -> str:
        """The program that must be installed; empty where ``executable`` names none."""
        return program_of(self.executable)

    def words(self, port: int) -> list[str]:
        """The command line, word by word."""
        length = ["--max-model-len", str(self.max_model_len)] if self.max_model_len else []
        return [
            *self.executable,
            self.model,
            *("--served-model-name", self.name),
            *("--host", HOST, "--port", str(port)),
            *self._revisions(),
            *("--tensor-parallel-size", str(self.tensor_parallel_size)),
            *("--gpu-memory-utilization", str(self.gpu_memory_utilization)),
            *length,
            *self.extra,
        ]

    def refuse_unpinned_code(self) -> None:
        """Refuse to run code of a hub repository that may have changed since it was looked at.

        Raises:
            ConfigError: the words trust such code, and ``revision`` is no full commit.
        """
        trusted = runs_remote_code(self.words(0))
        if trusted and not _COMMIT.fullmatch(self.revision) and not Path(self.model).is_dir():
            raise ConfigError(
                f"a server of {self.model} would run code of its repository "
                f"({_REMOTE_CODE}) at no fixed commit: set `models_lock`, or `revision` to a full "
                "commit"
            )

    def words_without_keys(self, port: int) -> list[str]:
        """The same, prefixed with ``env`` words that remove the key variables."""
        hidden = dict.fromkeys((*KEYS, *self.withheld))
        return ["env", *(word for name in hidden for word in ("-u", name)), *self.words(port)]

    def _revisions(self) -> list[str]:
        if not self.revision:
            return []
        options = ("--revision", "--code-revision", "--tokenizer-revision")
        return [word for option in options for word in (option, self.revision)]


def runs_remote_code(words: Sequence[str]) -> bool:
    """Whether the words let vLLM run code of the model's repository."""
    return any(word.replace("_", "-").startswith(_REMOTE_CODE) for word in words)


def program_of(words: Sequence[str]) -> str:
    """The program of a command: the word after ``env`` and its options and assignments."""
    rest = list(words)
    if not rest or rest[0].rsplit("/", 1)[-1] != "env":
        return rest[0] if rest else ""
    rest.pop(0)
    while rest and (rest[0].startswith("-") or _ASSIGNMENT.fullmatch(rest[0])):
        del rest[: 2 if rest[0] in _WITH_VALUE else 1]
    return program_of(rest)
