"""Tables of wordings: what replies say, as data beside the code that reads it.

``NAME.toml`` has patterns in small letters, and in capitals the words that they are made of. In
both a blank stands for any white space, a bracket only groups, a line break with the indent behind
it is nothing, and a list holds alternatives.
"""

import re
import tomllib
from importlib.resources import files


class Wordings:
    """The patterns of one table by name, each compiled at first use: some take a while.

    ``given`` are words of another table, as regular expressions.
    """

    def __init__(self, name: str, **given: str) -> None:
        path = files(__package__).joinpath(f"{name}.toml")
        self._texts: dict[str, str | list[str]] = tomllib.loads(path.read_text("utf-8"))
        self._given = given
        words = sorted([*filter(str.isupper, self._texts), *given], key=len, reverse=True)
        self._word = re.compile("|".join(words) or "(?!)")
        self._compiled: dict[str, re.Pattern[str]] = {}

    def __getitem__(self, name: str) -> re.Pattern[str]:
        """The pattern of that name."""
        if name not in self._compiled:
            self._compiled[name] = re.compile(self.text(name))
        return self._compiled[name]

    def text(self, name: str) -> str:
        """A pattern or a word as a regular expression."""
        if name in self._given:
            return self._given[name]
        value = self._texts[name]
        text = value if isinstance(value, str) else "|".join(value)
        spaced = re.sub(r"(\A|\n) {2,}", "", text).replace(" ", r"\s")
        plain = re.sub(r"(?<!\\)\((?!\?)", "(?:", spaced)
        return self._word.sub(lambda word: self.text(word[0]), plain)
