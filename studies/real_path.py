"""``make real``: ``decomposerl rehearse`` with profile ``paper`` on real vLLM and a small model.

``python -m studies.real_path FOLDER [--report PAGE]``. ``FOLDER`` has what ``make``
prepared: ``venv`` with vLLM for processors, and ``hub`` with SmolLM2 (``studies/real_model.py``).
The model stands in for every model of the profile: judge, silver, embedders, verifier, policy. Two
servers are started here as a user would; those of verifier and evaluation start and stop by
themselves. Answers of 135 million parameters are worthless; what is shown is that every part
works with every other.
"""

import argparse
import os
import platform
import re
import shutil
import subprocess
import sys
import time
from contextlib import ExitStack
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path

from resources.vllm.process import ServerCommand, VllmServer
from studies.real_model import MODEL

_LIBRARIES = ("decomposerl", "dagster", "torch", "transformers", "trl", "peft", "openai", "spacy")
_CHAT = ("--max-num-seqs", "16", "--dtype", "bfloat16", "--enable-prefix-caching")
_EMBED = ("--runner", "pooling", "--dtype", "bfloat16", "--max-num-seqs", "16")
_CONFIG = """\
resources:
  verifier: {config: {context: 8192, vllm_arguments: [--dtype, bfloat16]}}
  decomposer: {config: {endpoint: {structured: true}, most_unanswered: 1.0}}
"""
"""A smaller context than MiniCheck's; a form for replies that a small model would not keep."""
_PROMPTS = Path(__file__).with_name("real_prompts")
"""Short ones with an example to copy, which is all that so small a model can follow."""
_SECONDS_OF_A_START = 600


def main() -> int:
    """Start the two servers, rehearse, and write the report; the exit status of the rehearsal."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--report", type=Path, help="Markdown page to write")
    options = parser.parse_args()
    folder, started = options.folder.resolve(), time.monotonic()
    write_entity_model(folder / "spacy")
    (folder / "resources.yaml").write_text(_CONFIG, "utf-8")
    with ExitStack() as running:
        chat = running.enter_context(server(folder, "chat", _CHAT))
        embedder = running.enter_context(server(folder, "embedder", _EMBED))
        env = environment(folder, chat.base_url(), embedder.base_url())
        status = rehearse(folder, env)
    minutes = (time.monotonic() - started) / 60
    if options.report is not None and status == 0:
        options.report.write_text(page(folder, env, minutes), "utf-8")
    print(f"{minutes:,.1f} minutes; logs are in {folder / 'logs'}")
    return status


def server(folder: Path, name: str, words: tuple[str, ...]) -> VllmServer:
    """A server of the model; it starts at its first ``base_url``."""
    command = ServerCommand(MODEL, executable=executable(folder), extra=words)
    return VllmServer(command, folder / "logs" / f"{name}.log", _SECONDS_OF_A_START)


def executable(folder: Path) -> tuple[str, ...]:
    """The first words of every server: two cores are shared, so none is bound to one."""
    settings = ("VLLM_CPU_KVCACHE_SPACE=1", "VLLM_CPU_OMP_THREADS_BIND=nobind")
    hub = (f"HF_HUB_CACHE={folder / 'hub'}", "HF_HUB_OFFLINE=1")
    return ("env", *settings, *hub, str(folder / "venv/bin/vllm"), "serve")


def environment(folder: Path, chat: str, embedder: str) -> dict[str, str]:
    """The variables of the rehearsal: the ones that a user sets, with other names and addresses."""
    return {
        "DECOMPOSERL_PROFILE": "paper",
        "DECOMPOSERL_MACHINE__MAPPER": "in_process",
        "DECOMPOSERL_DATA": str(folder / "data"),
        "DECOMPOSERL_TEXT__TOKENIZER": MODEL,
        "DECOMPOSERL_TEXT__SPACY": str(folder / "spacy"),
        "DECOMPOSERL_MACHINE__VLLM": " ".join(executable(folder)),
        "DECOMPOSERL_VERIFIER__MODEL": MODEL,
        "DECOMPOSERL_PATHS__PROMPTS": str(_PROMPTS),
        "DECOMPOSERL_SILVER__BASE_URL": chat,
        "DECOMPOSERL_SILVER__MODEL": MODEL,
        "DECOMPOSERL_JUDGE__BASE_URL": chat,
        "DECOMPOSERL_JUDGE__MODEL": MODEL,
        "DECOMPOSERL_JUDGE__THINKING": "off",
        "DECOMPOSERL_JUDGE__RUNS": "vllm",
        "DECOMPOSERL_EMBEDDER__BASE_URL": embedder,
        "DECOMPOSERL_EMBEDDER__MODEL": MODEL,
        "DECOMPOSERL_QUESTIONS__BASE_URL": embedder,
        "DECOMPOSERL_QUESTIONS__MODEL": MODEL,
        "HF_HUB_CACHE": str(folder / "hub"),
        "HF_HUB_OFFLINE": "1",
    }


def rehearse(folder: Path, env: dict[str, str]) -> int:
    """The command as a user runs it; its exit status."""
    own = {name: value for name, value in os.environ.items() if not name.startswith("DECOMPOSERL_")}
    command = [str(Path(sys.executable).with_name("decomposerl")), "rehearse"]
    options = ["--experiment", "smol", "--config", str(folder / "resources.yaml")]
    report = ["--report", str(folder / "rehearsal.md")]
    words = [*command, *options, *report]
    return subprocess.run(words, env=own | env, check=False).returncode  # noqa: S603 - our own


def page(folder: Path, env: dict[str, str], minutes: float) -> str:
    """The page of docs: what ran, with which versions, and the rehearsal's own page."""
    python = str(folder / "venv/bin/python")
    vllm = subprocess.run(  # noqa: S603 - our own words
        [python, "-c", _VERSIONS], capture_output=True, text=True, check=True
    ).stdout.strip()
    ours = ", ".join(f"{name} {version(name)}" for name in _LIBRARIES)
    root = f"{folder.parent}/"
    shown = "\n".join(f"{name}={value.replace(root, '')}" for name, value in env.items())
    date = datetime.now(UTC).date().isoformat()
    machine = f"{os.cpu_count()} cores, {platform.machine()}"
    own = (folder / "rehearsal.md").read_text("utf-8")
    own = re.sub(rf"{re.escape(root)}(\S+)", rf"\1{' ' * len(root)}", own)  # columns stay aligned
    return f"""\
# A rehearsal on real vLLM

`make real` writes this page: `decomposerl rehearse` with the profile `paper`, where
SmolLM2-135M-Instruct on vLLM for processors stands in for every model.
{_NOT_MEASURED}

- {date}, commit {_commit()}, {machine}, {minutes:,.0f} minutes, all starts included
- {ours}
- servers: {vllm}

```text
{shown}
```

`resources.yaml`, the fields that differ:

```yaml
{_CONFIG}```

## What it measured

{own}"""


def _commit() -> str:
    """The commit of this checkout, marked where files differ from it."""
    git = shutil.which("git")
    if git is None:
        return "unknown"
    words = [git, "describe", "--always", "--dirty", "--exclude=*"]
    done = subprocess.run(words, cwd=_PROMPTS, capture_output=True, text=True, check=False)  # noqa: S603 - our own words
    return done.stdout.strip() or "unknown"


_NOT_MEASURED = (
    "It shows that every part works with the others. Answers of a model this small are worthless,\n"
    "and two cores say nothing about a GPU's speed."
)
_VERSIONS = (
    "from importlib.metadata import version as v; "
    "print(f\"vllm-cpu {v('vllm-cpu')}, torch {v('torch')}, transformers {v('transformers')}\")"
)


def write_entity_model(folder: Path) -> None:
    """A spaCy pipeline in place of the paper's two: every capitalised word is an entity."""
    import spacy

    pipeline = spacy.blank("en", meta={"name": "capitals", "version": "1.0.0"})
    ruler = pipeline.add_pipe("entity_ruler")
    ruler.add_patterns([{"label": "NAME", "pattern": [{"IS_TITLE": True}]}])
    pipeline.to_disk(folder)


if __name__ == "__main__":
    sys.exit(main())
