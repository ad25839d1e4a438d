"""Measured tables in the Markdown pages of ``docs``."""

from pathlib import Path

from decomposerl.errors import ConfigError


def write_between_markers(path: Path, name: str, text: str) -> None:
    """Replace the text between the two markers ``name`` of a Markdown file.

    Raises:
        ConfigError: the file has no such markers.
    """
    begin, end = f"<!-- {name} report: begin -->", f"<!-- {name} report: end -->"
    page = path.read_text("utf-8")
    if page.count(begin) != 1 or page.count(end) != 1:
        raise ConfigError(f"{path} needs the lines '{begin}' and '{end}' once each")
    before, rest = page.split(begin)
    path.write_text(f"{before}{begin}\n{text}\n{end}{rest.split(end)[1]}", "utf-8")
