"""A user's own corpus from one TOML file: its files, columns and labels.

``docs/how-to/add-a-corpus.md`` shows a full example. The caller checks whether the name is free.
"""

import tomllib
from collections.abc import Iterator
from difflib import get_close_matches
from pathlib import PurePosixPath
from typing import Annotated

from pydantic import AfterValidator, Field, ValidationError

from decomposerl.claims.claim import LabelMap
from decomposerl.claims.generic_rows import ColumnMap, EvidenceShape, Labels, RowReader, Section
from decomposerl.claims.source import FORMAT_OF_ENDING, Benchmark, NativeFile, Source
from decomposerl.errors import ConfigError


def _file(value: str) -> str:
    path = value.removesuffix(".gz")
    pure = PurePosixPath(path)
    if pure.is_absolute() or ".." in pure.parts:
        raise ValueError("must be below the corpora folder")
    if pure.suffix not in FORMAT_OF_ENDING:
        raise ValueError(f"ends in none of {', '.join(FORMAT_OF_ENDING)}")
    return path


NativePath = Annotated[str, AfterValidator(_file)]
Paths = Annotated[tuple[NativePath, ...], Field(strict=False)]


def native_file(path: str, split: str) -> NativeFile:
    """The file at a path below the corpora folder, in the format of its ending.

    Raises:
        ConfigError: the path is not below that folder, or its ending is unknown.
    """
    try:
        path = _file(path)
    except ValueError as error:
        raise ConfigError(f"{path} {error}") from error
    return NativeFile(path, FORMAT_OF_ENDING[PurePosixPath(path).suffix], split)


class _About(Section):
    name: Annotated[str, Field(pattern=r"^[a-z][a-z0-9_]*$")]
    replaces: bool = False
    title: Annotated[str, Field(min_length=1)]
    domain: str = "user"
    license: str = "not stated"
    terms: str = "not stated"
    homepage: str = ""


class _FileLists(Section):
    train: Paths = ()
    dev: Paths = ()
    test: Paths = ()
    labels: dict[NativePath, str] = Field(default_factory=dict)


class _LabelSides(Section):
    supported: Labels
    refuted: Labels
    middle: Labels = ()
    drop: Labels = ()


class _Spec(Section):
    source: _About
    files: _FileLists
    columns: ColumnMap
    labels: _LabelSides
    evidence: EvidenceShape = EvidenceShape()


_KEYS = {name: name for name in _Spec.model_fields} | {
    f"{table}.{key}": key
    for table, section in _Spec.model_fields.items()
    for key in getattr(section.annotation, "model_fields", ())
}


def parse_source_toml(text: str, where: str) -> Source:
    """The training corpus that a TOML file describes: its train and dev files.

    ``where`` names the TOML file in messages.

    Raises:
        ConfigError: the file is wrong; the message lists every mistake with its key.
    """
    spec = _parsed(text, where)
    return Source(
        **spec.source.model_dump(),
        labels=_label_map(spec.labels),
        files=_native_files(spec, "train", "dev"),
        read=RowReader(spec.columns, spec.evidence, spec.files.labels),
    )


def parse_benchmark_toml(text: str, where: str) -> Benchmark | None:
    """The test set of the same TOML file; None where it names no test files.

    Raises:
        ConfigError: as for ``parse_source_toml``.
    """
    tested, source = _native_files(_parsed(text, where), "test"), parse_source_toml(text, where)
    return Benchmark.from_source(source, *tested, in_domain=bool(source.files)) if tested else None


def _native_files(spec: _Spec, *splits: str) -> tuple[NativeFile, ...]:
    return tuple(native_file(file, one) for one in splits for file in getattr(spec.files, one))


def _label_map(labels: _LabelSides) -> LabelMap:
    sides = (labels.supported, labels.refuted, labels.middle, labels.drop)
    return LabelMap(*(frozenset(text.strip().casefold() for text in side) for side in sides))


def _parsed(text: str, where: str) -> _Spec:
    try:
        spec = _Spec.model_validate(tomllib.loads(text))
    except ValidationError as error:
        raise ConfigError("\n".join(f"{where}: {line}" for line in _mistakes(error))) from error
    except (ValueError, RecursionError) as error:
        raise ConfigError(f"{where}: not TOML: {error}") from error
    sides, files, columns = _label_map(spec.labels), spec.files, spec.columns
    trained = {*files.train, *files.dev}
    every = trained | {*files.test}
    problems = list(_repeated(sides))
    problems += ["files: names no file"] * (not every)
    problems += [f"files: {path} is trained on and tested on" for path in trained & {*files.test}]
    problems += [
        f"files.labels: {path} is none of the files" for path in files.labels.keys() - every
    ]
    if columns.label is None and every - files.labels.keys():
        problems.append("columns.label: is missing, and files.labels lacks a file")
    if not sides.supported | sides.refuted:
        problems.append("labels.supported: is empty, as is labels.refuted")
    if columns.id is not None and spec.evidence.group_by is not None:
        problems.append("columns.id: a claim of several rows has the value of group_by as its id")
    if problems:
        raise ConfigError("\n".join(f"{where}: {problem}" for problem in problems))
    return spec


def _repeated(labels: LabelMap) -> Iterator[str]:
    """Labels in more than one list, each with the keys of its lists."""
    lists = {name: getattr(labels, name) for name in _LabelSides.model_fields}
    for label in sorted(frozenset[str]().union(*lists.values())):
        keys = [f"labels.{name}" for name, own in lists.items() if label in own]
        if len(keys) > 1:
            yield f"{' and '.join(keys)}: {label!r} stands on more than one side"


def _mistakes(error: ValidationError) -> Iterator[str]:
    for mistake in error.errors(include_url=False):
        key = ".".join(str(part) for part in mistake["loc"])
        message = mistake["msg"].removeprefix("Value error, ")
        if mistake["type"] == "extra_forbidden":
            near = get_close_matches(str(mistake["loc"][-1]), _KEYS.values(), n=1)
            meant = next((f"; did you mean {key}?" for key in _KEYS if _KEYS[key] in near), "")
            message = f"is no key of this file{meant}"
        elif mistake["type"] == "missing":
            message = "is missing"
        yield f"{key}: {message}"
