"""A prompt file as named sections with places to fill in.

Takes the text of a Markdown file whose sections open with ``<!-- section: NAME -->``, gives
a ``PromptFile``. Filling is one pass: what is filled in is never read for places again, so
evidence that happens to hold ``{claim}`` stays as it is.

Left out deliberately: reading the file (``resources.store.prompts``).
"""

import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass

from decomposerl.chat import Template
from decomposerl.errors import ConfigError

_SECTION = re.compile(r"^<!-- section: ([a-z_]+) -->$\n?", re.MULTILINE)
_PLACE = re.compile(r"\{([a-z_]+)\}")


@dataclass(frozen=True, slots=True)
class PromptFile:
    """One prompt file: its name, the digest of its whole text, its sections by name."""

    name: str
    digest: str
    sections: Mapping[str, str]

    @property
    def template(self) -> Template:
        """What a request says about the prompt it was made from."""
        return Template(self.name, self.digest)

    def filled(self, section: str, /, **values: str) -> str:
        """The section with each ``{place}`` replaced by the value of that name.

        Raises:
            ConfigError: there is no such section, or values and places do not match.
        """
        if section not in self.sections:
            raise ConfigError(f"prompt '{self.name}' has no section '{section}'")
        text = self.sections[section]
        places = set(_PLACE.findall(text))
        if places != set(values):
            raise ConfigError(
                f"prompt '{self.name}', section '{section}': it has the places "
                f"{sorted(places)}, and values came for {sorted(values)}"
            )
        return _PLACE.sub(lambda place: values[place[1]], text)


def parse_prompt(name: str, text: str) -> PromptFile:
    """Read a prompt file; line ends become line feeds first, so that the digest is portable.

    Raises:
        ConfigError: text stands before the first section, or a name comes twice.
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
