"""Streams that are terminals for a program."""

import io


class Tty(io.StringIO):
    """A terminal that keeps what is drawn; ``gone``: it was closed from outside."""

    gone = False

    def isatty(self) -> bool:
        """Always."""
        return True

    def write(self, text: str) -> int:
        """Keep the text, or fail as a terminal does after a logout."""
        if self.gone:
            raise OSError(5, "Input/output error")
        return super().write(text)
