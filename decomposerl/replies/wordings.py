"""Tables of wordings: what replies say, as data beside the code that reads it.

``NAME.toml`` has patterns in small letters, and in capitals the words that they are made of. In
both a blank stands for any white space, a bracket only groups, a line break with the indent behind
it is nothing, and a list holds alternatives.
"""

import re
import tomllib
from importlib.resources import files


class Wordings:
    """The patterns of one table by name, each compiled at first use: some take a while."""

    def __init__(self, name: str) -> None:
        path = files(__package__).joinpath(f"{name}.toml")
        self._texts: dict[str, str | list[str]] = tomllib.loads(path.read_text("utf-8"))
        words = sorted(filter(str.isupper, self._texts), key=len, reverse=True)
        self._word = re.compile("|".join(words))
        self._compiled: dict[str, re.Pattern[str]] = {}

    def __getitem__(self, name: str) -> re.Pattern[str]:
        """The pattern of that name."""
        if name not in self._compiled:
            self._compiled[name] = re.compile(self.text(name))
        return self._compiled[name]

    def text(self, name: str) -> str:
        """A pattern or a word as a regular expression."""
        value = self._texts[name]
        text = value if isinstance(value, str) else "|".join(value)
        plain = re.sub(
            r"(?<!\\)\((?!\?)", "(?:", re.sub(r"(\A|\n) {2,}", "", text).replace(" ", r"\s")
        )
        return self._word.sub(lambda word: self.text(word[0]), plain)
