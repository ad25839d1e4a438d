"""The trace page as HTML: the offline file with its data, or the live page that asks a server.

Style, scripts and vendored libraries are the files of ``static``, unchanged: modules stand in an
import map as data URLs, so that there is no build step. Data are base64 of compressed JSON, and
nothing of them is HTML. The page's policy admits these scripts alone, no network but the live
page's own server, and no sink that would read a text as HTML.
"""

import base64
import gzip
import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping
from importlib.resources import files
from importlib.resources.abc import Traversable
from typing import Any

LIBRARIES = {
    "preact": "preact.mjs",
    "preact/hooks": "preact-hooks.mjs",
    "@preact/signals": "preact-signals.mjs",
    "@preact/signals-core": "preact-signals-core.mjs",
    "htm": "htm.mjs",
}
"""Vendored modules by the name they are imported by; ``vendor/NOTICE.txt`` has their licences."""
_OWN = "trace-page"
_START = f'import("{_OWN}/app.js").then((page) => page.start());'
_LEVEL = 6


def offline_parts(index: Mapping[str, Any], blocks: Iterable[Mapping[str, Any]]) -> Iterator[str]:
    """One HTML file that shows ``index`` and ``blocks``, from disk and without a network.

    In parts, one a block: many traces need little memory. The list needs the index only, so that it
    is drawn while a browser still reads the blocks.

    Raises:
        ValueError: a number is not finite, which JSON cannot hold.
    """
    yield _head("'none'")
    yield f'<script type="application/json" id="index-data">{_packed(index)}</script>\n'
    yield f"<script>{_START}</script>\n"
    for number, block in enumerate(blocks):
        yield f'<script type="application/json" data-block="{number}">{_packed(block)}</script>\n'
    yield "</body>\n</html>\n"


def live_page() -> str:
    """The page of ``decomposerl view``: it asks its own server for index, blocks and marks."""
    head = _head("'self'")
    return f"{head}<script>{_START}</script>\n</body>\n</html>\n"


def _head(connect: str) -> str:
    style, modules = _static("style.css"), _import_map()
    return f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="{_policy(style, modules, connect)}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<meta name="referrer" content="no-referrer">
<link rel="icon" href="data:,">
<title>Traces</title>
<!--
{_static("vendor/NOTICE.txt")}-->
<style>{style}</style>
<script type="importmap">{modules}</script>
</head>
<body>
<div id="app"><p class="placeholder">Reading the traces …</p></div>
<noscript><p class="placeholder">This page needs JavaScript.</p></noscript>
"""


def _import_map() -> str:
    named = {name: f"vendor/{file}" for name, file in LIBRARIES.items()}
    own = sorted(file.name for file in _folder().iterdir() if file.name.endswith(".js"))
    named |= {f"{_OWN}/{file}": file for file in own}
    urls = {name: f"data:text/javascript;base64,{_base64(_static(path).encode())}"
            for name, path in named.items()}  # fmt: skip
    return json.dumps({"imports": urls})


def _policy(style: str, modules: str, connect: str) -> str:
    """Inline scripts and style by hash; modules are data URLs, and no text can name one."""
    scripts = " ".join(f"'sha256-{_digest(text)}'" for text in (modules, _START))
    return "; ".join([
        "default-src 'none'",
        f"script-src data: {scripts}",
        f"style-src 'sha256-{_digest(style)}'",
        "img-src data:",
        f"connect-src {connect}",
        "base-uri 'none'",
        "form-action 'none'",
        "require-trusted-types-for 'script'",
        "trusted-types 'none'",
    ])  # fmt: skip


def _packed(value: Mapping[str, Any]) -> str:
    """base64(gzip(JSON)); JSON in ASCII, so that lone surrogates are kept."""
    text = json.dumps(value, allow_nan=False, separators=(",", ":"))
    return _base64(gzip.compress(text.encode(), _LEVEL, mtime=0))


def _base64(content: bytes) -> str:
    return base64.b64encode(content).decode()


def _digest(text: str) -> str:
    return _base64(hashlib.sha256(text.encode()).digest())


def _folder() -> Traversable:
    return files("decomposerl.reports.trace_page").joinpath("static")


def _static(path: str) -> str:
    return _folder().joinpath(path).read_text("utf-8")
