"""The house's rules that a linter does not know: budgets, borders, what loading costs."""

import ast
import importlib
import os
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator
from functools import cache
from pathlib import Path

from project import ROOT

PACKAGES = ("dagster_project", "assets", "resources", "sample", "decomposerl")
MODULES = sorted(path for package in PACKAGES for path in (ROOT / package).rglob("*.py"))
DOMAIN = [path for path in MODULES if path.is_relative_to(ROOT / "decomposerl")]
TESTS = sorted((ROOT / "tests").rglob("*.py"))
HEAVY = (
    "torch",
    "ray",
    "dagster_ray",
    "spacy",
    "vllm",
    "sentence_transformers",
    "transformers",
    "sklearn",
    "scipy",
    "matplotlib",
    "numba",
    "datasketch",
    "huggingface_hub",
    "datasets",
    "apricot",
)
DOMAIN_IMPORTS = {
    # this project
    "decomposerl",
    # frames, arrays, settings
    "polars",
    "numpy",
    "pydantic",
    # engines of single functions, imported inside them
    "datasketch",
    "sklearn",
    "scipy",
    "matplotlib",
    "PIL",
    "markdown_it",
    "numba",
    "threadpoolctl",
    "torch",
    "apricot",
}
ENTRY_IMPORTS = {"api.py": {"dagster_project"}}
"""What the Python entry point alone imports: the wiring opens its engines, inside a function."""
FILE_LINES, FUNCTION_LINES = 700, 60
LOAD_RATIO = 2.6

Function = ast.FunctionDef | ast.AsyncFunctionDef


def in_repo(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


@cache
def parsed(path: Path) -> ast.Module:
    return ast.parse(path.read_text("utf-8"), filename=str(path))


def breaches(paths: Iterable[Path], breach: Callable[[Path], object]) -> dict[str, object]:
    """What breaks a rule in each file that does, by the file's name: one test reads every file."""
    paths = list(paths)
    assert paths
    return {in_repo(path): found for path in paths if (found := breach(path))}


def functions(tree: ast.AST) -> Iterator[Function]:
    return (node for node in ast.walk(tree) if isinstance(node, Function))


def imported(tree: ast.AST) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield node.module or ""


def public_definitions(body: list[ast.stmt], prefix: str = "") -> Iterator[tuple[str, ast.AST]]:
    """Public functions and classes of a module, and the public methods of those classes."""
    for node in body:
        if not isinstance(node, Function | ast.ClassDef) or node.name.startswith("_"):
            continue
        yield prefix + node.name, node
        if isinstance(node, ast.ClassDef):
            yield from public_definitions(node.body, f"{node.name}.")


def load_definitions(
    *, block: bool, modules: str = "dagster_project.definitions"
) -> tuple[set[str], float]:
    """Import the definitions in a fresh process: heavy modules loaded, processor seconds.

    ``block`` makes every heavy module look as if it were not installed.
    """
    code = f"""
import sys, time
heavy = {HEAVY!r}
if {block}:
    sys.modules.update(dict.fromkeys(heavy))
import {modules}
print("\\n" + str(time.process_time()))
print(*(name for name in heavy if sys.modules.get(name) is not None))
"""
    environment = {k: v for k, v in os.environ.items() if not k.startswith("DECOMPOSERL_")}
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    *_, seconds, loaded = done.stdout.split("\n")[:-1]
    return set(loaded.split()), float(seconds)


def test_definitions_load_without_any_engine():
    """Importing the definitions loads no engine library even where all are installed."""
    loaded, _ = load_definitions(block=False)
    assert set() == loaded


def test_definitions_load_fast_where_no_engine_is_installed():
    """Processor time next to that of the libraries they need; the best of three, as others work."""

    def ratio() -> float:
        _, libraries = load_definitions(block=True, modules="dagster, polars, pyarrow")
        return load_definitions(block=True)[1] / libraries

    assert any(ratio() < LOAD_RATIO for _ in range(3))


def test_files_and_functions_stay_within_the_budget():
    """No file is longer than 700 lines and no function longer than 60."""

    def too_long(path: Path) -> dict[str, int]:
        lengths = {
            f"{node.name}:{node.lineno}": (node.end_lineno or 0) - node.lineno + 1
            for node in functions(parsed(path))
        }
        long = {name: lines for name, lines in lengths.items() if lines > FUNCTION_LINES}
        lines = len(path.read_text("utf-8").splitlines())
        return long | ({"the file": lines} if lines > FILE_LINES else {})

    assert {} == breaches([*MODULES, *TESTS], too_long)


def test_every_module_says_what_it_is():
    """Every module of the packages opens with a docstring."""
    assert {} == breaches(MODULES, lambda path: not ast.get_docstring(parsed(path)))


def test_every_public_name_of_the_domain_is_documented():
    """Each public function, class and method of ``decomposerl`` has a docstring."""

    def bare(path: Path) -> list[str]:
        named = public_definitions(parsed(path).body)
        return [name for name, node in named if not ast.get_docstring(node)]

    assert {} == breaches(DOMAIN, bare)


def test_every_test_says_what_must_hold():
    """Each test has a docstring; together they read as the specification."""

    def bare(path: Path) -> list[str]:
        tests = (node for node in functions(parsed(path)) if node.name.startswith("test_"))
        return [node.name for node in tests if not ast.get_docstring(node)]

    assert {} == breaches(TESTS, bare)


def test_nothing_is_patched():
    """Tests use hand-written fakes: no mock library and no patching fixture."""

    def patching(path: Path) -> set[str]:
        tree = parsed(path)
        arguments = {arg.arg for node in functions(tree) for arg in node.args.args}
        mocks = {name for name in imported(tree) if name.startswith(("unittest.mock", "mock"))}
        return arguments & {"monkeypatch", "mocker"} | mocks

    assert {} == breaches(TESTS, patching)


def test_the_domain_imports_only_what_is_listed():
    """A new dependency of ``decomposerl`` is a decision, taken in this file's list."""

    def unlisted(path: Path) -> set[str]:
        roots = {name.split(".")[0] for name in imported(parsed(path))}
        return roots - DOMAIN_IMPORTS - ENTRY_IMPORTS.get(path.name, set())

    assert {} == breaches(DOMAIN, lambda path: unlisted(path) - sys.stdlib_module_names)


def test_the_domain_asks_no_clock_and_opens_no_file():
    """No ``now``, ``today``, ``open`` or ``print`` call: what a function needs is an argument.

    Few modules read files, the package's own: ``jit`` its loops, to know when machine code is
    stale, ``trace_page/page.py`` the page's scripts and style, ``downloads.py``,
    ``column_guess.py``, ``published.py``, ``wordings.py`` and the catalogue of corpora their
    tables.
    """

    def called(path: Path) -> set[str]:
        calls = [node.func for node in ast.walk(parsed(path)) if isinstance(node, ast.Call)]
        named = {f.attr for f in calls if isinstance(f, ast.Attribute)}
        plain = {f.id for f in calls if isinstance(f, ast.Name)}
        reading = {"read_text", "read_bytes", "write_text", "write_bytes"}
        opening = {"open", "Path"}
        tables = {"downloads.py", "column_guess.py", "published.py", "wordings.py"}
        tables |= {"entries.py", "evaluation.py", "system_report.py", "systems.py"}
        if path.name in {"jit.py", "page.py", *tables} or (
            in_repo(path) == "decomposerl/claims/catalogue.py"
        ):
            reading, opening = set(), set()
        return named & {"now", "today", "utcnow", *reading} | plain & {"print", "input", *opening}

    assert {} == breaches(DOMAIN, called)


def test_the_domain_draws_from_seeded_generators_only():
    """Of ``random`` the domain uses the seedable ``Random`` and no function of the module."""

    def used(path: Path) -> set[str]:
        return {
            node.attr
            for node in ast.walk(parsed(path))
            if isinstance(node, ast.Attribute)
            and isinstance(node.value, ast.Name)
            and node.value.id == "random"
        }

    assert {} == breaches(DOMAIN, lambda path: used(path) - {"Random"})


def test_one_module_reads_the_environment():
    """Settings in ``dagster_project/environment.py``; a key by its name, where it is sent."""

    def reads(path: Path) -> set[str]:
        return {
            node.attr if isinstance(node, ast.Attribute) else node.name
            for node in ast.walk(parsed(path))
            if isinstance(node, ast.Attribute | ast.alias)
        } & {"environ", "environb", "getenv", "getenvb"}

    readers = {"dagster_project/environment.py", "resources/chat/connection.py"}
    assert readers == breaches(MODULES, reads).keys()


def test_nothing_shadows_the_four_packages(tmp_path: Path):
    """From another working directory the generic names still mean this project's folders."""
    code = f"import {', '.join(PACKAGES)}\nfor m in ({', '.join(PACKAGES)}): print(m.__file__)"
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    expected = [str(ROOT / package / "__init__.py") for package in PACKAGES]
    assert expected == done.stdout.split()


def test_every_corpus_has_a_table_and_a_reader():
    """Each file beside the catalogue reads the corpus of its name.

    Each reading beside the default names a reader, or the files that it leaves out.
    """
    catalogue = importlib.import_module("decomposerl.claims.catalogue")
    every = (pair for tables in catalogue.TABLES.values() for pair in tables.items())
    tables = {name: table for name, table in every if "source" not in table}
    plain = importlib.import_module("decomposerl.claims.sources.row_by_row").READERS
    paths = {path.stem for path in (ROOT / "decomposerl/claims/sources").glob("[!_]*.py")}
    assert {*plain} <= {*tables} == {*plain} | (paths - {"row_by_row"})
    for name, table in tables.items():
        module = f"decomposerl.claims.sources.{name}"
        readers = plain[name] if name in plain else importlib.import_module(module).READERS
        readings = {one["name"]: "without" in one for one in table.get("readings", ())}
        assert {"default"} <= {*readers} <= {"default", *readings}, name
        assert all(name in readers or without for name, without in readings.items()), name


def test_the_funnel_catalogue_uses_every_step_file():
    """Each file that makes a ``Step`` is imported by the funnel's catalogue."""
    tree = parsed(ROOT / "decomposerl/funnel/catalogue.py")
    used = set(imported(tree)) | {
        f"{node.module}.{alias.name}"
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }
    steps = [
        f"decomposerl.funnel.{path.stem}"
        for path in sorted((ROOT / "decomposerl/funnel").glob("[!_]*.py"))
        if path.stem not in {"catalogue", "step"}
        and any(name == "decomposerl.funnel.step" for name in imported(parsed(path)))
    ]
    assert steps
    assert [] == [name for name in steps if name not in used]
