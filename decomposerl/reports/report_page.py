"""The report as Markdown and as one HTML page that needs no network and runs no script.

Both are made from the same sections: names come from corpora and files, so each is escaped. The
page's policy admits its own style and inlined pictures, nothing else.
"""

import base64
import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from html import escape
from typing import TYPE_CHECKING

from decomposerl.reports.report_parts import Picture, Section
from decomposerl.reports.tables import markdown_text, one_line

if TYPE_CHECKING:
    from collections.abc import MutableMapping

    from markdown_it.token import Token

FIGURES = "figures"
"""Folder of the figures beside the pages."""
_RIGHT = "text-align:right"
_STYLE = """
:root { color-scheme: light dark; --line: #8886; }
body { font: 16px/1.5 system-ui, sans-serif; margin: 0 auto; max-width: 68rem; padding: 1rem; }
h1 { margin-bottom: .2rem; } h2 { margin: 2.6rem 0 .4rem; border-top: 1px solid var(--line);
  padding-top: 1rem; }
.soft, figcaption { opacity: .75; font-size: .875rem; overflow-wrap: anywhere; }
.said { font-size: 1.06rem; } .missing { border-left: 4px solid var(--line); padding-left: .8rem; }
code { overflow-wrap: anywhere; }
figure { margin: 1rem 0; } figure img { background: #fff; max-width: 100%; height: auto; }
.table { margin: .6rem 0; overflow-x: auto; }
table { border-collapse: collapse; font-size: .8125rem; }
th, td { padding: .2rem .6rem; text-align: left; white-space: nowrap;
  border-bottom: 1px solid var(--line); }
.table th:first-child, .table td:first-child { position: sticky; left: 0; background: Canvas; }
.right { text-align: right; font-variant-numeric: tabular-nums; }
summary { cursor: pointer; } nav li { margin: .15rem 0; }
@media print { details > * { display: block; } h2 { break-after: avoid; } }
"""


@dataclass(frozen=True, slots=True)
class ReportAbout:
    """The head of the report. ``made`` says from what and by what; ``traces`` is a relative link.

    ``no_traces`` is the command that makes the trace page, where ``traces`` is empty.
    """

    title: str
    made: str
    traces: str = ""
    no_traces: str = ""


def report_markdown(about: ReportAbout, sections: Sequence[Section]) -> str:
    """The report for a reader of Markdown; figures are files below ``FIGURES``."""
    parts = [f"# {markdown_text(about.title)}", markdown_text(about.made)]
    parts.append(
        f"[Every question, answer and verdict]({about.traces})"
        if about.traces
        else f"No traces yet. Next: `{_code(about.no_traces)}`"
    )
    for section in sections:
        parts.append(f"## {markdown_text(section.title)}")
        if section.missing:
            parts.append(_missing(section))
            continue
        parts.append(markdown_text(section.sentence))
        parts += [
            f"![{markdown_text(_alt(section, one))}]({FIGURES}/{_file(one)})"
            for one in section.pictures
        ]
        parts += [markdown_text(line) for line in _notes(section)]
        parts += [section.table] if section.table else []
    return "\n\n".join(parts) + "\n"


def _missing(section: Section) -> str:
    return f"Missing: {markdown_text(section.missing)}. Next: `{_code(section.command)}`"


def _code(text: str) -> str:
    return text.replace("`", "'")


def _file(one: Picture) -> str:
    return f"{one.name}.{'svg' if one.drawn.svg else 'png'}"


def _alt(section: Section, one: Picture) -> str:
    """What the figure shows, for who does not see it."""
    return f"{one.alt}. {section.sentence}"


def _notes(section: Section) -> list[str]:
    """Who measured it, and what of the paper it redoes."""
    redone = f"Redone from the paper: {section.paper}." if section.paper else ""
    return [f"Engine: {section.engine or 'none'}.", *([redone] if redone else [])]


def _escape(text: str) -> str:
    """One line that HTML shows as it is, in a text or an attribute."""
    return escape(one_line(text))


def report_html(about: ReportAbout, sections: Sequence[Section]) -> str:
    """The report as one page; pictures and style are in it."""
    return "".join(_page(about, sections))


def _page(about: ReportAbout, sections: Sequence[Section]) -> Iterator[str]:
    digest = base64.b64encode(hashlib.sha256(_STYLE.encode()).digest()).decode()
    policy = (
        f"default-src 'none'; img-src data:; style-src 'sha256-{digest}'; "
        "base-uri 'none'; form-action 'none'"
    )
    yield (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        '<meta name="referrer" content="no-referrer">\n<link rel="icon" href="data:,">\n'
        f"<title>{_escape(about.title)}</title>\n<style>{_STYLE}</style>\n</head>\n<body>\n"
        f'<h1>{_escape(about.title)}</h1>\n<p class="soft">{_escape(about.made)}</p>\n'
    )
    yield (
        f'<p><a href="{_escape(about.traces)}">Every question, answer and verdict</a></p>\n'
        if about.traces
        else f"<p>No traces yet. Next: <code>{_escape(about.no_traces)}</code></p>\n"
    )
    yield "<nav><ul>\n"
    for section in sections:
        said = f"missing: {section.missing}" if section.missing else section.sentence
        link = f'<a href="#{_escape(section.key)}">{_escape(section.title)}</a>'
        yield f"<li>{link}: {_escape(said)}</li>\n"
    yield "</ul></nav>\n"
    for section in sections:
        yield f'<section id="{_escape(section.key)}">\n<h2>{_escape(section.title)}</h2>\n'
        yield from _body(section)
        yield "</section>\n"
    yield "</body>\n</html>\n"


def _body(section: Section) -> Iterator[str]:
    if section.missing:
        yield (
            f'<p class="missing">Missing: {_escape(section.missing)}. Next: '
            f"<code>{_escape(section.command)}</code></p>\n"
        )
        return
    yield f'<p class="said">{_escape(section.sentence)}</p>\n'
    for one in section.pictures:
        endings = [name for name in ("svg", "png") if getattr(one.drawn, name)]
        links = " · ".join(
            f'<a href="{FIGURES}/{_escape(one.name)}.{end}">{end.upper()}</a>' for end in endings
        )
        yield (
            f'<figure><img src="{_data_uri(one)}" alt="{_escape(_alt(section, one))}">'
            f"<figcaption>{links}</figcaption></figure>\n"
        )
    for line in _notes(section):
        yield f'<p class="soft">{_escape(line)}</p>\n'
    if section.table:
        yield f"<details><summary>Table</summary>\n{table_html(section.table)}</details>\n"


def _data_uri(one: Picture) -> str:
    """The picture inline; as an image an SVG runs nothing."""
    kind, data = ("svg+xml", one.drawn.svg) if one.drawn.svg else ("png", one.drawn.png)
    return f"data:image/{kind};base64,{base64.b64encode(data).decode('ascii')}"


def table_html(markdown: str) -> str:
    """Tables and notes of ``tables`` as HTML; HTML in them stays text."""
    from markdown_it import MarkdownIt

    reader = MarkdownIt("commonmark", {"html": False}).enable("table").disable(["image", "link"])
    tokens = reader.parse(markdown)
    for token in tokens:
        _without_style(token)
    page = str(reader.renderer.render(tokens, reader.options, _environment()))
    return page.replace("<table>", '<div class="table"><table>').replace(
        "</table>", "</table></div>"
    )


def _environment() -> "MutableMapping[str, object]":
    return {}


def _without_style(token: "Token") -> None:
    """The page's policy admits no style at an element, so alignment is a class."""
    if token.attrs.pop("style", "") == _RIGHT:
        token.attrs["class"] = "right"
