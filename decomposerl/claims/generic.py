"""A user's own corpus from one TOML file: its files, columns and labels.

``docs/how-to/add-a-corpus.md`` shows a full example. Corpora whose rows must be joined or computed
need an adapter. Whether the name is free is checked by the caller, which knows the catalogue.
"""

import tomllib
from collections.abc import Iterator
from difflib import get_close_matches
from pathlib import PurePosixPath
from typing import Annotated

from pydantic import BaseModel, BeforeValidator, Field, ValidationError

from decomposerl.claims.claim import LabelMap
from decomposerl.claims.generic_rows import (
    ColumnMap,
    EvidenceShape,
    Name,
    RowReader,
    Section,
    native_text,
)
from decomposerl.claims.source import FORMAT_OF_ENDING, Benchmark, NativeFile, Source
from decomposerl.errors import ConfigError

_MAX_NAME_BYTES = 250


def _labels(value: object) -> object:
    if not isinstance(value, list):
        return value
    texts = [native_text(item) for item in value]
    return value if None in texts else tuple(texts)


def _file(value: str) -> str:
    path = value.removesuffix(".gz")
    pure = PurePosixPath(path)
    if pure.is_absolute() or ".." in pure.parts:
        raise ValueError("must be below the corpora folder")
    if pure.suffix not in FORMAT_OF_ENDING:
        raise ValueError(f"ends in none of {', '.join(FORMAT_OF_ENDING)}")
    if any(len(part.encode()) > _MAX_NAME_BYTES for part in pure.parts):
        raise ValueError("is longer than a file name may be")
    return path


NativePath = Annotated[str, BeforeValidator(lambda v: _file(v) if isinstance(v, str) else v)]
Paths = Annotated[
    tuple[NativePath, ...], BeforeValidator(lambda v: tuple(v) if isinstance(v, list) else v)
]
Labels = Annotated[tuple[str, ...], BeforeValidator(_labels)]


def native_file(path: str, split: str) -> NativeFile:
    """The file at a path below the corpora folder, in the format of its ending.

    Raises:
        ConfigError: the path is not below that folder, or its ending is unknown.
    """
    try:
        return next(_native((_file(path),), split))
    except ValueError as error:
        raise ConfigError(f"{path} {error}") from error


class _About(Section):
    name: Annotated[str, Field(pattern=r"^[a-z][a-z0-9_]*$")]
    replaces: bool = False
    title: Name
    domain: str = "user"
    license: str = "not stated"
    terms: str = "not stated"
    homepage: str = ""


class _FileLists(Section):
    train: Paths = ()
    dev: Paths = ()
    test: Paths = ()


class _LabelSides(Section):
    supported: Annotated[Labels, Field(min_length=1)]
    refuted: Annotated[Labels, Field(min_length=1)]
    middle: Labels = ()
    drop: Labels = ()


class _Spec(Section):
    source: _About
    files: _FileLists
    columns: ColumnMap
    labels: _LabelSides
    evidence: EvidenceShape = EvidenceShape()


def parse_source_toml(text: str, where: str) -> Source:
    """The training corpus that a TOML file describes: its train and dev files.

    ``where`` names the TOML file in messages.

    Raises:
        ConfigError: the file is wrong; the message lists every mistake with its key.
    """
    return _source(_parsed(text, where))


def parse_benchmark_toml(text: str, where: str) -> Benchmark | None:
    """The test set of the same TOML file; None where it names no test files.

    Raises:
        ConfigError: as for ``parse_source_toml``.
    """
    spec = _parsed(text, where)
    if not spec.files.test:
        return None
    source, trained = _source(spec), bool(spec.files.train or spec.files.dev)
    return Benchmark.from_source(source, *_native(spec.files.test, "test"), in_domain=trained)


def _source(spec: _Spec) -> Source:
    return Source(
        **spec.source.model_dump(),
        labels=_label_map(spec.labels),
        files=(*_native(spec.files.train, "train"), *_native(spec.files.dev, "dev")),
        read=RowReader(spec.columns, spec.evidence),
    )


def _native(paths: tuple[str, ...], split: str) -> Iterator[NativeFile]:
    return (NativeFile(path, FORMAT_OF_ENDING[PurePosixPath(path).suffix], split) for path in paths)


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
    problems = list(_repeated(_label_map(spec.labels)))
    if not (spec.files.train or spec.files.dev or spec.files.test):
        problems.append("files: names no file")
    trained = {*spec.files.train, *spec.files.dev}
    if spec.columns.id is not None and spec.evidence.group_by is not None:
        problems.append("columns.id: a claim of several rows has the value of group_by as its id")
    tested = [path for path in spec.files.test if path in trained]
    problems += [f"files: {path} is trained on and tested on" for path in tested]
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


def _nearest(key_path: tuple[int | str, ...]) -> str:
    """A hint for an unknown key: the nearest key of the same table, else all of them."""
    table: type[BaseModel] = _Spec
    for part in key_path[:-1]:
        inner = table.model_fields[str(part)].annotation
        if not (isinstance(inner, type) and issubclass(inner, BaseModel)):
            return ""
        table = inner
    near = get_close_matches(str(key_path[-1]), table.model_fields, n=1)
    return f"; did you mean {near[0]}?" if near else f"; it has {', '.join(table.model_fields)}"


def _mistakes(error: ValidationError) -> Iterator[str]:
    for mistake in error.errors(include_url=False):
        key = ".".join(str(part) for part in mistake["loc"])
        message = mistake["msg"].removeprefix("Value error, ")
        if mistake["type"] == "extra_forbidden":
            message = f"is no key of this file{_nearest(mistake['loc'])}"
        elif mistake["type"] == "missing":
            message = "is missing"
        yield f"{key}: {message}"
