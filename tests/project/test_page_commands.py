"""Every shell block of the pages on GPUs and costs runs, or says that it is not run."""

import json
import re
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from decomposerl.training.layout import GIB, LAYOUTS
from documents import joined
from page_commands import HEAD, Desk, blocks, desk_in, sessions, stand_ins, write_programs
from project import ROOT

REASON = re.compile(r"^ *Not run by a test: \w.{9}", re.MULTILINE)
GPUS = (ROOT / "docs/how-to/gpus.md").read_text("utf-8")
CARDS = {layout.name: str(layout.gpu.gib * GIB / 1e9) for layout in LAYOUTS}
TWO_CARDS = {
    "Bespoke-MiniCheck-7B, the verifier": "--data-parallel-size 2",
    "Qwen3-32B, the judge, and silver sub-questions in `local`": "--tensor-parallel-size 2",
    "Qwen3-Embedding-8B, questions of traces": "--data-parallel-size 2",
}
COSTS, RESUMING = (
    (ROOT / f"docs/how-to/{name}.md").read_text("utf-8") for name in ("costs", "resume")
)


@pytest.fixture(scope="module")
def desk(tmp_path_factory: pytest.TempPathFactory) -> Desk:
    return desk_in(tmp_path_factory.mktemp("desk"), GPUS)


@pytest.mark.parametrize("heading", sessions(GPUS))
def test_every_command_of_the_gpu_page_runs(desk: Desk, heading: str):
    """As printed, with what the page's table replaces; a layout asks judge and embedder."""
    journal = desk.folder / "held.requests"
    journal.unlink(missing_ok=True)
    card = {"STAND_IN_CARD_GB": CARDS[heading]} if heading in CARDS else {}
    status, printed = desk.run(GPUS, sessions(GPUS)[heading], **card)
    assert 0 == status, printed[-4_000:]
    asked = {json.loads(line)["path"] for line in requests(journal)}
    assert asked == ({"/v1/chat/completions", "/v1/embeddings"} if heading in CARDS else set())


def requests(journal: Path) -> list[str]:
    return journal.read_text().splitlines() if journal.exists() else []


def test_a_block_that_is_not_run_says_so():
    """Each sentence has a reason and belongs to one block; a replaced word stands on the page."""
    body = GPUS.split(HEAD, maxsplit=1)[0] + GPUS.split(HEAD)[1].split("\n\n", 1)[1]
    assert [] == [printed for printed in stand_ins(GPUS) if printed not in body]
    assert sum(block.not_run for block in blocks(GPUS)) == len(REASON.findall(GPUS))
    assert len(blocks(GPUS)) == len(re.findall(r"^ *```(?:sh|bash|console)$", GPUS, re.MULTILINE))


TOY = f"""\
# Toy

{HEAD}
| --- | --- |
| `tests/support/vllm_stand_in.py` | `vllm` |
| `echo well` | `echo badly` |

```sh
# one card, or two
vllm serve a/model --port 8000 --max-model-len 4k
vllm serve a/model --port 8000 --tensor-parallel-size 2
curl -sf http://127.0.0.1:8000/v1/models
each() {{ echo "the $1"; }}
echo badly > word
```

```sh
each first
each second
cat word
```

```sh
exit 3
```

Not run by a test: it fails.
"""


def test_a_session_keeps_the_words_of_its_page(tmp_path: Path):
    """Servers answer in turn at one free port, words are replaced, blocks share one shell."""
    write_programs(tmp_path / "programs", stand_ins(TOY), sys.executable, ROOT)
    status, printed = Desk(tmp_path).run(TOY, sessions(TOY)["Toy"])
    assert 0 == status, printed
    said = ("the first", "the second", "well", "badly")
    assert ["the first", "well"] == [words for words in said if words in printed]
    starts = [line for line in printed.splitlines() if "stand-in starts with" in line]
    assert ["--max-model-len 4k", "--tensor-parallel-size 2"] == [
        line.split(maxsplit=7)[-1] for line in starts
    ]
    assert 1 == len({line.split("--port ")[1].split()[0] for line in starts} - {"8000"})
    assert '"id": "a/model"' in printed


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
    write_programs(tmp_path / "programs", stand_ins(page), sys.executable, ROOT)
    status, _ = Desk(tmp_path).run(page, sessions(page)["Toy"])
    assert 0 != status


@pytest.mark.parametrize("heading", TWO_CARDS)
def test_a_server_takes_the_words_for_two_cards(desk: Desk, heading: str):
    """Its section names them, and vLLM's options have them."""
    words, (first, *_) = TWO_CARDS[heading], sessions(GPUS)[heading]
    section = GPUS.split(f"### {heading}\n")[1].split("\n#")[0]
    assert f"add `{words}`" in " ".join(section.split())
    wider = re.sub(r"(?m)^vllm serve .*$", rf"\g<0> {words}", joined(first.text))
    wider = replace(first, text=wider)
    status, printed = desk.run(GPUS, [wider])
    assert (0, True) == (status, words in printed), printed[-4_000:]


def test_every_command_of_the_page_on_costs_runs(desk: Desk):
    """The estimates of the profile and of a recipe."""
    (session,) = sessions(COSTS).values()
    status, printed = desk.run(COSTS, session)
    assert (0, 1) == (status, printed.count("Training no_necessity")), printed[-4_000:]


def test_the_page_on_resuming_has_one_block_that_is_not_run():
    """And says so; ``test_resume`` interrupts a funnel."""
    assert [True] == [block.not_run for block in blocks(RESUMING)]
    assert 1 == len(REASON.findall(RESUMING))
