"""The ledger's rows of what a model at an endpoint is asked, and where its answers are kept.

A changed key makes users pay again for an answer that they have. Both rows drive ``decomposerl``
against a server on loopback. As a program this module runs command lines one after another: each
line of standard input is JSON of a ``Line``, each line of standard output JSON of its ``Ended``.
"""

import json
import os
import shutil
import socket
import sqlite3
import subprocess
import sys
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, redirect_stderr, redirect_stdout
from dataclasses import asdict, dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib import import_module
from io import BytesIO, StringIO, TextIOWrapper
from pathlib import Path
from threading import Thread
from typing import Any, Self

import pyarrow.parquet as pq

from fault_server import BROKEN, CUT, REFUSED, UNKNOWN_KEY, Answer, FaultServer, replying
from ledger import Row, digest
from project import PYTHONPATH, ROOT

TINY = ROOT / "resources/policy_tiny/tiny_policy"
"""The bundled policy."""
_OURS = ("DECOMPOSE", "DAGSTER", "OPENAI", "PYTHON", "COLUMNS", "HF_", "XDG", "PYTEST")


def plain_environment(folder: Path, **more: str) -> dict[str, str]:
    """The environment of a command: none of this shell's settings, data and history in a folder."""
    history = folder / "history"
    if not history.is_dir():
        history.mkdir(parents=True)
        shutil.copy(ROOT / "dagster.yaml", history)
    kept = {name: value for name, value in os.environ.items() if not name.startswith(_OURS)}
    return kept | {
        "PYTHONPATH": PYTHONPATH,
        "HF_HUB_OFFLINE": "1",
        "OMP_NUM_THREADS": "1",
        "COLUMNS": "100",
        "DAGSTER_HOME": str(history),
        "DECOMPOSERL_DATA": str(folder / "data"),
        **more,
    }


@dataclass(frozen=True, slots=True)
class Line:
    """A line of ``decomposerl``; the words ``ports NAME...`` put a question to these engines."""

    words: Sequence[str]
    environment: Mapping[str, str]
    text: str = ""
    """Standard input."""


@dataclass(frozen=True, slots=True)
class Ended:
    """How a line ended."""

    code: int
    out: str
    errors: str


class Child:
    """A further process that runs lines one after another, so that imports are paid once."""

    def __init__(self, folder: Path) -> None:
        """``folder`` gets what it says of itself."""
        self._notes = folder / "child.txt"

    def __enter__(self) -> Self:
        """Start it."""
        self._running = subprocess.Popen(
            [sys.executable, __file__],
            cwd=self._notes.parent,
            env=plain_environment(self._notes.parent),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._notes.open("w"),
            text=True,
        )
        return self

    def __exit__(self, *_: object) -> None:
        """Close its input, which ends it."""
        self._running.communicate()

    def start(self, line: Line) -> None:
        """Begin a line; ``end`` waits for it."""
        assert self._running.stdin is not None
        self._running.stdin.write(json.dumps(asdict(line)) + "\n")
        self._running.stdin.flush()

    def end(self) -> Ended:
        """How the line that was started ended."""
        assert self._running.stdout is not None
        answer = self._running.stdout.readline()
        assert answer, self._notes.read_text("utf-8")[-3_000:]
        return Ended(**json.loads(answer))

    def run(self, line: Line) -> Ended:
        """Run a line to its end."""
        self.start(line)
        return self.end()


def run_line(line: Line) -> Ended:
    """Run a line in this process, with its environment and standard streams."""
    os.environ.clear()
    os.environ.update(line.environment)
    sys.argv[:] = ["decomposerl", *line.words]
    sys.stdin = TextIOWrapper(BytesIO(line.text.encode()), "utf-8")
    out, errors, code = StringIO(), StringIO(), 0
    with redirect_stdout(out), redirect_stderr(errors):
        try:
            if line.words[0] == "ports":
                ask_ports(line.words[1:])
            else:
                command()
        except SystemExit as end:
            code = int(end.code or 0)
    return Ended(code, out.getvalue(), errors.getvalue())


def command() -> None:
    """Run the ``decomposerl`` program of this source, whatever is installed."""
    module, name = entry_point()
    getattr(import_module(module), name)()


def command_words() -> list[str]:
    """The first words of the same as a program of its own."""
    module, name = entry_point()
    return [sys.executable, "-c", f"from {module} import {name}; {name}()"]


def entry_point() -> tuple[str, str]:
    """Module and name of the command."""
    with (ROOT / "pyproject.toml").open("rb") as file:
        module, _, name = tomllib.load(file)["project"]["scripts"]["decomposerl"].partition(":")
    return module, name


# == Keys ==


EVIDENCE = "Ilva Torbeck opened the iron bridge of Varn in 1921. The bridge crosses the Oder."
CLAIM = {"claim": "Ilva Torbeck opened the bridge of Varn in 1921.", "evidence": EVIDENCE}
TRACE = (
    "<think>Two parts.</think><question>Who opened the bridge of Varn?</question>"
    "<answer>Ilva Torbeck opened it.</answer><think>One is left.</think>"
    "<question>When was it opened?</question><answer>It was opened in 1921.</answer>"
    "<think>Both hold.</think><verification>Supported</verification>"
)
MINICHECK = "bespokelabs/Bespoke-MiniCheck-7B"
ENTRY = """
[mine]
method = "few_shot"
base_url = "{url}"
model = "my-model"
revision = "snapshot 1"
"""
"""Without a revision the address is part of the keys."""
CRITERIA = "is_question single_focus no_conjunctions verifiable grounded".split()
QUESTION = "Who opened the bridge of Varn?"
REPLY = """\
fact_1 = Verify("Ilva Torbeck opened the bridge of Varn.")
label = Predict(fact_1)
<question>Who opened the bridge of Varn?</question>
<question>When was it opened?</question>
<answer>1</answer>
So the final answer is: Supported"""
HOSTED = (
    "simple-endpoint-faithful",
    "cot-qwen2.5-7b-faithful",
    "self_ask-qwen2.5-7b-faithful",
    "program_fc-endpoint-faithful",
    "qacheck-endpoint-faithful",
    "minicheck-7b",
    "mine",
)
HERE = ("self_ask-rules-faithful", "minicheck-lexical", "decomposerl-tiny")


def reply_to(asked: Mapping[str, Any]) -> str:
    """A reply that the asker can read: one question where it wants one, then the end."""
    prompt = "\n".join(message["content"] for message in asked["messages"])
    if asked.get("max_tokens") == 1:
        return "Yes"
    if "single_focus" in prompt:
        return "<answer>\n" + "\n".join(f"{name}:YES" for name in CRITERIA) + "\n</answer>"
    if "NOT_ENOUGH_INFO" in prompt:
        return "<answer>SUPPORTED</answer>"
    asks_on = "the question alone" in prompt or asked.get("stop")
    return f"Follow up: {QUESTION}" if asks_on and QUESTION not in prompt else REPLY


class EveryEndpoint(ThreadingHTTPServer):
    """Chat and embedding models at one address; ``asked`` counts their requests."""

    daemon_threads = True

    def __init__(self) -> None:
        """Listen on a free port of loopback."""
        super().__init__(("127.0.0.1", 0), _Handler)
        self.asked = 0
        self.url = f"http://127.0.0.1:{self.server_port}/v1"

    def __enter__(self) -> Self:
        """Serve until the block ends."""
        Thread(target=self.serve_forever, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        """Stop serving."""
        self.shutdown()
        self.server_close()


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: EveryEndpoint

    def do_GET(self) -> None:
        """The list of models, with the one that is looked for."""
        self._send({"data": [{"id": MINICHECK}]})

    def do_POST(self) -> None:
        """A reply, or vectors."""
        asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.server.asked += 1
        if "input" in asked:
            vectors = [{"index": i, "embedding": [0.6, 0.8]} for i in range(len(asked["input"]))]
            self._send({"model": asked["model"], "data": vectors})
            return
        likely = [{"token": "Yes", "logprob": -0.1}, {"token": "No", "logprob": -2.4}]
        choice = {
            "finish_reason": "stop",
            "message": {"content": reply_to(asked)},
            "logprobs": {"content": [likely[0] | {"top_logprobs": likely}]},
        }
        self._send({"model": asked["model"], "choices": [choice]})

    def _send(self, value: Mapping[str, object]) -> None:
        body = json.dumps(value).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Silence."""


def paper_settings(url: str) -> dict[str, str]:
    """The paper's profile with every endpoint at one address, without what is on no machine."""
    roles = "CHAT JUDGE EMBEDDER QUESTIONS VERIFIER EVALUATION ENDPOINT".split()
    return {f"DECOMPOSERL_{role}_URL": url for role in roles} | {
        "DECOMPOSERL_PROFILE": "paper",
        "DECOMPOSERL_MAPPER": "in_process",
        "DECOMPOSERL_ENDPOINT_MODEL": "my-model",
        "DECOMPOSERL_ALLOW_OWN_PROMPT": "yes",
        "DECOMPOSERL_VERIFIER_TOKENIZER": "bytes",
        "DECOMPOSERL_TOKENIZER": str(TINY),
    }


def lines_of_keys(folder: Path, url: str) -> dict[str, Line]:
    """The lines that ask and store, each in a data folder of its own, by name."""
    claim, trace = folder / "claim.jsonl", folder / "trace.jsonl"
    claim.write_text(json.dumps(CLAIM), "utf-8")
    trace.write_text(json.dumps(CLAIM | {"trace": TRACE, "label": "Supported"}), "utf-8")
    hosted, lines = paper_settings(url), {}

    def add(name: str, settings: Mapping[str, str], *words: str) -> None:
        lines[name] = Line(words, plain_environment(folder / name, **settings))

    for system in (*HOSTED, *HERE):
        settings = hosted if system in HOSTED else {}
        add(system, settings, "verify", str(claim), "--json", "--system", system)
    for name, settings in (("paper", hosted), ("embedded", {})):
        out = str(folder / f"{name}.parquet")
        add(f"rewards, {name}", settings, "score", str(trace), "--out", out)
    add("funnel, paper", hosted, "ports", "verifier", "embedder", "decomposer")
    add("funnel, embedded", {}, "ports", "entities", "verifier", "embedder", "decomposer")
    (folder / "mine/data").mkdir()
    (folder / "mine/data/systems.toml").write_text(ENTRY.format(url=url), "utf-8")
    return lines


def write_policy(data: Path) -> None:
    """The trained policy ``tiny`` as a run leaves it; its adapter has the same bytes everywhere."""
    import numpy as np
    from safetensors.numpy import save_file

    from decomposerl.schemas import CURVES

    shutil.copytree(TINY, data / "base_policy")
    adapter = data / "policy/tiny/adapter"
    adapter.mkdir(parents=True)
    width = json.loads((TINY / "config.json").read_text("utf-8"))["hidden_size"]
    layer, shapes = "layers.0.self_attn.q_proj", {"A": (2, width), "B": (width, 2)}
    weights = {
        f"base_model.model.model.{layer}.lora_{one}.weight": np.full(shape, 1 / 64, "f4")
        for one, shape in shapes.items()
    }
    save_file(weights, adapter / "adapter_model.safetensors", {"format": "pt"})
    lora = {"peft_type": "LORA", "r": 2, "lora_alpha": 8, "target_modules": [layer]}
    (adapter / "adapter_config.json").write_text(json.dumps(lora), "utf-8")
    CURVES.empty().write_parquet(data / "policy/tiny/curves.parquet")
    places = {"adapter": "adapter", "curves": "curves.parquet"}
    empty = {key: {} for key in ("before", "after", "judge", "seconds", "versions")}
    outcome = {"steps": 7, "resumed_from": 0, "stopped": "", **places, **empty}
    (data / "policy/tiny/outcome.json").write_text(json.dumps(outcome), "utf-8")


def stored_keys(folder: Path) -> dict[str, object]:
    """For each line how many requests it made, and the keys under which it keeps their answers."""
    entries: dict[str, object] = {}
    with EveryEndpoint() as server, Child(folder) as child:
        lines = lines_of_keys(folder, server.url)
        write_policy(folder / "decomposerl-tiny/data")
        for name, line in lines.items():
            before, ended = server.asked, child.run(line)
            counted = {"exit code": ended.code, "requests": server.asked - before}
            entries[name] = counted | kept_in(folder / name / "data")
    return entries


def kept_in(data: Path) -> dict[str, object]:
    """The keys in a data folder: chat replies, and the shards of predictions and results."""
    kept: dict[str, object] = {}
    for file in sorted(data.rglob("*.sqlite")):
        query = "SELECT key, model, revision, template FROM replies ORDER BY key"
        with closing(sqlite3.connect(file)) as connection:
            rows = [" ".join(row) for row in connection.execute(query)]
        kept[file.relative_to(data).as_posix()] = rows
    for root in ("prediction_shards", "engine_results"):
        for file in sorted(data.glob(f"{root}/**/*.parquet")):
            table = pq.read_table(file)
            engine = (table.schema.metadata or {}).get(b"engine", b"").decode()
            name = file.parent.relative_to(data).as_posix()
            kept[name] = {"engine": engine, "keys": sorted(table["key"].to_pylist())}
    return kept


def ask_ports(names: Sequence[str]) -> None:
    """Put one question to each of these engines of the environment's profile."""
    from dagster_project.engine_resources import resources_for
    from dagster_project.environment import read_settings

    claim, pair = CLAIM["claim"], (CLAIM["evidence"], CLAIM["claim"])
    questions = {
        "entities": lambda engine: engine.entities([claim]),
        "verifier": lambda engine: engine.support_probability([pair]),
        "embedder": lambda engine: engine.embed([claim]),
        "decomposer": lambda engine: engine.decompose([pair]),
    }
    resources = resources_for(read_settings())
    for name in names:
        with resources[name].process_config_and_initialize_cm() as resource:
            questions[name](resource.open())


# == A day ==


DAY_ENTRY = """
[mine]
method = "simple"
base_url = "{url}"
model = "tiny"
revision = "snapshot 1"
key = "DAY_KEY"
concurrency = 1
"""
KEY = "sk-of-the-day"
DAY_CLAIMS = tuple(f"Ilva Torbeck opened bridge {number} of Varn." for number in range(1, 8))
SUPPORTED, REFUTED = replying("Supported"), replying("Refuted")
BUSY = Answer(429, {"Retry-After": "0.02"}, b'{"error": {"message": "too fast"}}')
QUOTA = Answer(429, {"Retry-After": "3600"}, b'{"error": {"message": "quota"}}')
TOO_MANY = Answer(400, {}, b'{"error": {"message": "one request too many"}}')
MORNING = (
    *(SUPPORTED, REFUTED),
    *(BROKEN, SUPPORTED),
    *(BUSY, REFUTED),
    *(CUT, SUPPORTED),
    *(replying("Perhaps."), replying("Who knows?")),
    REFUSED,
)
"""Claims 1 and 2; 3 to 5 after a passing fault; nonsense for 6, also when repeated; 7 refused."""
DAY: Mapping[str, tuple[Answer, ...]] = {
    "morning": MORNING,
    "noon, quota": (QUOTA,),
    "evening, wrong key": (UNKNOWN_KEY,),
    "night": (SUPPORTED,),
    "next day": (),
}
"""The server's answers to each run of the same seven claims; what is stored is not asked again."""


def scripted_day(folder: Path) -> dict[str, object]:
    """Each run's requests, verdicts, exit code and last lines; and what is stored at the end.

    An endpoint that refuses connections is tried five times within seconds, beside the other runs.
    """
    claims = [json.dumps({"claim": one, "evidence": EVIDENCE}) for one in DAY_CLAIMS]
    entries: dict[str, object] = {}
    with refusing_port() as closed, Child(folder) as child, Child(folder) as other:
        other.start(day_line(folder / "refused", closed, claims[:1]))
        for name, script in DAY.items():
            with FaultServer(script, usual=TOO_MANY) as server:
                ended = child.run(day_line(folder / "day", server.url, claims))
                shown = shown_end(ended, server.url)
                entries[name] = shown | {"requests": shown_requests(server)}
        entries["refused connections"] = shown_end(other.end(), closed)
    return entries | {"stored": stored_replies(folder / "day/data")}


def day_line(folder: Path, url: str, claims: Sequence[str]) -> Line:
    """``decomposerl verify`` of these claims, with the entry at this address."""
    environment = plain_environment(folder, DAY_KEY=KEY)
    (folder / "data").mkdir(exist_ok=True)
    (folder / "data/systems.toml").write_text(DAY_ENTRY.format(url=url), "utf-8")
    return Line(("verify", "-", "--json", "--system", "mine"), environment, "\n".join(claims))


@contextmanager
def refusing_port() -> Iterator[str]:
    """An address of this machine that refuses connections as long as the block runs."""
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        yield f"http://127.0.0.1:{held.getsockname()[1]}/v1"


def shown_end(ended: Ended, url: str) -> dict[str, object]:
    """Exit code, a line for each claim, and the last lines on standard error, without addresses."""
    assert KEY not in ended.out + ended.errors
    claims = [
        f"{line['verdict']} {line['status']} {digest(line)} {line['warnings']}"
        for line in map(json.loads, ended.out.replace(url, "URL").splitlines())
    ]
    errors = ended.errors.replace(url, "URL").splitlines()
    return {"exit code": ended.code, "claims": claims, "last lines": errors[-3:]}


def shown_requests(server: FaultServer) -> list[str]:
    """Each request in order: its claim, path, key, a hash of its words, and its settings."""
    shown = []
    for head, key, body in zip(server.heads, server.authorizations, server.asked, strict=True):
        words = body.pop("messages")
        claim = next(n for n, one in enumerate(DAY_CLAIMS, 1) if one in words[-1]["content"])
        settings = json.dumps(body, sort_keys=True)
        path = head.partition(" HTTP")[0]
        shown.append(f"claim {claim}: {path} {key} {digest(words)} {settings}")
    return shown


def stored_replies(data: Path) -> list[str]:
    """The replies that a data folder has, without their times."""
    (file,) = data.rglob("*.sqlite")
    columns = (
        "key, model, revision, template, finish_reason, prompt_tokens, completion_tokens, text"
    )
    query = f"SELECT {columns} FROM replies ORDER BY key"  # noqa: S608 - ours
    with closing(sqlite3.connect(file)) as connection:
        return [" ".join(map(str, row)) for row in connection.execute(query)]


STORED = (Row("stored_keys", stored_keys), Row("scripted_day", scripted_day))


if __name__ == "__main__":
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # whatever else is printed
    for line in sys.stdin:
        print(json.dumps(asdict(run_line(Line(**json.loads(line))))), file=answers, flush=True)
