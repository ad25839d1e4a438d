"""A day in the life of this project: its commands under kills, endpoint faults and flipped bits.

``python -m studies.soak [--minutes 60] [--seed 1] [--folder FOLDER] [--report PAGE]``, from the
root of a checkout, on the real corpora or, without them, the bundled sample. A first round without
faults says what the results are. In every other one the funnel, an evaluation and ``verify`` are
killed at seeded moments and run again, the endpoint fails every seventh request, single bits of
stored files are flipped, and what an error names as the next step is done; ``serve-rewards`` runs
all the time. Results that differ, tracebacks and files left behind are listed; the exit code is
then 1.
"""

import argparse
import hashlib
import json
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import httpx
import polars as pl
import psutil

from perf.pages import write_between_markers
from tests.support import fault_server as fault

ROOT = Path(__file__).resolve().parent.parent
CORPORA = ROOT.parent / "shared" / "corpora"
ENTRY = '[mine]\nmethod = "simple"\nmodel = "tiny"\nrevision = "1"\nbase_url = "{url}"\n'
CONFIG = ("--config", str(ROOT / "configs/real_corpora.yaml"))
FUNNEL = ("run", "training_claims", "catalog", "--upstream", *CONFIG)
EVALUATE = ("evaluate", "mine", "self_ask-rules-faithful", "--benchmarks", "hover,foolmetwice")
VERIFY = ("verify", "claims.jsonl", "--json", "--system", "mine")
RETRIEVE = (*VERIFY[:-1], "self_ask-rules-faithful", "--retrieve", "pages")
STAGES = "claims rule_filtered difficulty_band deduplicated decontaminated silver_decomposed"
READER = dict(pairwise([*STAGES.split(), "diversity_selected", "training_claims"]))
ENGINES = ("entities", "verifier", "embedder", "benchmark", "decomposer")
READER |= dict(zip(ENGINES, STAGES.split()[1:], strict=True))
READER |= dict.fromkeys(("scores", "predictions"), "leaderboard")
"""The stage that reads a file, by the file's name or folder; of others the catalogue."""
CHAT, LEFT = "chat_cache.sqlite", re.compile(r"\.(partial|building|writing)")
FAULTS, EVERY = (fault.BUSY, fault.BROKEN, fault.CUT, fault.NO_JSON), 7
FLIPS, CLAIMS, GROUPS, TRIES, OK, BAD_REQUEST = 4, 40, 5, 12, 200, 400
MEASURED = ("MB", "handles", "threads")
CLOCKED = ("latency_s", "cached")  # a reply of before a kill is read from the store
ENDINGS = {".parquet", ".json", ".sqlite", ".duckdb"}
NOT_COMPARED = {"logs", "engine_results", "prediction_shards", "chat_replies.parquet"}
HOSTILE = (b"{", b"[" * 200_000, b"\xff\xfe{}", json.dumps({"rollouts": "." * 300_000}).encode())


class Ended(NamedTuple):
    """How a command ended: exit code, standard output and error, seconds, peak memory in MB."""

    code: int
    out: str
    errors: str
    seconds: float
    peak: float


class Endpoint(fault.FaultServer):
    """A chat model whose verdict depends on the prompt alone."""

    def _well(self, asked: dict[str, Any], answer: fault.Answer) -> bytes:
        number = hashlib.sha256(asked["messages"][-1]["content"].encode()).digest()[0]
        verdict = fault.replying(("Supported", "Refuted")[number % 2])
        return super()._well(asked, fault.Answer(change=verdict.change | answer.change))


class Home:
    """A data folder with Dagster's history, and commands that use them."""

    def __init__(self, folder: Path) -> None:
        shutil.rmtree(folder, ignore_errors=True)  # of an earlier day
        self.folder, self.data = folder, folder / "data"
        self.out, self.errors = folder / "out", folder / "errors"
        for part in ("history", "data", "pages"):
            (folder / part).mkdir(parents=True)
        shutil.copy(ROOT / "dagster.yaml", folder / "history")

    @contextmanager
    def started(self, words: Sequence[str]) -> Iterator[subprocess.Popen[bytes]]:
        """A running command, which is killed at the end of the block; ``out`` has its output."""
        kept = {k: v for k, v in os.environ.items() if not k.startswith(("DECOMPOSE", "DAGSTER"))}
        kept |= {"DECOMPOSERL_CORPORA": str(CORPORA)} if CORPORA.is_dir() else {}
        kept |= {"DAGSTER_HOME": f"{self.folder}/history", "DECOMPOSERL_DATA": str(self.data)}
        kept |= {"PYTHONPATH": str(ROOT), "HF_HUB_OFFLINE": "1", "OMP_NUM_THREADS": "1"}
        program = [sys.executable, "-m", "dagster_project.cli", *words]
        with self.out.open("wb") as out, self.errors.open("wb") as errors:
            running = subprocess.Popen(  # noqa: S603 - our own program
                program, 0, None, None, out, errors, cwd=self.folder, env=kept, process_group=0
            )
            try:
                yield running
            finally:
                if running.poll() is None:
                    os.killpg(running.pid, signal.SIGKILL)
                    running.wait()

    def run(self, words: Sequence[str], kill_after: float = float("inf")) -> Ended:
        """A command to its end, or until it is killed after so many seconds."""
        began, peak = time.monotonic(), 0.0
        with self.started(words) as running:
            # Not what ``wait4`` says of its memory: that is at least this process's own.
            process = psutil.Process(running.pid)
            while running.poll() is None:
                if time.monotonic() - began > kill_after:
                    os.killpg(running.pid, signal.SIGKILL)
                with suppress(psutil.Error):
                    peak = max(peak, process.memory_info().rss / 2**20)
                time.sleep(0.02)
        seconds = time.monotonic() - began
        said = (path.read_text("utf-8", "replace") for path in (self.out, self.errors))
        return Ended(running.returncode, *said, seconds, peak)


class Day:
    """Rounds of the same work, with what was counted, measured in each round, and went wrong."""

    def __init__(self, folder: Path, seed: int) -> None:
        self.counts: Counter[str] = Counter()
        self.rounds: list[dict[str, float]] = []
        self.wrong: list[str] = []
        self.seed, self._drawn = seed, random.Random(seed)  # noqa: S311 - not for keys
        self._home, self._server = Home(folder / "home"), Home(folder / "server")
        self._kept, self._requests = folder / "kept", list[bytes]()
        self._calm: dict[Sequence[str], str] = {}
        self._seconds: dict[Sequence[str], float] = {}

    def check(self, what: str, *, holds: bool) -> None:
        """Note what went wrong where a promise does not hold."""
        if not holds:
            self.wrong.append(f"round {len(self.rounds) + 1}: {what}"[:600])
            print("WRONG", self.wrong[-1], flush=True)

    def first_round(self) -> None:
        """Do all once without faults; keep the results, and what engines here computed."""
        results = self._home.data / "engine_results"
        if self._kept.is_dir():  # embedding the real corpora takes minutes
            shutil.copytree(self._kept, results)
        with Endpoint() as server:
            self._point_to(server)
            for words in (FUNNEL, EVALUATE, VERIFY, RETRIEVE):
                self._calm[words] = self._done(words, self._run(words)).out
                if words is FUNNEL:
                    self._write_claims()
        self._tables = contents(self._home.data)
        ignored = shutil.ignore_patterns(f"{CHAT}*")
        shutil.copytree(results, self._kept, dirs_exist_ok=True, ignore=ignored)

    def go_on(self, minutes: float) -> None:
        """Rounds until the time is over, beside one server of rewards that runs all the time."""
        end = time.monotonic() + 60 * minutes
        with self._server.started(("serve-rewards", "--port", "0")) as running:
            while not (address := re.search(r"http://\S+", self._server.errors.read_text())):
                time.sleep(0.1)
            calm = [ask(address[0], body) for body in self._requests]
            answered = all(status == OK for status, _ in calm)
            self.check("a request for rewards was refused", holds=answered)
            while time.monotonic() < end:
                measured = self._round()
                for body in HOSTILE:
                    self.counts["hostile requests for rewards"] += 1
                    refused = ask(address[0], body)[0] == BAD_REQUEST
                    self.check(f"{body[:20]!r} was not refused", holds=refused)
                same = [ask(address[0], body) for body in self._requests] == calm
                self.check("the rewards differ", holds=same)
                self.rounds.append(measured | state_of(running.pid))
                print(json.dumps(self.rounds[-1]), dict(self.counts), flush=True)

    def _round(self) -> dict[str, float]:
        """Everything anew but what engines here computed, with kills, faults and flips."""
        data, draw = self._home.data, self._drawn
        shutil.rmtree(data)
        shutil.copytree(self._kept, data / "engine_results")
        script = [
            fault.WELL if draw.randrange(EVERY) else draw.choice(FAULTS) for _ in range(20_000)
        ]
        measured = {}
        with Endpoint(script) as server:
            self._point_to(server)
            for words in (FUNNEL, EVALUATE, VERIFY, RETRIEVE):
                ended = self._killed_and_repeated(words)
                measured[f"{words[0]}, peak MB"] = ended.peak
                same = words[0] != "verify" or ended.out == self._calm[words]
                self.check(f"{' '.join(words)} answers otherwise", holds=same)
            self._compare("after kills and faults")
            for _ in range(FLIPS):
                self._flip()
        failed = [answer for answer in script[: len(server.asked)] if answer is not fault.WELL]
        self.counts["requests to the endpoint"] += len(server.asked)
        self.counts["requests that it failed"] += len(failed)
        left = [path.name for path in data.rglob(".*") if LEFT.search(path.name)]
        self.check(f"left behind: {left}", holds=not left)
        size = sum(path.stat().st_size for path in data.rglob("*") if path.is_file())
        return measured | {"data folder, MB": size / 2**20}

    def _killed_and_repeated(self, words: Sequence[str]) -> Ended:
        """How the command ends after one or two kills, and after runs that faults have failed."""
        for _ in range(self._drawn.randint(1, 2)):
            moment = self._drawn.uniform(0.1, 0.95) * self._seconds[words]
            self.counts[f"kills of {words[0]}"] += self._run(words, moment).code < 0
        for _ in range(TRIES):
            ended = self._run(words)
            if ended.code == 0:
                break
            self.counts["commands that ended with an error and were repeated"] += 1
        return self._done(words, ended)

    def _done(self, words: Sequence[str], ended: Ended) -> Ended:
        self.counts["commands that ended well"] += ended.code == 0
        self._seconds[words] = ended.seconds
        self.check(f"{' '.join(words)}: {ended.errors[-300:]}", holds=ended.code == 0)
        return ended

    def _run(self, words: Sequence[str], kill_after: float = float("inf")) -> Ended:
        """Run a command, whose output must never be a traceback."""
        ended = self._home.run(words, kill_after)
        said = ended.out + ended.errors
        self.check(f"traceback of {words[0]}: {said[-300:]}", holds="Traceback" not in said)
        return ended

    def _flip(self) -> None:
        """Flip a bit of a stored file, let a command read it, and do what its error names."""
        stored = (path for path in self._home.data.rglob("*") if path.suffix in ENDINGS)
        file = self._drawn.choice(sorted(path for path in stored if path.stat().st_size))
        bit = self._drawn.randrange(8 * file.stat().st_size)
        damaged = bytearray(whole := file.read_bytes())
        damaged[bit // 8] ^= 1 << bit % 8
        file.write_bytes(damaged)
        os.utime(file, (bit, bit))  # long ago: a decaying disk touches no file
        name = file.relative_to(self._home.data).as_posix()
        words = self._reader_of(name)
        ended = self._run(words)
        self.counts["flipped bits"] += 1
        if ended.code:
            self.counts["flipped bits that an error named"] += 1
            step = re.search(r"decomposerl ([^()\n]+) \(stored|(start again)", "".join(ended[1:3]))
            self.check(f"{name}: no next step: {ended.errors[-300:]}", holds=step is not None)
            if step and step[1]:
                self._done(words, self._run(step[1].split()))
            self._done(words, self._run(words))
        if file.is_file() and file.read_bytes() == damaged:
            self.counts["flipped bits that changed no result"] += 1
            file.write_bytes(whole)
        self._compare(f"after bit {bit} of {name}, read by {' '.join(words)}")

    def _reader_of(self, name: str) -> Sequence[str]:
        """A command that reads a file of the data folder."""
        folder, _, rest = name.partition("/")
        if rest.startswith(CHAT):  # predictions would be read from their own files
            shutil.rmtree(self._home.data / "prediction_shards")
        if rest.startswith(CHAT) or folder == "prediction_shards":
            return EVALUATE
        part = rest.partition("/")[0] if folder == "engine_results" else folder
        stage = READER.get(part.removesuffix(".parquet"))
        return ("run", stage, *CONFIG) if stage else ("run", "attrition", "catalog")

    def _compare(self, when: str) -> None:
        now, calm = contents(self._home.data), self._tables
        differ = sorted(name for name in now | calm if now.get(name) != calm.get(name))
        self.check(f"{when}: {differ}", holds=not differ)

    def _point_to(self, server: fault.FaultServer) -> None:
        (self._home.data / "systems.toml").write_text(ENTRY.format(url=server.url), "utf-8")

    def _write_claims(self) -> None:
        """Claims to verify, their evidence as pages, and requests for rewards of them."""
        table = pl.read_parquet(self._home.data / "decontaminated.parquet")
        rows = table.sample(CLAIMS, seed=self.seed).select("claim", "evidence").to_dicts()
        claims = self._home.folder / "claims.jsonl"
        claims.write_text("\n".join(map(json.dumps, rows)), "utf-8")
        for number, row in enumerate(rows):
            (self._home.folder / f"pages/{number}.md").write_text(row["evidence"], "utf-8")
        self._requests = [*map(rollouts, rows[:GROUPS])]

    def table(self, minutes: float) -> str:
        """The day as Markdown: what was done, what was measured, and what went wrong."""
        corpora = "the real corpora" if CORPORA.is_dir() else "the bundled sample"
        quarter = -(-len(self.rounds) // 4)
        done = "; ".join(f"{number:,} {name}" for name, number in sorted(self.counts.items()))
        day = f"{minutes:.0f} minutes on {corpora}, seed {self.seed}, {len(self.rounds)} rounds"
        lines = [
            f"{day}: {done}. Broken promises: {len(self.wrong)}.",
            "\n| Median of a round | First quarter | Last quarter | Most |",
            "| --- | ---: | ---: | ---: |",
        ]
        rounds = pl.DataFrame(self.rounds)
        for name, values in zip(rounds.columns, rounds, strict=True):
            shown = values.head(quarter).median(), values.tail(quarter).median(), values.max()
            lines.append(f"| {name} | {' | '.join(f'{number:,.0f}' for number in shown)} |")
        return "\n".join([*lines, "", *(f"- {one}" for one in self.wrong)]).rstrip()


def rollouts(row: Mapping[str, str]) -> bytes:
    """A request for rewards: four rollouts of a claim, with other answers and verdicts."""
    traces = [
        f"<think>One.</think><question>What is said of {row['claim']}</question>"
        f"<answer>{row['evidence'][: 50 * number]}</answer><think>Done.</think>"
        f"<verification>{('Supported', 'Refuted')[number % 2]}</verification>"
        for number in range(4)
    ]
    same = {**row, "label": "Supported", "n_star": 2, "group": "0"}
    listed = [{**same, "rollout": number, "trace": text} for number, text in enumerate(traces)]
    return json.dumps({"group_size": len(traces), "rollouts": listed}).encode()


def contents(data: Path) -> Mapping[str, str]:
    """A digest of each table of a data folder, without what a clock or a kill decides."""
    digests = {}
    for path in sorted(data.rglob("*.parquet")):
        if not NOT_COMPARED & set(path.relative_to(data).parts):
            table = pl.read_parquet(path).drop(CLOCKED, strict=False).write_json()
            digests[str(path.relative_to(data))] = hashlib.sha256(table.encode()).hexdigest()
    return digests


def ask(url: str, body: bytes) -> tuple[int, bytes]:
    """Status and body of the answer to a request for rewards."""
    form = {"Content-Type": "application/json"}
    reply = httpx.post(url, content=body, headers=form, timeout=300)
    return reply.status_code, reply.content


def state_of(pid: int) -> Mapping[str, float]:
    """Memory, open handles and threads of the server of rewards."""
    server = psutil.Process(pid)
    numbers = server.memory_info().rss / 2**20, server.num_fds(), server.num_threads()
    return dict(zip([f"serve-rewards, {of}" for of in MEASURED], numbers, strict=True))


def main() -> int:
    """Run the day, print its table and write it into a page; 1 where a promise was broken."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--minutes", type=float, default=60.0)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--folder", type=Path, default=Path(".soak"))
    parser.add_argument("--report", type=Path, help="Markdown page that gets the table")
    options = parser.parse_args()
    day = Day(options.folder.resolve(), options.seed)
    day.first_round()
    began = time.monotonic()
    day.go_on(options.minutes)
    text = day.table((time.monotonic() - began) / 60)
    print(text)
    if options.report:
        write_between_markers(options.report, "soak", text)
    return int(bool(day.wrong))


if __name__ == "__main__":
    sys.exit(main())
