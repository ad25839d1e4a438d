"""Every shell block of the how-to pages runs, or says that it is not run."""

import json
import re
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from decomposerl.claims.catalogue import BENCHMARKS
from decomposerl.funnel.settings import DecontaminationSettings
from decomposerl.schemas import BENCHMARK_CLAIMS, CURVES
from decomposerl.training.memory import GIB
from documents import joined
from evaluation_graph import write_tests
from metrics_parts import write
from page_commands import (
    HEAD,
    Block,
    Desk,
    blocks,
    desk_in,
    project_in,
    sessions,
    stand_ins,
    write_programs,
    write_silver,
)
from project import ROOT
from resources.store.parquet import write_parquet
from resources.training.process import TrainingOutcome
from resources.training.run_store import RunFolder, write_outcome
from stand_in_server import adapter
from studies.reference.layouts import LAYOUTS

REASON = re.compile(r"^ *Not run by a test: \w.{9}", re.MULTILINE)
SHELL = re.compile(r"^ *```(?:sh|bash|console)$", re.MULTILINE)
PAGES = {
    name: (ROOT / "docs" / f"{name}.md").read_text("utf-8")
    for name in ("how-to/gpus", "how-to/costs", "how-to/resume", "how-to/evaluate",
                 "how-to/paper-tables", "how-to/scaling", "results/baselines", "results/intervals")
}  # fmt: skip
GPUS, COSTS = PAGES["how-to/gpus"], PAGES["how-to/costs"]
CARDS = {layout.name: str(layout.gib * GIB / 1e9) for layout in LAYOUTS}
TWO_CARDS = {
    "Bespoke-MiniCheck-7B, the verifier": "--data-parallel-size 2",
    "Qwen3-32B, the judge, and silver sub-questions in `local`": "--tensor-parallel-size 2",
    "Qwen3-Embedding-8B, questions of traces": "--data-parallel-size 2",
}
REPLACED = f"""\
{HEAD}
| --- | --- |
| `tests/support/vllm_stand_in.py` | `vllm` |
| `--partition simple-qwen2.5-7b-faithful` | `--partition decomposerl-paper_7b` |

"""


def test_a_block_that_is_not_run_says_so():
    """Each sentence has a reason and belongs to one block; a replaced word stands on the page."""
    for name, page in PAGES.items():
        assert sum(block.not_run for block in blocks(page)) == len(REASON.findall(page)), name
        assert len(blocks(page)) == len(SHELL.findall(page)), name
    assert [True] == [block.not_run for block in blocks(PAGES["how-to/resume"])]
    body = GPUS.split(HEAD, maxsplit=1)[0] + GPUS.split(HEAD)[1].split("\n\n", 1)[1]
    assert [] == [printed for printed in stand_ins(GPUS) if printed not in body]


@pytest.fixture(scope="module")
def desk(tmp_path_factory: pytest.TempPathFactory, warm: Path) -> Desk:
    return desk_in(tmp_path_factory.mktemp("desk"), GPUS, warm)


@pytest.mark.parametrize("heading", sessions(GPUS))
def test_every_command_of_the_gpu_page_runs(desk: Desk, heading: str):
    """As printed, with what the page's table replaces; a layout asks judge and embedder."""
    journal = desk.folder / "held.requests"
    journal.unlink(missing_ok=True)
    card = {"STAND_IN_CARD_GB": CARDS[heading]} if heading in CARDS else {}
    status, printed = desk.run(GPUS, sessions(GPUS)[heading], **card)
    assert 0 == status, printed[-4_000:]
    lines = journal.read_text().splitlines() if journal.exists() else []
    asked = {json.loads(line)["path"] for line in lines}
    assert asked == ({"/v1/chat/completions", "/v1/embeddings"} if heading in CARDS else set())


@pytest.mark.parametrize("heading", TWO_CARDS)
def test_a_server_takes_the_words_for_two_cards(desk: Desk, heading: str):
    """Its section names them, and vLLM's options have them."""
    words, (first, *_) = TWO_CARDS[heading], sessions(GPUS)[heading]
    section = GPUS.split(f"### {heading}\n")[1].split("\n#")[0]
    assert f"add `{words}`" in " ".join(section.split())
    wider = re.sub(r"(?m)^vllm serve .*$", rf"\g<0> {words}", joined(first.text))
    status, printed = desk.run(GPUS, [replace(first, text=wider)])
    assert (0, True) == (status, words in printed), printed[-4_000:]


def test_every_command_of_the_page_on_costs_runs(desk: Desk):
    """The estimates of the profile and of a recipe."""
    (session,) = sessions(COSTS).values()
    status, printed = desk.run(COSTS, session)
    assert (0, 1) == (status, printed.count("Training no_necessity")), printed[-4_000:]


TOY = f"""\
# Toy

{HEAD}
| --- | --- |
| `tests/support/vllm_stand_in.py` | `vllm` |
| `echo well` | `echo badly` |

```sh
vllm serve a/model --port 8000 --max-model-len 4k
curl -sf http://127.0.0.1:8000/v1/models
each() {{ echo "the $1"; }}
echo badly
```

```sh
each first
each second
```

```sh
exit 3
```

Not run by a test: it fails.
"""


def toy(folder: Path, page: str) -> tuple[int, str]:
    write_programs(folder / "programs", stand_ins(page), sys.executable, ROOT)
    return Desk(folder).run(page, sessions(page)["Toy"])


def test_a_session_keeps_the_words_of_its_page(tmp_path: Path):
    """A server answers at a free port, words are replaced, blocks share one shell."""
    status, printed = toy(tmp_path, TOY)
    assert 0 == status, printed
    said = ("the first", "the second", "well", "badly", '"id": "a/model"', "--port 8000")
    shown = [words for words in said if words in printed]
    assert ["the first", "well", '"id": "a/model"'] == shown


@pytest.mark.parametrize(
    "wrong",
    [
        "vllm serve a/model --port 8000 --max-model-length 4k",
        "vllm serve Qwen/Qwen3-32B --port 8000 --max-model-len 32768",
        "false",
        "curl -sf http://127.0.0.1:8000/v1/models",
    ],
)
def test_a_block_that_fails_is_noticed(tmp_path: Path, wrong: str):
    """A flag that vLLM does not have, a cache too small, a failing command, no server."""
    page = TOY.replace("vllm serve a/model --port 8000 --max-model-len 4k\n", f"{wrong}\n")
    assert 0 != toy(tmp_path, page)[0]


@pytest.fixture(scope="module")
def evaluated(tmp_path_factory: pytest.TempPathFactory, warm: Path) -> Desk:
    """A desk with test sets of a few claims, two adapters, and files of other projects."""
    desk = project_in(tmp_path_factory.mktemp("evaluated"), REPLACED, warm)
    data = desk.folder / "data"
    write_silver(data)
    write_tests(data, 6)
    for benchmark in BENCHMARKS:
        path = data / f"benchmark/{benchmark.name}.parquet"
        if not path.exists():
            write_parquet(BENCHMARK_CLAIMS.empty(), path)
    record = {"status": "ok", "config": DecontaminationSettings().model_dump_json()}
    (data / "stage_runs").mkdir(exist_ok=True)
    (data / "stage_runs/decontaminated.json").write_text(json.dumps(record))
    for name in ("paper_7b", "no_necessity"):
        run = RunFolder(data / "policy" / name)
        run.path.mkdir(parents=True)
        adapter(run.adapter, rank=64)
        write_parquet(CURVES.empty(), run.curves)
        write_outcome(run, TrainingOutcome(7, 0, "", run.adapter, run.curves, {}, {}, {}, {}, {}))
    write_predictions(desk.folder)
    return desk


def write_predictions(folder: Path) -> None:
    """The files that ``decomposerl metrics`` reads."""
    labels = ("SUPPORTS", "REFUTES", "SUPPORTS", "REFUTES")
    gold = [{"id": n, "label": label} for n, label in enumerate(labels)]
    scores = [{"id": n, "p": 0.9 - 0.2 * n, "dataset": "ab"[n % 2]} for n in range(4)]
    write(folder / "said.jsonl", [{"id": n, "predicted_label": "SUPPORTS"} for n in range(4)])
    write(folder / "scores.csv", [one | two for one, two in zip(scores, gold, strict=True)])
    parts = [{"meta": {"id": n}, "label": ("supported", "refuted")[n % 2]} for n in range(4)]
    for name in ("test", "dev"):
        write(folder / f"{name}.json", [{"id": n, "p": 0.9 - 0.2 * n} for n in range(4)])
        write(folder / f"{name}.jsonl", parts)
    write(folder / "chunks.parquet", [{"id": n // 2, "p": 0.1 * n} for n in range(8)])
    for ending in ("csv", "tsv", "jsonl"):
        write(folder / f"gold.{ending}", gold)
    write(folder / "predictions.jsonl", [{"predicted_label": one} for one in labels])
    answer = {"answer": "SUPPORTS", "model": "ours", "split": "dev", "hops": 2, "dataset": "a"}
    write(folder / "all.jsonl", [answer | row for row in gold])


def test_every_command_of_the_evaluation_page_runs(evaluated: Desk):
    """In the page's order, over one data folder: later blocks read what earlier ones wrote."""
    page, printed = REPLACED + PAGES["how-to/evaluate"], {}
    for heading, session in sessions(page).items():
        status, printed[heading] = evaluated.run(page, session, STAND_IN_SAYS="Supported")
        assert 0 == status, f"{heading}: {printed[heading][-4_000:]}"
    (example,) = re.findall(r"```\n(System .*?)```", page, re.DOTALL)
    assert example in printed["Score a system"]


def test_every_command_for_the_papers_tables_runs(evaluated: Desk):
    """As one shell session, which the page asks for; of each block the first system."""
    page = REPLACED + PAGES["how-to/paper-tables"]
    whole: list[Block] = [block for session in sessions(page).values() for block in session]
    status, printed = evaluated.run(page, whole, STAND_IN_SAYS="Supported")
    assert 0 == status, printed[-4_000:]
