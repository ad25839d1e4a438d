import base64
import gzip
import hashlib
import json
import re
from importlib.resources import files
from itertools import pairwise

import pytest

from decomposerl.reports.trace_page.page import LIBRARIES, live_page, offline_page, offline_parts
from trace_pages import HOSTILE, detail, pages, special_traces, trace

STATIC = files("decomposerl.reports.trace_page") / "static"


def unpacked(packed: str) -> dict[str, object]:
    read: dict[str, object] = json.loads(gzip.decompress(base64.b64decode(packed)))
    return read


def test_index_and_blocks_are_read_back_as_they_were():
    """Texts of any kind survive: tags, line separators, control characters, lone surrogates."""
    index, blocks = special_traces()
    page = offline_page(index, blocks)

    packed = re.findall(r'<script type="application/json" [^>]*>([^<]*)</script>', page)

    assert [index, *blocks] == [unpacked(text) for text in packed]
    page.encode()  # no lone surrogate stands in the file itself


def test_nothing_of_a_trace_stands_in_the_file_as_text():
    """Texts from outside are in the packed data only, so none can be read as HTML."""
    index, blocks = pages([[trace("<i>", HOSTILE[0], detail())]], title="</title><b>")
    page = offline_page(index, blocks)

    assert "</title><b>" not in page
    assert "hacked" not in page


def test_a_page_is_made_in_parts_one_a_block():
    """Many traces need no string of the whole page, and blocks may come from a generator."""
    index, blocks = special_traces()

    parts = list(offline_parts(index, iter(blocks)))

    assert len(blocks) == sum("data-block=" in part for part in parts)
    assert offline_page(index, blocks) == "".join(parts)


def test_a_number_that_json_cannot_hold_is_refused():
    """A page with NaN would not open in any browser."""
    index, blocks = pages([[trace("c", "claim", detail(), confidence=float("nan"))]])
    with pytest.raises(ValueError, match="JSON compliant"):
        offline_page(index, blocks)


@pytest.mark.parametrize("page", [offline_page(*special_traces()), live_page()])
def test_the_policy_admits_exactly_the_scripts_of_the_page(page: str):
    """Every inline script and style has its hash; nothing else runs, nothing is fetched."""
    (policy,) = re.findall(r'Content-Security-Policy" content="([^"]*)"', page)
    rules = dict(rule.split(" ", 1) for rule in policy.split("; "))
    scripts = re.findall(r'<script(?: type="importmap")?>(.*?)</script>', page, re.DOTALL)
    (style,) = re.findall(r"<style>(.*?)</style>", page, re.DOTALL)

    digests = [
        f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"
        for text in (*scripts, style)
    ]

    assert f"data: {digests[0]} {digests[1]}" == rules["script-src"]
    assert digests[2] == rules["style-src"]
    assert "'none'" == rules["default-src"]
    assert ("'none'" if "index-data" in page else "'self'") == rules["connect-src"]
    assert "'script'" == rules["require-trusted-types-for"]


def test_the_files_of_the_page_are_shipped_and_named():
    """Each vendored module is in the import map, and its licence in the page that carries it."""
    notice = (STATIC / "vendor/NOTICE.txt").read_text("utf-8")
    vendored = {file.name for file in (STATIC / "vendor").iterdir()} - {"NOTICE.txt"}

    assert set(LIBRARIES.values()) == vendored
    assert vendored <= set(notice.split())
    assert notice in live_page()
    assert "--" not in notice


def test_modules_import_no_file_that_is_missing_and_none_in_a_circle():
    """Imports name vendored libraries or files of ``static``, and lead one way."""
    own = {file.name: file.read_text("utf-8") for file in STATIC.iterdir() if ".js" in file.name}
    imports = {name: set(re.findall(r'from "([^"]+)"', text)) for name, text in own.items()}
    known = set(LIBRARIES) | {f"trace-page/{name}" for name in own}
    assert set().union(*imports.values()) <= known

    left = {n: {i.removeprefix("trace-page/") for i in of} & set(own) for n, of in imports.items()}
    while ready := [name for name, needs in left.items() if not needs & set(left)]:
        left = {name: needs for name, needs in left.items() if name not in ready}
    assert {} == left


def test_html_is_never_made_from_text():
    """No sink of HTML or code stands in the page's own scripts."""
    sinks = re.compile(
        r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|eval\(|new Function"
    )
    found = {file.name for file in STATIC.iterdir() if ".js" in file.name}
    assert set() == {name for name in found if sinks.search((STATIC / name).read_text("utf-8"))}
    assert {"app.js", "list.js", "trace.js"} <= found


def test_the_data_come_after_what_draws_them():
    """Style, scripts, index, start, blocks: the list is drawn while blocks are still read."""
    page = offline_page(*special_traces())
    marks = ("<style>", "importmap", 'id="app"', "index-data", ".start()", 'data-block="0"')
    places = [page.index(mark) if mark != ".start()" else page.rindex(mark) for mark in marks]
    assert all(first < second for first, second in pairwise(places))
