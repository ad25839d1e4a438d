"""A user's own corpus from one TOML file: where its columns and labels are.

Takes the text of the file, gives a ``Source`` (and a ``Benchmark`` where test files are
named). ``docs/adding-a-corpus.md`` shows a full example.

Left out deliberately: rows (``generic_rows.py``), reading the TOML file itself, and whether
its name is taken: the caller knows the catalogue. Corpora whose rows must be joined or
computed need an adapter.
"""

import tomllib
from collections.abc import Iterator
from pathlib import PurePosixPath
from typing import Annotated

from pydantic import BeforeValidator, Field, ValidationError

from decomposerl.claims.generic_rows import (
    Columns,
    EvidenceShape,
    Name,
    RowReader,
    Section,
    native_text,
)
from decomposerl.claims.labels import LabelMap
from decomposerl.claims.source import Benchmark, FileFormat, NativeFile, Source
from decomposerl.errors import ConfigError

_FORMATS: dict[str, FileFormat] = {
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".json": "json_array",
    ".csv": "csv",
    ".tsv": "tsv",
    ".parquet": "parquet",
}


def _labels(value: object) -> object:
    if not isinstance(value, list):
        return value
    texts = [native_text(item) for item in value]
    return value if None in texts else tuple(texts)


def _file(value: str) -> str:
    path = value.removesuffix(".gz")
    pure = PurePosixPath(path)
    if pure.is_absolute() or ".." in pure.parts:
        raise ValueError("must lie below the corpora folder")
    if pure.suffix not in _FORMATS:
        raise ValueError(f"ends in none of {', '.join(_FORMATS)}")
    return path


NativePath = Annotated[str, BeforeValidator(lambda v: _file(v) if isinstance(v, str) else v)]
Paths = Annotated[
    tuple[NativePath, ...], BeforeValidator(lambda v: tuple(v) if isinstance(v, list) else v)
]
Labels = Annotated[tuple[str, ...], BeforeValidator(_labels)]


class _About(Section):
    name: Annotated[str, Field(pattern=r"^[a-z][a-z0-9_]*$")]
    title: Name
    domain: str = "user"
    license: str = "not stated"
    terms: str = "not stated"
    homepage: str = ""


class _Files(Section):
    train: Paths = ()
    dev: Paths = ()
    test: Paths = ()


class _LabelSides(Section):
    supported: Annotated[Labels, Field(min_length=1)]
    refuted: Annotated[Labels, Field(min_length=1)]
    middle: Labels = ()


class _Spec(Section):
    source: _About
    files: _Files
    columns: Columns
    labels: _LabelSides
    evidence: EvidenceShape = EvidenceShape()


def parse_source_toml(text: str, where: str) -> Source:
    """The training corpus that a TOML file describes: its train and dev files.

    ``where`` names the TOML file in messages.

    Raises:
        ConfigError: the file is wrong; the message lists every mistake with its key.
    """
    spec = _parsed(text, where)
    about = spec.source
    return Source(
        name=about.name,
        title=about.title,
        domain=about.domain,
        homepage=about.homepage,
        license=about.license,
        terms=about.terms,
        labels=_label_map(spec.labels),
        files=(*_native(spec.files.train, "train"), *_native(spec.files.dev, "dev")),
        read=RowReader(spec.columns, spec.evidence),
    )


def parse_benchmark_toml(text: str, where: str) -> Benchmark | None:
    """The test set of the same TOML file; None where it names no test files.

    Raises:
        ConfigError: as for ``parse_source_toml``.
    """
    spec = _parsed(text, where)
    about = spec.source
    if not spec.files.test:
        return None
    return Benchmark(
        name=about.name,
        title=about.title,
        domain=about.domain,
        in_domain=bool(spec.files.train or spec.files.dev),
        homepage=about.homepage,
        license=about.license,
        terms=about.terms,
        labels=_label_map(spec.labels),
        files=tuple(_native(spec.files.test, "test")),
        read=RowReader(spec.columns, spec.evidence),
        source=about.name,
    )


def _native(paths: tuple[str, ...], split: str) -> Iterator[NativeFile]:
    return (NativeFile(path, _FORMATS[PurePosixPath(path).suffix], split) for path in paths)


def _label_map(labels: _LabelSides) -> LabelMap:
    sides = (labels.supported, labels.refuted, labels.middle)
    return LabelMap(*(frozenset(text.strip().casefold() for text in side) for side in sides))


def _parsed(text: str, where: str) -> _Spec:
    try:
        spec = _Spec.model_validate(tomllib.loads(text))
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(f"{where}: not TOML: {error}") from error
    except ValidationError as error:
        raise ConfigError("\n".join(f"{where}: {line}" for line in _mistakes(error))) from error
    labels = _label_map(spec.labels)
    sides = [labels.supported, labels.refuted, labels.middle]
    twice = sorted({x for i, side in enumerate(sides) for o in sides[i + 1 :] for x in side & o})
    problems = [f"labels: {label!r} stands on more than one side" for label in twice]
    if not (spec.files.train or spec.files.dev or spec.files.test):
        problems.append("files: names no file")
    trained = {*spec.files.train, *spec.files.dev}
    tested = [path for path in spec.files.test if path in trained]
    problems += [f"files: {path} is trained on and tested on" for path in tested]
    if problems:
        raise ConfigError("\n".join(f"{where}: {problem}" for problem in problems))
    return spec


def _mistakes(error: ValidationError) -> Iterator[str]:
    for mistake in error.errors(include_url=False):
        key = ".".join(str(part) for part in mistake["loc"])
        message = mistake["msg"].removeprefix("Value error, ")
        if mistake["type"] == "extra_forbidden":
            message = "is no key of this file"
        elif mistake["type"] == "missing":
            message = "is missing"
        yield f"{key}: {message}"
