"""Checks of single things that a run needs, each with a fix where it is missing.

Each function gives a ``ReadinessCheck``. A check leaves nothing behind and loads no model: it reads
a package's version, a folder's files, an endpoint's list of models. A key is sent only to its
endpoint and is never part of a finding.
"""

import os
import re
import shutil
import subprocess
import threading
from collections.abc import Sequence
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from pydantic import SecretStr

from decomposerl.errors import ConfigError, EngineMissing
from decomposerl.prompts.verifier import Use, pair_prefix
from decomposerl.reports.readiness import ReadinessCheck, State
from resources.entities.spacy_engine import SpacyModel, install_hint
from resources.hub.locks import HUB_MODELS, MAIN, ModelLocks, cached_model
from resources.tokens.model_tokens import tokenizer_file
from resources.verifier.chunks import BYTES
from resources.verifier.minicheck_form import FIX, VARIABLE, minicheck_form
from resources.vllm.process import (
    installed_version,
    version_problem,
)

_GIB = 2**30
_EVERY_S, _SMI_S = 1.0, 10.0  # between samples of a card, and for one answer
_VERDICT_TOKENS, _THOUGHT_TOKENS = 64, 1_024
"""Least limit of a call for a verdict, and least room for the thought before it."""
_THINKS = re.compile(
    r"qwen3|qwq|deepseek-r\d|\br1\b|gpt-oss|gpt-5|\bo\d|magistral|think|reason", re.IGNORECASE
)
_BYTES_ARE_SMALLER = (
    "no tokenizer.json; chunks are measured in bytes, so evidence above 32 kB (about 8,000 tokens) "
    "is scored in parts although the model reads 32,468 tokens at once"
)


def package(name: str, fix: str, *, required: bool = True) -> ReadinessCheck:
    """Whether a distribution is installed, and its version."""
    try:
        return ReadinessCheck("package", name, "ok", version(name))
    except PackageNotFoundError:
        return ReadinessCheck("package", name, _absent(required=required), "not installed", fix)


def spacy_model(name: str) -> ReadinessCheck:
    """Whether a spaCy model is installed or is a folder, and its version."""
    try:
        return ReadinessCheck("spaCy", name, "ok", SpacyModel(name).label)
    except EngineMissing:
        return ReadinessCheck("spaCy", name, "missing", "not installed", install_hint(name))


def hub_model(
    name: str, files: str = "", revision: str = MAIN, *, required: bool = True
) -> ReadinessCheck:
    """Whether a model is a folder or is in the hub's local cache.

    ``files`` are the required files, space-separated; empty for the whole model. ``revision`` is
    the branch or commit.
    """
    absent = _absent(required=required)
    at = [] if revision == MAIN else ["--revision", revision]
    command = " ".join(["hf download", name, *files.split(), *at])
    try:
        folder = Path(name) if Path(name).is_dir() else cached_model(name, revision)
    except EngineMissing as error:
        return ReadinessCheck("model", name, absent, str(error), command)
    except ValueError:  # not a valid name on the hub
        fix = "name an existing folder, or a model of the hub as organisation/name"
        return ReadinessCheck("model", name, absent, "neither a folder nor a name of the hub", fix)
    absent_files = [
        file for file in files.split() if folder is None or not (folder / file).is_file()
    ]
    if folder is None or absent_files:
        problem = f"no {', '.join(absent_files)}" if absent_files else "not on this machine"
        return ReadinessCheck("model", name, absent, problem, command)
    return ReadinessCheck("model", name, "ok", str(folder))


def locked_commit(name: str, locks: ModelLocks, url: str = "") -> ReadinessCheck:
    """Which commit of a hub model is loaded; ``url`` is where it is served, if by others."""
    row = HUB_MODELS.get(name, {})
    code = ["runs its repository's code"] if row.get("remote_code") else []
    what = f"{name} ({', '.join([row['licence'], *code])})" if row else name
    try:
        locked, cached = locks.state(name)
    except ConfigError as error:
        fix = f"download the locked commit, or delete the line from {locks.file}"
        return ReadinessCheck("commit", what, "missing", str(error), fix)
    if url:
        said = f"{url} does not say which commit it serves"
        fix = f"start it with --revision {locked or cached or 'COMMIT'}"
        return ReadinessCheck("commit", what, "note", said, fix)
    if locked:
        return ReadinessCheck("commit", what, "ok", f"locked to {locked}")
    found = f"{cached}, which is on this machine" if cached else "the one it finds"
    return ReadinessCheck("commit", what, "note", f"not locked; the first use locks {found}")


def chunk_tokenizer(named: str, model: str) -> ReadinessCheck:
    """The unit of the hosted verifier's chunks; bytes are safe but give smaller chunks."""
    what = f"tokenizer of the chunks for {model}"
    if named == BYTES:
        return ReadinessCheck(
            "model", what, "ok", "none: chunks are measured in bytes, as configured"
        )
    try:
        file = tokenizer_file(named or model)
    except EngineMissing:
        file = None
    if file is not None:
        return ReadinessCheck("model", what, "ok", str(file))
    if named:
        return hub_model(named, "tokenizer.json")
    fix = f"hf download {model} tokenizer.json\nor name a folder in DECOMPOSERL_VERIFIER__TOKENIZER"
    return ReadinessCheck("model", what, "note", _BYTES_ARE_SMALLER, fix)


def verifier_form(
    use: Use, folder: str, *, allow_own: bool, search: Sequence[str] | None = None
) -> ReadinessCheck:
    """Whether the form that MiniCheck was trained on is here; arguments as ``minicheck_form``."""
    what = "input form of MiniCheck"
    try:
        found = minicheck_form(use, folder, allow_own=True, search=search)
        _ = pair_prefix(found.prompt) if use == "pair" else found.request("", "")  # or it raises
    except ConfigError as error:
        fix = "set DECOMPOSERL_PATHS__PROMPTS"
        return ReadinessCheck("prompt", what, "missing", str(error), fix)
    if found.origin != "own":
        return ReadinessCheck("prompt", what, "ok", found.label)
    if allow_own:
        said = f"this project's own text, by {VARIABLE}: scores differ from the published model's"
        return ReadinessCheck("prompt", what, "note", said, FIX)
    said = f"not installed and in no folder; {VARIABLE}=yes runs with this project's own text"
    return ReadinessCheck("prompt", what, "missing", said, FIX)


def key(variable: str, value: SecretStr) -> ReadinessCheck:
    """Whether a key is set; it is never shown."""
    if value.get_secret_value():
        return ReadinessCheck("key", variable, "ok", "set (never shown)")
    return ReadinessCheck("key", variable, "missing", "not set", f"export {variable}=...")


def verdict_tokens(model: str, room: int) -> list[ReadinessCheck]:
    """Whether a thinking model has room for its thought before a verdict; empty for other models.

    ``room`` are the tokens that are added for the thought. A model counts as a thinking one by its
    name, or where there is room.
    """
    if not room and _THINKS.search(model) is None:
        return []
    what = f"tokens of a verdict by {model}"
    found = f"{_VERDICT_TOKENS} and {room:,} for its thought"
    if room >= _THOUGHT_TOKENS:
        return [ReadinessCheck("budget", what, "ok", found)]
    fix = (
        f"set thinking: on and thinking_tokens of at least {_THOUGHT_TOKENS:,} "
        "for its place in the resource evaluation_model"
    )
    return [ReadinessCheck("budget", what, "note", f"{found}: verdicts may be cut off", fix)]


def vllm_program(name: str, fix: str) -> ReadinessCheck:
    """Whether the program that starts vLLM is on the path, and its version where it is known."""
    path = shutil.which(name)
    if path is None:
        return ReadinessCheck("program", name, "missing", "not found", fix)
    found = installed_version(name)
    old = version_problem(found)
    if old:
        return ReadinessCheck("program", name, "missing", old, fix)
    return ReadinessCheck("program", name, "ok", f"{path} ({found})" if found else path)


def gpus(command: str = "nvidia-smi", *, required: bool) -> list[ReadinessCheck]:
    """Memory of each GPU, from ``nvidia-smi``."""
    try:
        output = _smi(command, "name,memory.total,memory.free")
        cards = [line.rsplit(",", 2) for line in output.splitlines() if line.strip()]
        findings = [
            ReadinessCheck(
                "GPU", f"{i} {name.strip()}", "ok", f"{int(all_):,} MiB, {int(free):,} MiB free"
            )
            for i, (name, all_, free) in enumerate(cards)
        ]
    except (OSError, subprocess.SubprocessError, ValueError):
        findings = []
    if findings:
        return findings
    fix = "run on a machine with a GPU, or name a server elsewhere" * required
    return [
        ReadinessCheck("GPU", "none", _absent(required=required), f"{command} finds no GPU", fix)
    ]


def _smi(command: str, fields: str) -> str:
    words = [command, f"--query-gpu={fields}", "--format=csv,noheader,nounits"]
    done = subprocess.run(  # noqa: S603 - our own words
        words, capture_output=True, text=True, timeout=_SMI_S, check=True
    )
    return done.stdout


class PeakMemory:
    """Samples once a second inside a ``with`` block; ``mib`` is None where there is no GPU.

    It is the memory in use by every process, of the fullest GPU.
    """

    def __init__(self, command: str = "nvidia-smi") -> None:
        """``command`` prints one number a GPU, in MiB."""
        self._command = command
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._sample, daemon=True)
        self.mib: int | None = None

    def __enter__(self) -> Self:
        """Start."""
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Stop."""
        self._done.set()
        self._thread.join(_SMI_S)

    def _sample(self) -> None:
        while (used := self._used()) is not None or self.mib is not None:
            self.mib = max(used or 0, self.mib or 0)
            if self._done.wait(_EVERY_S):
                return

    def _used(self) -> int | None:
        try:
            output = _smi(self._command, "memory.used")
            return max(int(line) for line in output.split())
        except (OSError, subprocess.SubprocessError, ValueError):
            return None


def available_memory(cgroup: Path = Path("/sys/fs/cgroup")) -> int:
    """Bytes that programs can still take: of this machine, or of the container's limit if less."""
    import psutil

    free = int(psutil.virtual_memory().available)
    try:
        most = int((cgroup / "memory.max").read_text("utf-8"))
        held = int((cgroup / "memory.current").read_text("utf-8"))
    except (OSError, ValueError):  # no container, or one without a limit ("max")
        return free
    return min(free, most - held)


def disk(folder: Path, needed_gib: float) -> ReadinessCheck:
    """Free disk space for ``folder``, which need not exist yet."""
    existing = folder
    while not existing.exists():
        existing = existing.parent
    free = shutil.disk_usage(existing).free / _GIB
    space = f"{free:,.1f} GiB free, about {needed_gib:g} needed"
    if not os.access(existing, os.W_OK):
        return ReadinessCheck(
            "disk", str(folder), "missing", "cannot be written", "set DECOMPOSERL_DATA"
        )
    if free < needed_gib:
        fix = "set DECOMPOSERL_DATA to a larger disk"
        return ReadinessCheck("disk", str(folder), "missing", space, fix)
    return ReadinessCheck("disk", str(folder), "ok", space)


def compiled_loops() -> ReadinessCheck:
    """Whether compiled loops can be cached, so that they are compiled only once."""
    from decomposerl.kernels import text_loops

    loop: Any = text_loops.scan_rows  # a numba dispatcher
    folder = loop.stats.cache_path
    if folder and os.access(folder, os.W_OK):
        return ReadinessCheck("cache", "compiled loops", "ok", str(folder))
    fix = "set NUMBA_CACHE_DIR to a writable folder"
    return ReadinessCheck("cache", "compiled loops", "note", "compiled again in each process", fix)


def _absent(*, required: bool) -> State:
    return "missing" if required else "note"
