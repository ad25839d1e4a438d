"""Do the tests notice a wrong line? Mutants of product code, drawn by a seed over all areas.

``python -m studies.mutations draw FILE`` draws them, ``plant FILE TREE`` marks their places in a
copy of the project, where one run of the tests then records which test reaches which mutant, and
``kill FILE REACHED TREE OUT`` runs these tests on each mutant. A mutant is found again by its
function and text, so that one list serves before and after a change of the tests or of the files.

``studies/mutants.json`` is a list over all areas.

Without the whole suite for each mutant: the tests that reach it, the quickest first, up to
``--seconds`` of their recorded time.
"""

import argparse
import ast
import json
import random
import re
import subprocess
import sys
import tomllib
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import lru_cache
from itertools import accumulate
from pathlib import Path
from xml.etree import ElementTree as ET

ROOT = Path(__file__).resolve().parent.parent
PACKAGES = ("dagster_project", "assets", "resources", "decomposerl")
SEED, COUNT = 40, 60
NOT_FOUND = 4  # pytest's exit code where an address names no test
RECORDER = "mutation_recorder"
RECORDER_SOURCE = '''
"""Written by studies.mutations: which test reaches which planted place."""
import os
_seen = set()
def hit(number):
    key = number, os.environ.get("PYTEST_CURRENT_TEST", "")
    if key not in _seen:
        _seen.add(key)
        with open({path!r}, "a") as file:
            file.write(f"{{number}}\\t{{key[1]}}\\n")
'''
COMPARISONS = {
    ast.Lt: "<=", ast.LtE: "<", ast.Gt: ">=", ast.GtE: ">", ast.Eq: "!=", ast.NotEq: "==",
    ast.Is: "is not", ast.IsNot: "is", ast.In: "not in", ast.NotIn: "in",
}  # fmt: skip
OPERATORS = {
    ast.Add: "-", ast.Sub: "+", ast.Mult: "/", ast.Div: "*", ast.FloorDiv: "*",
    ast.BitAnd: "|", ast.BitOr: "&",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Mutant:
    """One changed place.

    ``function`` is the qualified name of what holds it (``""`` at module level), ``statement`` the
    text of the whole statement and ``occurrence`` its count among equal ones in that function.
    """

    number: int
    area: str
    path: str
    line: int
    kind: str
    function: str
    statement: str
    occurrence: int
    mutated: str


def segment(source: str, node: ast.AST) -> str:
    """The node's text; empty where it has no place of its own."""
    return ast.get_source_segment(source, node) or ""


def scopes(tree: ast.Module) -> Iterator[tuple[str, ast.stmt, bool]]:
    """Each simple statement or head of a block, with its function, and whether it runs at import.

    Docstrings, imports, type aliases and bodies of ``if TYPE_CHECKING`` are none.
    """

    def walk(body: Sequence[ast.stmt], name: str, *, at_import: bool) -> Iterator[tuple]:
        for node in body:
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
                inner = f"{name}.{node.name}".lstrip(".")
                outside = at_import and isinstance(node, ast.ClassDef)
                yield from walk(node.body, inner, at_import=outside)
                continue
            if isinstance(node, ast.Import | ast.ImportFrom | ast.Pass):
                continue
            if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
                continue
            if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.dump(node.test):
                continue
            yield name, node, at_import
            for block in ("body", "orelse", "finalbody"):
                yield from walk(getattr(node, block, []), name, at_import=at_import)
            for handler in getattr(node, "handlers", []):
                yield from walk(handler.body, name, at_import=at_import)

    yield from walk(tree.body, "", at_import=True)


def own_nodes(statement: ast.stmt) -> Iterator[ast.AST]:
    """The nodes of a statement without those of its blocks and of its annotations."""
    stack: list[ast.AST] = [statement]
    while stack:
        node = stack.pop()
        yield node
        for name, value in ast.iter_fields(node):
            if name in {"body", "orelse", "finalbody", "handlers"} and node is statement:
                continue
            if name in {"annotation", "returns"}:
                continue
            values = value if isinstance(value, list) else [value]
            stack += [one for one in values if isinstance(one, ast.AST)]


def between(source: str, left: ast.AST, right: ast.AST, new: str) -> tuple[int, int, str] | None:
    """The operator between two operands as a replacement of its span; none if it has comments."""
    start, end = offset(source, left, end=True), offset(source, right, end=False)
    gap = source[start:end]
    match = re.fullmatch(r"(\s*)([^\s()#]+(?: not| in)?)(\s*)", gap)
    return (start + len(match[1]), end - len(match[3]), new) if match else None


@lru_cache(maxsize=4)
def line_starts(source: str) -> tuple[list[str], list[int]]:
    """The lines of a source, and where each starts, in characters."""
    lines = source.splitlines(keepends=True)
    return lines, [0, *accumulate(map(len, lines))]


def offset(source: str, node: ast.AST, *, end: bool) -> int:
    """Where a node starts or ends, in characters."""
    line = node.end_lineno if end else node.lineno
    column = node.end_col_offset if end else node.col_offset
    lines, starts = line_starts(source)
    return starts[line - 1] + len(lines[line - 1].encode()[:column].decode())


def changes(source: str, statement: ast.stmt) -> Iterator[tuple[str, int, int, str]]:
    """The mutations of one statement: kind, start, end, new text."""
    whole = offset(source, statement, end=False), offset(source, statement, end=True)
    if isinstance(statement, ast.Expr | ast.AugAssign | ast.Raise | ast.Continue | ast.Break):
        yield "dropped statement", *whole, "pass"
    if isinstance(statement, ast.Return) and statement.value is not None:
        yield "dropped result", *whole, "return None"
    for node in own_nodes(statement):
        span: tuple[int, int, str] | None = None
        kind = "operator"
        if isinstance(node, ast.Compare) and len(node.ops) == 1:
            new = COMPARISONS[type(node.ops[0])]
            span = between(source, node.left, node.comparators[0], new)
        elif isinstance(node, ast.BinOp) and type(node.op) in OPERATORS:
            span = between(source, node.left, node.right, OPERATORS[type(node.op)])
        elif isinstance(node, ast.BoolOp) and not node.values[2:]:
            new = "or" if isinstance(node.op, ast.And) else "and"
            span = between(source, *node.values, new)
        elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
            start = offset(source, node, end=False)
            span = start, offset(source, node.operand, end=False), ""
        elif isinstance(node, ast.Constant) and type(node.value) in {bool, int, float}:
            kind = "constant"
            new = str(not node.value) if isinstance(node.value, bool) else str(node.value + 1)
            span = offset(source, node, end=False), offset(source, node, end=True), new
        if span:
            yield kind, *span


def parses(program: str) -> bool:
    """Whether a text is a program."""
    try:
        ast.parse(program)
    except SyntaxError:
        return False
    return True


def alone(statement: str, indent: int) -> str:
    """A program of one statement that stood at this indent; an ``elif`` is an ``if`` there."""
    text = " " * indent + re.sub(r"^elif\b", "if", statement)
    return f"if True:\n{text}" if indent else text


def mutants_of(path: Path, area: str, root: Path) -> list[Mutant]:
    """Every mutant of a file that still parses."""
    source = path.read_text("utf-8")
    seen: dict[tuple[str, str], int] = defaultdict(int)
    found = []
    for function, statement, _ in scopes(ast.parse(source)):
        text = segment(source, statement)
        occurrence = seen[function, text]
        seen[function, text] += 1
        first = offset(source, statement, end=False)
        for kind, start, end, new in changes(source, statement):
            inside = text[: start - first] + new + text[end - first :]
            # Python 3.11 misplaces some parts of f-strings: then only the whole file tells.
            placed = first <= start and end <= first + len(text)
            program = alone(inside, statement.col_offset) if placed else ""
            if not (program and parses(program)) and not parses(
                source[:start] + new + source[end:]
            ):
                continue
            line = source[:start].count("\n") + 1
            name = path.relative_to(root).as_posix()
            found.append(Mutant(0, area, name, line, kind, function, text, occurrence, inside))
    return found


def areas(root: Path) -> Mapping[str, list[Path]]:
    """The product files of each area, from the committed list."""
    table = tomllib.loads((root / "tests/project/areas.toml").read_text("utf-8"))
    found: dict[str, set[Path]] = {}
    for name, area in table["areas"].items():
        matches = {path for pattern in area["files"] for path in root.glob(pattern)}
        found[name] = {path for path in matches if path.suffix == ".py"}
    return {name: sorted(paths) for name, paths in found.items()}


def draw(root: Path, *, seed: int = SEED, count: int = COUNT) -> list[Mutant]:
    """``count`` mutants: one of each area that has any, the rest by the areas' lines."""
    chance = random.Random(seed)  # noqa: S311 - a seeded draw, no secret
    by_area = {}
    for name, paths in areas(root).items():
        if any(made := [mutants_of(path, name, root) for path in paths]):
            by_area[name] = [mutant for some in made for mutant in some]
    names = list(by_area)
    picks = names + chance.choices(names, [len(by_area[n]) for n in names], k=count - len(names))
    drawn: list[Mutant] = []
    for name in picks[:count]:
        places = {(one.path, one.line) for one in drawn}
        free = [one for one in by_area[name] if (one.path, one.line) not in places]
        drawn.append(replace(chance.choice(free), number=len(drawn)))
    return drawn


def place(root: Path, mutant: Mutant) -> tuple[Path, int, int]:
    """The file of a mutant and the span of its statement, also where the file was merged."""
    paths = [root / mutant.path, *(p for name in PACKAGES for p in (root / name).rglob("*.py"))]
    for path in paths:
        source = path.read_text("utf-8") if path.exists() else ""
        if mutant.statement not in source:
            continue
        found = [
            (offset(source, statement, end=False), offset(source, statement, end=True))
            for function, statement, _ in scopes(ast.parse(source))
            if function == mutant.function and segment(source, statement) == mutant.statement
        ]
        if len(found) > mutant.occurrence:
            return path, *found[mutant.occurrence]
    raise LookupError(f"mutant {mutant.number}: {mutant.path}:{mutant.line} is nowhere")


def compiled(path: Path, source: str, start: int) -> bool:
    """Whether numba compiles the function that holds a place; a recorder would not compile."""
    if not path.stem.endswith("_loops"):
        return False
    line = source.count("\n", 0, start) + 1
    return any(
        isinstance(node, ast.FunctionDef)
        and bool(node.decorator_list)
        and node.lineno <= line <= (node.end_lineno or 0)
        for node in ast.walk(ast.parse(source))
    )


def plant(mutants: Sequence[Mutant], tree: Path, record: Path) -> list[int]:
    """Record, in a copy of the project, each test that reaches a mutant; the numbers left out.

    Left out are statements that run at import and compiled functions: no test is recorded there.
    """
    library = next((tree / ".venv/lib").glob("python3*")) / "site-packages"
    (library / f"{RECORDER}.py").write_text(RECORDER_SOURCE.format(path=str(record)), "utf-8")
    left_out, spots = [], defaultdict(list)
    for mutant in mutants:
        path, start, _ = place(tree, mutant)
        source = path.read_text("utf-8")
        at_import = {
            (offset(source, node, end=False))
            for _, node, outside in scopes(ast.parse(source))
            if outside
        }
        if start in at_import or compiled(path, source, start):
            left_out.append(mutant.number)
        else:
            spots[path].append((start, mutant.number))
    for path, places in spots.items():
        source = path.read_text("utf-8")
        for start, number in sorted(places, reverse=True):
            call = f"__import__({RECORDER!r}).hit({number})"
            if source.startswith("elif", start):  # inside its condition, as it gives None
                place_at = start + len("elif ")
                source = f"{source[:place_at]}{call} or {source[place_at:]}"
                continue
            line_start = source.rfind("\n", 0, start) + 1
            source = f"{source[:start]}{call}\n{source[line_start:start]}{source[start:]}"
        ast.parse(source)
        path.write_text(source, "utf-8")
    return left_out


def importing_tests(tree: Path, mutant: Mutant) -> set[str]:
    """Test files that import the mutant's module, or a module that imports it."""

    def imports(path: Path) -> set[str]:
        names = set()
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.Import):
                names |= {alias.name for alias in node.names}
            elif isinstance(node, ast.ImportFrom):
                module = node.module or ""
                names |= {module, *(f"{module}.{alias.name}" for alias in node.names)}
        return names

    def module(path: Path) -> str:
        return path.relative_to(tree).as_posix().removesuffix(".py").replace("/", ".")

    path, *_ = place(tree, mutant)
    own = {module(path)}
    others = [other for package in PACKAGES for other in (tree / package).rglob("*.py")]
    targets = own | {module(other) for other in others if imports(other) & own}
    tests = (tree / "tests").rglob("test_*.py")
    return {test.relative_to(tree).as_posix() for test in tests if imports(test) & targets}


def durations(report: Path) -> dict[str, float]:
    """Seconds of each test, by the start of its address, from pytest's JUnit file."""
    found: dict[str, float] = {}
    for case in ET.parse(report).iter("testcase"):  # noqa: S314 - our own file
        file = case.get("classname", "").replace(".", "/") + ".py"
        found[f"{file}::{case.get('name')}"] = float(case.get("time", "0"))
    return found


def reached(record: Path) -> dict[int, dict[str, set[str]]]:
    """For each mutant, the test files that reach it, and the tests (none: the whole file)."""
    found: dict[int, dict[str, set[str]]] = defaultdict(lambda: defaultdict(set))
    for line in record.read_text("utf-8").splitlines():
        number, _, address = line.partition("\t")
        test, _, phase = address.rpartition(" ")
        file, _, name = test.partition("::")
        if file:
            found[int(number)][file].add(name if phase == "(call)" else "")
    return found


def selection(
    tests: Mapping[str, set[str]], seconds: Mapping[str, float], limit: float
) -> list[str]:
    """The addresses to run, the cheapest files first, until their recorded time is over the limit.

    Where a fixture reaches the place, every test of its file counts: they share what it made. A
    file costs its chosen tests and its longest one, whose time has the set-up that they share.
    """
    files: list[tuple[float, list[str]]] = []
    for file, names in tests.items():
        known = {name: cost for name, cost in seconds.items() if name.startswith(f"{file}::")}
        wanted = known if "" in names else {f"{file}::{name}" for name in names} & known.keys()
        if wanted:
            cost = sum(known[name] for name in wanted) + max(known.values())
            files.append((cost, sorted(wanted, key=lambda name: known[name])))
    chosen: list[str] = []
    total = 0.0
    for cost, addresses in sorted(files):
        total += cost
        if chosen and total > limit:
            break
        chosen += addresses
    return chosen


def killed_by(tree: Path, mutant: Mutant, tests: Sequence[str], timeout_s: float) -> str:
    """The first test that fails on the mutant; ``""`` where all pass."""
    if not tests:
        return ""
    path, start, end = place(tree, mutant)
    source = path.read_text("utf-8")
    try:
        path.write_text(source[:start] + mutant.mutated + source[end:], "utf-8")
        done = run_tests(tree, tests, timeout_s)
        if done.returncode == NOT_FOUND:  # an id that pytest spells otherwise: the whole files
            files = dict.fromkeys(test.partition("::")[0] for test in tests)
            done = run_tests(tree, list(files), timeout_s)
    except subprocess.TimeoutExpired:
        return "time"
    finally:
        path.write_text(source, "utf-8")
    failed = re.search(r"^(?:FAILED|ERROR) (\S+)", done.stdout, re.MULTILINE)
    if done.returncode == 1 and failed:
        return failed[1]
    return "" if done.returncode == 0 else f"exit {done.returncode}"


def run_tests(
    tree: Path, tests: Sequence[str], timeout_s: float
) -> subprocess.CompletedProcess[str]:
    """Pytest on these addresses until the first failure."""
    options = ["-x", "-q", "-p", "no:cacheprovider", "--no-header"]
    return subprocess.run(  # noqa: S603 - the project's own tests
        [str(tree / ".venv/bin/python"), "-m", "pytest", *options, *tests],
        cwd=tree, capture_output=True, text=True, timeout=timeout_s, check=False,
    )  # fmt: skip


def main() -> None:
    """Draw, plant or kill; see the module's text."""
    parser = argparse.ArgumentParser(description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    drawing = commands.add_parser("draw")
    drawing.add_argument("list", type=Path)
    drawing.add_argument("--seed", type=int, default=SEED)
    drawing.add_argument("--count", type=int, default=COUNT)
    planting = commands.add_parser("plant")
    planting.add_argument("list", type=Path)
    planting.add_argument("tree", type=Path)
    planting.add_argument("record", type=Path)
    killing = commands.add_parser("kill")
    for name in ("list", "record", "report", "tree", "out"):
        killing.add_argument(name, type=Path)
    killing.add_argument("--seconds", type=float, default=60)
    killing.add_argument(
        "--part", default="0/1", help="every n-th mutant: 0/2 and 1/2 side by side"
    )
    given = parser.parse_args()
    if given.command == "draw":
        drawn = draw(ROOT, seed=given.seed, count=given.count)
        given.list.write_text(json.dumps([asdict(one) for one in drawn], indent=1), "utf-8")
        return
    mutants = [Mutant(**one) for one in json.loads(given.list.read_text("utf-8"))]
    if given.command == "plant":
        print("by imports:", plant(mutants, given.tree, given.record))
        return
    part, parts = map(int, given.part.split("/"))
    seconds, touched = durations(given.report), reached(given.record)
    for mutant in mutants[part::parts]:
        tests = touched.get(mutant.number) or {
            file: {""} for file in importing_tests(given.tree, mutant)
        }
        chosen = selection(tests, seconds, given.seconds)
        killer = killed_by(given.tree, mutant, chosen, 10 * given.seconds + 120)
        line = {"number": mutant.number, "tests": len(chosen), "killed_by": killer}
        with given.out.open("a", encoding="utf-8") as out:
            out.write(json.dumps(line) + "\n")
        print(mutant.number, mutant.area, f"{mutant.path}:{mutant.line}", killer or "-", flush=True)


if __name__ == "__main__":
    sys.exit(main())
