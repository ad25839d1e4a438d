"""Write what is installed: files with the hash of every package, and the table of their licences.

``python -m studies.supply hashes`` resolves the project with the pins of ``constraints-cpu.txt``
and writes ``requirements/*.txt``, from which ``make`` installs with ``--require-hashes``. Each has
the packages of one command that no file before it has, with the hashes of all files of its version
that Linux or macOS can use. PyTorch is left out: which of its builds is right depends on the
machine. ``python -m studies.supply licences`` writes ``docs/reference/licences.csv`` from the
packages that are installed here.
"""

import csv
import json
import os
import re
import subprocess
import sys
import tempfile
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from importlib.metadata import PackageNotFoundError, metadata
from pathlib import Path
from typing import Any
from urllib.request import Request, urlopen

from packaging.tags import Tag
from packaging.utils import InvalidWheelFilename, canonicalize_name, parse_wheel_filename
from packaging.version import Version

ROOT = Path(__file__).resolve().parent.parent
FOLDER, LICENCES = ROOT / "requirements", ROOT / "docs/reference/licences.csv"
EXTRAS = {"demo": "web,embed,science,train", "dev": "dev", "bench": "bench"}
APART = {"decomposerl", "torch"}
_PYTHONS = {"py3", "py2", *(f"{kind}31{minor}" for kind in ("cp", "py") for minor in (1, 2, 3))}
_PLATFORM = re.compile(r"any|macosx_\w+|(many)?linux\w*_(x86_64|aarch64)")
_LISTING = "application/vnd.pypi.simple.v1+json"
_HEAD = """\
# Written by `python -m studies.supply hashes`. `make` installs it with --require-hashes --no-deps.
"""
_SPDX = (
    (r"mozilla public license 2|^mpl[- ]2", "MPL-2.0"),
    (r"lesser general public license|^lgpl", "LGPL"),
    (r"apache.*mit|mit.*apache", "Apache-2.0 OR MIT"),
    (r"apache", "Apache-2.0"),
    (r"3-clause|bsd-3|new bsd|modified bsd", "BSD-3-Clause"),
    (r"2-clause|bsd-2|simplified bsd", "BSD-2-Clause"),
    (r"\bbsd\b", "BSD"),
    (r"\bmit\b|^permission is hereby granted", "MIT"),
    (r"python software foundation|^psf|^python-2", "PSF-2.0"),
    (r"isc license|^isc", "ISC"),
    (r"public domain|unlicense", "Unlicense"),
)


def resolved(extras: str) -> dict[str, str]:
    """Versions by name that pip chooses for these extras from nothing, within the pins."""
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "report.json"
        words = ["--dry-run", "--ignore-installed", "--quiet", "--report", str(report)]
        pip = [sys.executable, "-m", "pip", "install", *words, "-c", "constraints-cpu.txt"]
        subprocess.run([*pip, f".[{extras}]"], cwd=ROOT, check=True)  # noqa: S603 - our own words
        chosen = [entry["metadata"] for entry in json.loads(report.read_text("utf-8"))["install"]]
    return {canonicalize_name(entry["name"]): entry["version"] for entry in chosen}


def index_url() -> str:
    """The index that pip asks."""
    from pip._internal.models.index import PyPI

    return os.environ.get("PIP_INDEX_URL", PyPI.simple_url).rstrip("/")


def listed_files(name: str) -> list[Mapping[str, Any]]:
    """The files of all versions of a package."""
    request = Request(f"{index_url()}/{name}/", headers={"Accept": _LISTING})  # noqa: S310 - https
    with urlopen(request, timeout=60) as reply:  # noqa: S310 - the same
        files: list[Mapping[str, Any]] = json.load(reply)["files"]
    return files


def suits(file: str, name: str, version: str) -> bool:
    """Whether a file is the source of this version, or a wheel of it for Linux or macOS."""
    if not file.endswith(".whl"):
        stem = re.sub(r"\.(tar\.gz|zip)$", "", file)
        return canonicalize_name(stem) == canonicalize_name(f"{name}-{version}") and stem != file
    try:
        _, of_wheel, _, tags = parse_wheel_filename(file)
    except InvalidWheelFilename:  # of long ago
        return False
    return of_wheel == Version(version) and any(map(_is_ours, tags))


def _is_ours(tag: Tag) -> bool:
    stable = tag.abi == "abi3" and int(tag.interpreter.removeprefix("cp3") or 0) <= 13  # noqa: PLR2004
    free = tag.abi.endswith("t") and tag.abi.startswith("cp")
    known = tag.interpreter in _PYTHONS or stable
    return known and not free and _PLATFORM.fullmatch(tag.platform) is not None


def requirement(name: str, version: str) -> str:
    """The line of a package, with the hashes of its files in order."""
    hashes = {
        entry["hashes"]["sha256"]
        for entry in listed_files(name)
        if suits(entry["filename"], name, version)
    }
    if not hashes:
        raise SystemExit(f"the index has no file of {name} {version}")
    return " \\\n    ".join(
        [f"{name}=={version}", *(f"--hash=sha256:{one}" for one in sorted(hashes))]
    )


def write_hashes() -> None:
    """The files, in the order in which they are installed."""
    before = set(APART)
    FOLDER.mkdir(exist_ok=True)
    for command, extras in EXTRAS.items():
        versions = {name: v for name, v in resolved(extras).items() if name not in before}
        lines = [requirement(name, versions[name]) for name in sorted(versions)]
        (FOLDER / f"{command}.txt").write_text(_HEAD + "\n".join(lines) + "\n", "utf-8")
        before |= versions.keys()


def packages() -> list[str]:
    """The names in the files, and PyTorch."""
    texts = [(FOLDER / f"{command}.txt").read_text("utf-8") for command in EXTRAS]
    return sorted({"torch", *re.findall(r"^([\w.-]+)==", "\n".join(texts), re.MULTILINE)})


def licence_of(name: str) -> str:
    """The licence that an installed package names; empty where it is not installed."""
    try:
        about = metadata(name)
    except PackageNotFoundError:
        return ""
    expression = about.get("License-Expression")
    if expression:
        return str(expression)
    classifiers = [
        line.rpartition(" :: ")[2]
        for line in about.get_all("Classifier") or ()
        if line.startswith("License :: ") and not line.endswith("OSI Approved")
    ]
    said = [" and ".join(classifiers), *str(about.get("License") or "").strip().splitlines()[:1]]
    for text in filter(None, said):
        for pattern, short in _SPDX:
            if re.search(pattern, text.lower()):
                return short
    return next((text for text in said if text and not text.endswith(".txt")), "not named")


def licence_rows(names: Iterable[str]) -> Iterator[tuple[str, str]]:
    """Each licence with its packages, the most frequent first."""
    grouped = defaultdict(list)
    for name in names:
        if licence := licence_of(name):
            grouped[licence].append(name)
    for licence, members in sorted(grouped.items(), key=lambda item: (-len(item[1]), item[0])):
        yield licence, ", ".join(members)


def main(words: list[str]) -> None:
    """Write the files or the page."""
    if words == ["hashes"]:
        write_hashes()
    elif words == ["licences"]:
        with LICENCES.open("w", encoding="utf-8", newline="") as file:
            rows = [("licence", "packages"), *licence_rows(packages())]
            csv.writer(file, lineterminator="\n").writerows(rows)
    else:
        raise SystemExit("hashes or licences?")


if __name__ == "__main__":
    main(sys.argv[1:])
