"""A reward server in a thread, and the two example clients of the documents."""

import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from importlib.util import module_from_spec, spec_from_file_location
from threading import Thread
from types import ModuleType

from dagster_project.reward_server import address_of, listening, reward_app, web_server
from dagster_project.reward_service import RewardService
from project import ROOT


@contextmanager
def serving(service: RewardService, most_bytes: int = 1_000_000) -> Iterator[str]:
    """The URL of a server on loopback."""
    with listening("127.0.0.1", 0) as opened, ThreadPoolExecutor(4) as pool:
        server = web_server(reward_app(service, pool, most_bytes))
        thread = Thread(target=server.run, kwargs={"sockets": [opened]})
        thread.start()
        try:
            yield address_of(opened)
        finally:
            server.should_exit = True
            thread.join()


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
    import ast

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
