"""Requests for rewards, a reward server in a thread, and the example clients of the documents."""

import ast
import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib.util import module_from_spec, spec_from_file_location
from types import ModuleType
from typing import Any

from dagster_project.reward_server import RewardServer, RewardService
from decomposerl.judge.call import Judge
from decomposerl.rewards.settings import RewardSettings
from fakes import BagOfWordsEmbedder
from fault_server import replying
from planted_traces.planting import PlantedTrace, planted_traces
from project import ROOT
from resources.judge.rule_judge import RuleJudge

Json = dict[str, Any]
GROUP = 8
TRACES = [trace for trace in planted_traces(claims=4) if trace.number < GROUP]
ROW = {"claim": "Ada was born.", "evidence": "Ada was born in Odense.", "trace": "x", "group": "a"}
COVERAGE = {"necessity": 0, "joint": 0, "diversity": 0}
SUPPORTED = replying("<answer>SUPPORTED</answer>")


def rows(traces: Sequence[PlantedTrace], **changes: object) -> list[Json]:
    """Traces as a request has them."""
    return [json.loads(trace.line()) | changes for trace in traces]


def body(*rollouts: Mapping[str, object], **more: object) -> bytes:
    """A request."""
    return json.dumps({"rollouts": rollouts, **more}).encode()


def groups() -> list[list[PlantedTrace]]:
    """The traces, claim by claim."""
    return [TRACES[start : start + GROUP] for start in range(0, len(TRACES), GROUP)]


def service(judge: Judge | None = None, **changes: Any) -> RewardService:  # noqa: ANN401 - its fields
    """A service of the rules, or of another judge."""
    parts: Json = {"settings": RewardSettings(), "embedder": BagOfWordsEmbedder()} | changes
    return RewardService(judge or RuleJudge(), **parts)


@contextmanager
def serving(service: RewardService, receive_s: float = 60.0) -> Iterator[str]:
    """The URL of a server on loopback, whose clients have ``receive_s``."""
    server = RewardServer("127.0.0.1", 0, receive_s)
    with server.serving(service):
        yield server.url


def example(name: str) -> ModuleType:
    """A file of ``docs/examples``, as verl's ``load_extern_object`` loads one."""
    spec = spec_from_file_location(f"example_{name}", ROOT / f"docs/examples/{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def imports(name: str) -> set[str]:
    """The packages that a file of ``docs/examples`` imports beside the standard library."""
    tree = ast.parse((ROOT / f"docs/examples/{name}.py").read_text("utf-8"))
    named = {
        (node.module or "").partition(".")[0]
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom)
    } | {
        alias.name.partition(".")[0]
        for node in ast.walk(tree)
        if isinstance(node, ast.Import)
        for alias in node.names
    }
    return named - set(sys.stdlib_module_names)
