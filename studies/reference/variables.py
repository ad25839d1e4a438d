"""``docs/reference/variables.md``: what ``.env.example`` says, and which profiles read it."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import get_args

from dagster_project.engine_choices import ProfileName
from dagster_project.profiles import variables_of
from studies.reference.markdown import MADE, code, paragraphs, table

EXAMPLE = Path(__file__).resolve().parents[2] / ".env.example"
_GROUP = re.compile(r"^# == (.+) ==$")
_ENTRY = re.compile(
    r"(?P<meaning>(?:# .+\n)+?)# Unset: (?P<unset>.+)\n(?:# )?(?P<name>[A-Z_]+)=(?P<example>.*)"
)
_PAGE, _LINK = re.compile(r"docs/([\w-]+/([\w-]+)\.md)"), r"[\2](../\1)"
_PROFILES: tuple[ProfileName, ...] = get_args(ProfileName)
_INTRODUCTION = """\
Set a variable in the environment or in a `.env` file of the working directory; the environment
takes precedence. `.env.example` in the project's folder is such a file, with an example of each
variable: copy it. A misspelt variable is an error. `decomposerl doctor` shows what a profile
still lacks.
"""


@dataclass(frozen=True, slots=True)
class Variable:
    """One entry of ``.env.example``; ``unset`` is its default as the file has it."""

    name: str
    meaning: str
    unset: str
    example: str

    def defaults(self) -> Mapping[str, str]:
        """The default by profile, or by the program that reads it; by an empty name for all."""
        parts = [part.split(" ", 1) for part in self.unset.split("; ")]
        if all(len(part) > 1 and part[0] in _READERS for part in parts):
            return dict(parts)
        return {"": self.unset}


_READERS = (*_PROFILES, "decomposerl", "dagster")


def groups(text: str) -> dict[str, list[Variable]]:
    """The variables by the title of their group.

    Raises:
        ValueError: a paragraph is no comment with a default and one variable.
    """
    found: dict[str, list[Variable]] = {}
    for paragraph in text.strip("\n").split("\n\n")[1:]:
        title, entry = _GROUP.match(paragraph), _ENTRY.fullmatch(paragraph)
        if title:
            found[title[1]] = []
        elif entry:
            meaning = " ".join(line.removeprefix("# ") for line in entry["meaning"].splitlines())
            one = Variable(entry["name"], meaning, entry["unset"], entry["example"])
            found[list(found)[-1]].append(one)
        else:
            raise ValueError(f".env.example: not one comment and one variable:\n{paragraph}")
    return found


def page() -> str:
    """The page as Markdown."""
    return paragraphs("# Environment variables", _INTRODUCTION, MADE, *_sections())


def _sections() -> Iterator[str]:
    read = {profile: variables_of(profile) for profile in _PROFILES}
    for title, variables in groups(EXAMPLE.read_text("utf-8")).items():
        rows = [
            (code(one.name), _PAGE.sub(_LINK, one.meaning), _default(one), _reads(one, read))
            for one in variables
        ]
        yield f"## {title}"
        if not any(one.name in names for one in variables for names in read.values()):
            yield table(_HEAD[:-1], [row[:-1] for row in rows])
        elif all(row[-1] == rows[0][-1] for row in rows):
            yield from (f"Read by {rows[0][-1]}.", table(_HEAD[:-1], [row[:-1] for row in rows]))
        else:
            yield table(_HEAD, rows)


_HEAD = ("Variable", "Meaning", "Default", "Read by")


def _default(variable: Variable) -> str:
    shown = [
        f"{reader and f'{code(reader)}: '}{_value(value)}"
        for reader, value in variable.defaults().items()
    ]
    return "; ".join(shown)


def _value(text: str) -> str:
    return text if " " in text or text == "none" else code(text)


def _reads(variable: Variable, read: Mapping[ProfileName, frozenset[str]]) -> str:
    names = [profile for profile in _PROFILES if variable.name in read[profile]]
    return "every profile" if len(names) == len(_PROFILES) else ", ".join(map(code, names))
