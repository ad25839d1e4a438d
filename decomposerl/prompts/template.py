"""Prompt files: named sections with placeholders.

A section opens with ``<!-- section: NAME -->``. Filling is one pass: values are not searched for
placeholders, so evidence that contains ``{claim}`` stays unchanged.
"""

import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass

from decomposerl.chat import Template
from decomposerl.errors import ConfigError

_SECTION = re.compile(r"^<!-- section: ([a-z_]+) -->$\n?", re.MULTILINE)
_PLACEHOLDER = re.compile(r"\{([a-z_]+)\}")


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
        placeholders = set(_PLACEHOLDER.findall(text))
        if placeholders != set(values):
            raise ConfigError(
                f"prompt '{self.name}', section '{section}': it has the placeholders "
                f"{sorted(placeholders)}, and values came for {sorted(values)}"
            )
        return _PLACEHOLDER.sub(lambda match: values[match[1]], text)


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
