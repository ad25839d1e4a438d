"""Prompt files: named sections with placeholders.

A section opens with ``<!-- section: NAME -->``. Filling is one pass: values are not searched for
placeholders, so evidence that contains ``{claim}`` stays unchanged.

``with_shared_text`` resolves two placeholders before any filling: ``{question_rule}``, the meaning
of the labels, and ``{demonstrations}`` of a section S, the worked examples of the section
``S_demonstrations``, split by lines ``<!-- example -->``. The digest is then that of the resolved
text. ``with_labels`` puts the verdicts to choose from into the text of a file as it is read.
"""

import hashlib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from decomposerl.chat import Template
from decomposerl.errors import ConfigError
from decomposerl.schemas import LABELS, VERDICTS, WRITTEN, Verdict

_SECTION = re.compile(r"^<!-- section: ([a-z_]+) -->$\n?", re.MULTILINE)
_EXAMPLE = "\n<!-- example -->\n"
_DEMONSTRATIONS = "_demonstrations"
_PLACEHOLDER = re.compile(r"\{([a-z_]+)\}")

VerdictRule = Literal["evidence", "paper", "three_way"]
"""When a claim is Refuted: also where the evidence is silent, or only where it contradicts. Under
``three_way`` also the latter, and a claim that is neither is a third verdict's."""
THREE_WAY: VerdictRule = "three_way"
QUESTION = "question"
"""The prompt file with the shared text: a section for each verdict rule, and ``examples``."""


@dataclass(frozen=True, slots=True)
class PromptSettings:
    """What is put into prompt files as they are loaded.

    ``demonstrations`` is the number of worked examples in each prompt, None for all of them.
    """

    verdict_rule: VerdictRule = "evidence"
    demonstrations: int | None = None


@dataclass(frozen=True, slots=True)
class PromptFile:
    """One prompt file: its name, the digest of its whole text, its sections by name."""

    name: str
    digest: str
    sections: Mapping[str, str]

    @property
    def template(self) -> Template:
        """Name and digest, as a request records them."""
        return Template(self.name, self.digest)

    def filled(self, section: str, /, **values: str) -> str:
        """The section with each ``{placeholder}`` replaced by the value of that name.

        Raises:
            ConfigError: there is no such section, or values and placeholders do not match.
        """
        if section not in self.sections:
            raise ConfigError(f"prompt '{self.name}' has no section '{section}'")
        text = self.sections[section]
        placeholders = placeholders_of(text)
        if placeholders != set(values):
            raise ConfigError(
                f"prompt '{self.name}', section '{section}': it has the placeholders "
                f"{sorted(placeholders)}, and values came for {sorted(values)}"
            )
        return _PLACEHOLDER.sub(lambda match: values[match[1]], text)


def labels_of(rule: VerdictRule) -> tuple[Verdict, ...]:
    """The verdicts that a rule admits."""
    return VERDICTS if rule == THREE_WAY else LABELS


def with_labels(text: str, rule: VerdictRule) -> str:
    """A prompt file's text with the verdicts that ``rule`` admits in its placeholders.

    ``{labels}`` names them, ``{number}`` counts them, ``{word}`` is what one of them is,
    ``{verdict_lines}`` and ``{verdict_quotes}`` are the last lines to choose from, and ``{silent}``
    is the verdict of an example whose evidence is silent on a part.
    """
    names = [WRITTEN[label] for label in labels_of(rule)]
    lines = [f"Verdict: {name}" for name in names]
    three = rule == THREE_WAY
    words = {
        "labels": _listed(names),
        "number": "three" if three else "two",
        "word": "label" if three else "word",
        "verdict_lines": "\n".join(lines),
        "verdict_quotes": _listed([f'"{line}"' for line in lines]),
        "silent": names[-1],
    }
    return _PLACEHOLDER.sub(lambda match: words.get(match[1], match[0]), text)


def _listed(items: Sequence[str]) -> str:
    return f"{', '.join(items[:-1])} or {items[-1]}"


def placeholders_of(text: str) -> set[str]:
    """The names in braces of a section's text."""
    return set(_PLACEHOLDER.findall(text))


def inline_prompt(name: str, sections: Mapping[str, str]) -> PromptFile:
    """A prompt whose sections are not in a file; empty ones are left out."""
    kept = {section: text for section, text in sections.items() if text}
    text = "\n".join(f"<!-- section: {section} -->\n{body}" for section, body in kept.items())
    return PromptFile(name, hashlib.sha256(text.encode()).hexdigest(), kept)


def parse_prompt(name: str, text: str) -> PromptFile:
    """Parse a prompt file; line endings are normalised, so that the digest is portable.

    Raises:
        ConfigError: there is text before the first section, or a name is repeated.
    """
    plain = text.replace("\r\n", "\n")
    before, *rest = _SECTION.split(plain)
    names, bodies = rest[::2], [body.strip("\n") for body in rest[1::2]]
    if before.strip() or not names:
        raise ConfigError(f"prompt '{name}' must open with a line '<!-- section: NAME -->'")
    if len(set(names)) < len(names):
        raise ConfigError(f"prompt '{name}' has a section twice: {', '.join(names)}")
    digest = hashlib.sha256(plain.encode()).hexdigest()
    return PromptFile(name, digest, dict(zip(names, bodies, strict=True)))


def with_shared_text(
    prompt: PromptFile, shared: PromptFile, settings: PromptSettings
) -> PromptFile:
    """The prompt with the wording of ``settings``; one that has none of it is unchanged.

    Raises:
        ConfigError: worked examples and their placeholder do not match, or ``shared`` lacks a
            section.
    """
    rule = shared.filled(settings.verdict_rule)
    plain = {n: text for n, text in prompt.sections.items() if not n.endswith(_DEMONSTRATIONS)}
    for name in prompt.sections.keys() - plain.keys():
        if "{demonstrations}" not in plain.get(name.removesuffix(_DEMONSTRATIONS), ""):
            raise ConfigError(f"prompt '{prompt.name}': no section shows those of '{name}'")
    sections = {
        name: _with_demonstrations(prompt, name, shared, settings).replace("{question_rule}", rule)
        for name in plain
    }
    if sections == prompt.sections:
        return prompt
    text = "\n".join(f"<!-- section: {name} -->\n{body}" for name, body in sections.items())
    digest = hashlib.sha256(text.encode()).hexdigest()
    return PromptFile(prompt.name, digest, sections)


def _with_demonstrations(
    prompt: PromptFile, section: str, shared: PromptFile, settings: PromptSettings
) -> str:
    text = prompt.sections[section]
    if "{demonstrations}" not in text:
        return text
    written = prompt.sections.get(f"{section}{_DEMONSTRATIONS}")
    if written is None:
        raise ConfigError(f"prompt '{prompt.name}' has no section '{section}{_DEMONSTRATIONS}'")
    shown = written.split(_EXAMPLE)[: settings.demonstrations]
    numbered = (f"Example {n}\n\n{one.strip()}" for n, one in enumerate(shown, start=1))
    framed = shared.filled("examples", examples="\n\n".join(numbered)) if shown else ""
    return text.replace("{demonstrations}", framed).lstrip("\n")
