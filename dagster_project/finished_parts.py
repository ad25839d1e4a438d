"""Which parts of the demo were made before and are unchanged since, as ``demo.json`` records it.

A part is its job with its partition. It is unchanged while the files that it left, its
configuration, the profile, this project's code, the installed packages and all parts before it are.
"""

import hashlib
import json
from collections.abc import Collection, Mapping
from functools import cached_property
from importlib.metadata import distributions
from pathlib import Path
from typing import Any

from resources.store.temporary import replace_file

FILE = "demo.json"
_ROOT = Path(__file__).resolve().parent.parent
_CODE = ("assets", "dagster_project", "decomposerl", "resources", "sample")
_COMPILED = "__pycache__"


class FinishedParts:
    """The parts that were finished, in the order of the demo."""

    def __init__(self, data: Path, profile: str) -> None:
        """``profile`` is all of its settings as text."""
        self._data, self._file, self._profile = data, data / FILE, profile
        self._before = ""
        self._known = self._read()

    def has(self, name: str, settings: Mapping[str, Any], keys: Collection[str]) -> bool:
        """Whether the part is finished and unchanged; its assets are ``keys``."""
        digest = self._digest(name, settings, keys)
        if self._known.get(name) != digest:
            return False
        self._before = digest
        return True

    def add(self, name: str, settings: Mapping[str, Any], keys: Collection[str]) -> None:
        """The part is finished."""
        self._before = self._known[name] = self._digest(name, settings, keys)
        text = json.dumps(self._known, indent=1)
        replace_file(self._file, lambda path: path.write_text(text, "utf-8"))

    def forget(self) -> None:
        """No part is finished."""
        self._known = {}

    def _read(self) -> dict[str, str]:
        """What is recorded; nothing where the file is damaged."""
        try:
            known = json.loads(self._file.read_text("utf-8"))
        except (OSError, ValueError):
            return {}
        return known if isinstance(known, dict) else {}

    def _digest(self, name: str, settings: Mapping[str, Any], keys: Collection[str]) -> str:
        partition = name.partition("/")[2]
        files = [self._left(key, partition) for key in sorted(keys)]
        facts = [name, self._before, self._profile, self._code, settings, files]
        return hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()

    def _left(self, key: str, partition: str) -> list[list[str | int]]:
        """Name, size and time of change of the files of an asset."""
        place = self._data / key / partition
        table = place.with_name(f"{place.name}.parquet")
        found = [table] if table.is_file() else sorted(filter(Path.is_file, place.rglob("*")))
        stats = [(one.name, one.stat()) for one in found]
        return [[one, stat.st_size, stat.st_mtime_ns] for one, stat in stats]

    @cached_property
    def _code(self) -> str:
        """Over the files of this project and the packages that decide what a part makes."""
        packages = sorted(f"{one.name} {one.version}" for one in distributions())
        digest = hashlib.sha256("\n".join(packages).encode())
        for folder in _CODE:
            for path in sorted((_ROOT / folder).rglob("*")):
                if path.is_file() and path.parent.name != _COMPILED:
                    digest.update(f"{path.relative_to(_ROOT)}\n".encode())
                    digest.update(hashlib.sha256(path.read_bytes()).digest())
        return digest.hexdigest()
