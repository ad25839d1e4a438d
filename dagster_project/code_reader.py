"""A hash of the definitions that a function uses, read from this project's source.

It follows names through modules of the domain and the assets, so a changed step changes the hash
of its stage and of no other. Docstrings and lines of comments do not count. A definition is what
stands from one unindented line to the next; Python's own parser would cost a second of each load.
Hashes of unchanged files are kept beside Python's compiled modules, and read in place of the files.
"""

import hashlib
import json
import os
import re
import sys
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cache
from importlib.util import cache_from_source
from pathlib import Path

from resources.store.temporary import replace_file

ROOT = Path(__file__).resolve().parent.parent
_FOLLOWED = (
    *("assets", "decomposerl", "resources.catalogue"),
    "resources.evaluation.training_overlap",
)
_SHOWN = ("decomposerl.reports", "decomposerl.progress", "decomposerl.printable")
_ATTRITION = "decomposerl.reports.attrition"  # the one report that is an asset's table
_IMPORT = re.compile(r"^ *from ([\w.]+) import (\([^)]*\)|[^\n]+)", re.MULTILINE)
_IMPORTED = re.compile(r"(\w+)(?: as (\w+))?(?:,|\s|$)")
_DEFINED = re.compile(r"(?:async )?(?:def|class) (\w+)|(\w+(?:, \w+)*) ?(?::|[-+|]?=)")
_NAME = re.compile(r"(?<![\w.])([A-Za-z_]\w*)(?:\.(\w+))?")
_TEXT = re.compile(r'(?<![\w"])[rb]?"(?:[^"\\\n]|\\.)*"')  # f-strings may name something
_ARGUMENT = re.compile(r"(?:^|[(,]) *\*{0,2}(\w+):", re.MULTILINE)
_INSIDE = (" ", ")", "]", "}")
_QUOTES = '"""'

Symbol = tuple[str, str]
"""A module and a name that it defines.

The name is empty for the module itself, and for its statements that define nothing.
"""


def short_digest(*parts: str) -> str:
    """8 hex digits of SHA-256."""
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:8]


@dataclass(frozen=True)
class _Module:
    """The text of each definition by name, and what is imported by the name used."""

    defined: dict[str, str] = field(default_factory=dict)
    imported: dict[str, Symbol] = field(default_factory=dict)


class CodeReader:
    """Reads definitions in a folder that holds this project's packages, each file once."""

    def __init__(self, root: Path = ROOT, kept: Path | None = None) -> None:
        """``root`` is this project's folder; ``kept`` a file for the digests of its files."""
        self._root, self._kept = root, kept
        self._module = cache(self._read)
        self._used = cache(self._used_by)
        self._defined = cache(self._is_defined)
        self._state = "" if kept is None else _state(root)
        self._known = self._read_kept()
        self._read_before = len(self._known)

    def digest(self, symbols: Iterable[Symbol]) -> str:
        """8 hex digits over the definitions of ``symbols`` and of all that they use."""
        named = sorted(symbols)
        key = " ".join(f"{module}:{name}" for module, name in named)
        if key not in self._known:
            self._known[key] = self._digest(named)
        return self._known[key]

    def keep(self) -> None:
        """Write the digests for the next process."""
        if self._kept is None or len(self._known) == self._read_before:
            return
        text = json.dumps({"state": self._state, "digests": self._known})
        with suppress(OSError):  # a folder that may not be written
            replace_file(self._kept, lambda path: path.write_text(text, "utf-8"))

    def _read_kept(self) -> dict[str, str]:
        """The digests of files as they are now; none where one changed or none were kept."""
        if self._kept is None:
            return {}
        try:
            kept = json.loads(self._kept.read_text("utf-8"))
            return dict(kept["digests"]) if kept["state"] == self._state else {}
        except (OSError, ValueError, LookupError, TypeError):
            return {}

    def _digest(self, symbols: Iterable[Symbol]) -> str:
        waiting = set(symbols)
        seen: set[Symbol] = set()
        while waiting:
            symbol = waiting.pop()
            seen.add(symbol)
            waiting |= self._used(symbol) - seen
        texts = (self._module(module).defined.get(name, "") for module, name in sorted(seen))
        return short_digest(*texts)

    def _used_by(self, symbol: Symbol) -> frozenset[Symbol]:
        """The symbols that one definition names; of a package, what its ``__init__`` passes on."""
        own, name = symbol
        module = self._module(own)
        if name not in module.defined:
            return frozenset([module.imported[name]] if name in module.imported else [])
        text = _TEXT.sub("", module.defined[name])
        arguments = set(_ARGUMENT.findall(text))
        used = {(own, "")}
        for first, second in set(_NAME.findall(text)):
            if first in arguments:  # an asset's input has the name of another asset's function
                continue
            target = module.imported.get(first, (own, first))
            used.add(target if target[1] else (target[0], second))
        return frozenset(filter(self._defined, used))

    def _is_defined(self, symbol: Symbol) -> bool:
        if not _follows(symbol[0]):
            return False
        module = self._module(symbol[0])
        return symbol[1] in module.defined or symbol[1] in module.imported

    def _read(self, name: str) -> _Module:
        path = self._path(name)
        text = "" if path is None else path.read_text("utf-8")
        module = _Module(imported=dict(self._imports(text)))
        for definition in _definitions(text.splitlines()):
            for one in _defined_names(definition):
                module.defined[one] = module.defined.get(one, "") + definition
        return module

    def _imports(self, text: str) -> Iterator[tuple[str, Symbol]]:
        """What the imports bind. The project writes ``from package import name`` throughout."""
        for package, names in _IMPORT.findall(text):
            for name, other in _IMPORTED.findall(re.sub(r"#.*", "", names).strip("()")):
                inner = f"{package}.{name}"
                whole = _follows(inner) and self._path(inner) is not None
                yield other or name, (inner, "") if whole else (package, name)

    def _path(self, name: str) -> Path | None:
        # Not with pathlib, which would take as long as all the rest.
        base = f"{self._root}/{name.replace('.', '/')}"
        found = (f"{base}.py", f"{base}/__init__.py")
        return next((Path(path) for path in found if os.path.isfile(path)), None)  # noqa: PTH113


@cache
def this_code() -> CodeReader:
    """Of this project; its files are read once for all profiles of a process, or not at all.

    Digests are kept where compiled modules are.
    """
    beside = Path(cache_from_source(__file__)).with_suffix(".json")
    return CodeReader(kept=None if sys.dont_write_bytecode else beside)


def _state(root: Path) -> str:
    """Name, size and time of change of every file that may be read, and of this one."""
    folders = [root / one.replace(".", "/") for one in _FOLLOWED]
    files = [Path(__file__), *(one.with_suffix(".py") for one in folders)]
    files += [file for one in folders for file in one.rglob("*.py")]
    stats = [(str(file), file.stat()) for file in sorted(files) if file.is_file()]
    return short_digest(*(f"{name} {one.st_size} {one.st_mtime_ns}" for name, one in stats))


@cache
def _follows(module: str) -> bool:
    if _within(module, _SHOWN) and module != _ATTRITION:
        return False
    return _within(module, _FOLLOWED)


def _within(module: str, packages: Iterable[str]) -> bool:
    return any(f"{module}.".startswith(f"{package}.") for package in packages)


def _definitions(lines: Iterable[str]) -> Iterator[str]:
    """The unindented statements without docstrings, comments and empty lines, decorators first."""
    kept: list[str] = []
    quoted, left_out = False, False
    for line in lines:
        plain = line.strip()
        if not quoted and kept and line and not line.startswith(_INSIDE) and not _decorated(kept):
            yield "\n".join(kept)
            kept = []
        opens = not quoted and plain.startswith(_QUOTES)
        left_out = left_out if quoted else opens and (not kept or kept[-1].endswith(":"))
        if not left_out and plain and (quoted or not plain.startswith("#")):
            kept.append(line)
        quoted ^= line.count(_QUOTES) % 2 == 1
    yield "\n".join(kept)


def _decorated(kept: list[str]) -> bool:
    """Whether only decorators were read, so that the definition follows."""
    return kept[0].startswith("@") and not any(_DEFINED.match(line) for line in kept)


def _defined_names(definition: str) -> list[str]:
    """The names that a statement defines: none for an import, an empty one for a loop."""
    lines = (line for line in definition.split("\n") if not line.startswith(_INSIDE))
    found = next((one for line in lines if (one := _DEFINED.match(line))), None)
    if found is not None:
        return (found[1] or found[2]).split(", ")
    return [] if definition.startswith(("from ", "import ")) else [""]
