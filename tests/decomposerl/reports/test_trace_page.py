"""The trace page: what it is given, and the file that it is."""

import base64
import gzip
import hashlib
import json
import re
from dataclasses import replace
from importlib.resources import files
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from decomposerl.baselines.method import Verification
from decomposerl.errors import SourceFileError
from decomposerl.replies.rulings import CRITERIA
from decomposerl.reports.trace_page.details import (
    detail_json,
    evidence_json,
    grounded_answers,
    json_bytes,
    judge_json,
    utf16,
)
from decomposerl.reports.trace_page.items import (
    Judged,
    ShownReward,
    ShownRuling,
    TraceItem,
    judge_calls,
)
from decomposerl.reports.trace_page.page import LIBRARIES, live_page, offline_parts
from decomposerl.reports.trace_page.pages import (
    FLAG_NAMES,
    MOST_TRACES,
    PageAbout,
    pages_of,
    trace_flags,
)
from decomposerl.reports.trace_page.results import result_item, result_line, verified_item
from decomposerl.reports.verified import VerifiedClaim, VerifiedQuestion, Verifying
from decomposerl.traces.trace import Cycle
from trace_pages import HOSTILE, detail, offline_page, pages, special_traces, trace
from trace_parts import CYCLES, EVIDENCE, confidence, item

ABOUT = PageAbout("Traces", "decomposerl 1")


def detail_of(one: TraceItem) -> dict[str, Any]:
    return json.loads(json_bytes(detail_json(one, grounded_answers(one), 0)))


def flags(one: TraceItem) -> set[str]:
    bits = trace_flags(one, grounded_answers(one))
    return {name for place, name in enumerate(FLAG_NAMES) if bits >> place & 1}


def index(*items: TraceItem) -> dict[str, Any]:
    return pages_of(items, ABOUT)[0]


def wide(text: str, span: list[int]) -> str:
    """What JavaScript's ``slice`` gives."""
    return text.encode("utf-16-le")[2 * span[0] : 2 * span[1]].decode("utf-16-le")


def test_each_answer_has_its_status_and_spans():
    """Offsets are JavaScript's beyond 16 bits too; sentences cover the text but for white space."""
    sentences = evidence_json(EVIDENCE)["sentences"]
    assert EVIDENCE == " ".join(wide(EVIDENCE, span) for span in sentences)
    cycles = detail_of(item())["cycles"]
    statuses = [one["status"] for one in cycles]
    assert ["quotes_evidence", "contradicted", "abstained", "not_in_evidence"] == statuses
    (born,), (won,) = cycles[0]["spans"], cycles[1]["spans"]
    assert "She was born in Odense." == wide(EVIDENCE, born["evidence"])
    assert "She was born in Odense." == wide(CYCLES[0].answer, born["answer"])
    assert ("exact", "near") == (born["match"], won["match"])
    assert "Ada Brown won the national championship in 1937." == wide(EVIDENCE, won["evidence"])
    assert ["So far.", "", "", ""] == [one["thought"] for one in cycles]


@given(st.text(max_size=30), st.integers(0, 30))
def test_offsets_count_utf16_units(text: str, offset: int):
    """As many units as the text before the offset takes."""
    offset = min(offset, len(text))
    assert len(text[:offset].encode("utf-16-le", "surrogatepass")) // 2 == utf16(text)(offset)


RULINGS = (
    ShownRuling("coverage", "full", None, "Supported", None, "rule_judge:4"),
    ShownRuling("coverage", "leave_one_out", 0, "NotEnoughInfo", None, "rule_judge:4"),
    ShownRuling("coverage", "leave_one_out", 1, "Supported", None, "rule_judge:4"),
    ShownRuling("answerability", "question", 0, "1", None, "rule_judge:4"),
    ShownRuling("atomicity", "question", 0, "11011", None, "rule_judge:4"),
    ShownRuling("correctness", "question", 0, "0", None, "rule_judge:4"),
    ShownRuling("correctness", "question", 1, None, "timeout", "rule_judge:4"),
)
JUDGED = Judged(
    rewards=(ShownReward("diversity", -0.4, "scored", 0.5), ShownReward("odd", None, "failed", 1)),
    rulings=RULINGS,
    necessity=("necessary", "redundant", "failed", ""),
    cosines=(None, 0.91, 0.42, None),
    total=3.25,
)


def test_what_judge_and_rewards_said():
    """By question; a state that is no finding and a failed ruling are no value."""
    made = detail_of(item(judged=JUDGED))
    first, second, third, _ = made["cycles"]
    assert {"finding": "necessary", "without": "Not enough information"} == first["necessity"]
    assert {"finding": "redundant", "without": "Supported"} == second["necessity"]
    assert third["necessity"] is None
    assert (True, False) == (first["answerable"], first["correct"])
    assert (None, None) == (second["answerable"], second["correct"])
    assert [True, True, False, True, True] == [one["met"] for one in first["atomicity"]]
    marks = [one["mark"] for one in first["atomicity"]]
    assert [name.replace("_", " ") for name in CRITERIA] == marks
    assert first["nearest"] is None
    assert {"question": 0, "cosine": 0.91} == second["nearest"]
    assert {"question": None, "cosine": 0.42} == third["nearest"]
    bar = {"name": "diversity", "value": -0.4, "state": "scored", "weight": 0.5}
    assert bar | {"low": -1.0, "high": 1.0} == made["rewards"][0]
    assert {"low": 0.0, "high": 1.0} == {name: made["rewards"][1][name] for name in ("low", "high")}
    assert [one.value for one in RULINGS] == [one["value"] for one in made["judge"]]
    alone = item(cycles=CYCLES[:1], judged=Judged(necessity=("necessary",)))
    (only,) = detail_of(alone)["cycles"]  # without it no answer is left: that takes no call
    assert {"finding": "necessary", "without": "Not enough information"} == only["necessity"]


def test_numbers_that_json_has_not_are_null():
    """A page with NaN would not load; ASCII holds any text, half a surrogate pair too."""
    made = detail_of(item(reply="\ud800", opening="<script>"))
    assert ("\ud800", "<script>") == (made["reply"], made["opening"])
    nan = float("nan")
    judged = Judged((ShownReward("format", nan, "scored", nan),), cosines=(None, nan), total=nan)
    one = item(judged=judged, confidence=confidence(nan))
    made = detail_of(one)
    assert [None, None] == [made["confidence"], made["cycles"][1]["nearest"]]
    assert (None, 0.0) == (made["rewards"][0]["value"], made["rewards"][0]["weight"])
    assert ([None], [None]) == (index(one)["total"], index(one)["confidence"])


def test_the_judges_texts_have_a_limit():
    """What does not fit is left out; shorter texts after it stay."""
    long = replace(RULINGS[0], prompt="p" * 90, reply="r")
    short = replace(RULINGS[1], prompt="p", reply="r", call_key="k")
    made = judge_json([long, short], 50)
    assert [("", ""), ("p", "r")] == [(one["prompt"], one["reply"]) for one in made]
    assert "call_key" not in made[0]


@pytest.mark.parametrize(
    ("changed", "expected"),
    [
        ({"cycles": ()}, set()),
        ({"cycles": (), "gold": "Refuted"}, {"wrong"}),
        ({"cycles": (), "gold": None}, set()),
        ({"cycles": (), "verdict": None, "status": "unparsed"}, {"unparsed"}),
        ({"cycles": (), "verdict": None, "status": "truncated"}, {"truncated"}),
        ({"cycles": (), "verdict": None, "status": "failed"}, {"failed"}),
        ({"cycles": CYCLES[2:3]}, {"silent"}),
        ({"cycles": CYCLES[:1]}, set()),
        ({"cycles": (CYCLES[0], CYCLES[2])}, {"partly_answered"}),
        ({"cycles": CYCLES[3:]}, {"not_in_evidence"}),
        ({"cycles": CYCLES[1:2]}, {"contradicted"}),
        ({"cycles": (), "judged": Judged(necessity=("harmful",))}, {"harmful_question"}),
    ],
)
def test_flags(changed: dict[str, Any], expected: set[str]):
    """Each one alone; a trace without a verdict or a label is not wrong."""
    assert expected == flags(item(**changed))


def test_confident_and_wrong():
    """From nine tenths on, by the confidence that the page shows."""
    place = FLAG_NAMES.index("confident_and_wrong")
    for sure, flagged in ((0.9, 1), (0.89, 0)):
        made = index(item(gold="Refuted", confidence=confidence(sure)), item("c2", gold="Refuted"))
        assert [flagged, 0] == [bits >> place & 1 for bits in made["flags"]]


def test_one_kind_of_confidence():
    """Calibrated only where every confidence of the page is."""
    mixed = index(item(confidence=confidence(0.8, 0.6)), item("c2", confidence=confidence(0.7)))
    assert ("normalised", [0.8, 0.7]) == (mixed["confidence_kind"], mixed["confidence"])
    same = index(item(confidence=confidence(0.8, 0.6)), item("c2"))
    assert ("calibrated", [0.6, None]) == (same["confidence_kind"], same["confidence"])
    assert ("", [None]) == (index(item())["confidence_kind"], index(item())["confidence"])


def test_the_index_has_a_row_for_each_trace():
    """Columns of one length; traces of a claim next to each other, whatever their order."""
    items = [
        item("c1", "one", benchmark="fever"),
        item("c2", "one"),
        item("c1", "two", step=10, rollout=3, verdict=None, gold="Refuted", status="failed"),
    ]
    made, blocks = pages_of(items, ABOUT)
    columns = {"claim_id": ["c1", "c1", "c2"], "system": [0, 1, 0], "benchmark": [0, -1, -1]}
    columns |= {"verdict": ["S", "", "S"], "gold": ["S", "R", "S"]}
    columns |= {"step": [None, 10, None], "rollout": [None, 3, None]}
    assert columns == {name: made[name] for name in columns}
    assert ["one", "two"] == [one["key"] for one in made["systems"]]
    assert "decomposerl 1; engines: rules" == made["made"]
    others = ("block_of", "place_of", "claim", "confidence", "status", "questions", "flags")
    assert {3} == {len(made[name]) for name in others}
    assert [1, [0, 0, 0], [0, 1, 2]] == [made["blocks"], made["block_of"], made["place_of"]]
    assert [EVIDENCE] == [one["text"] for one in blocks[0]["evidence"]]


def test_blocks_end_between_claims():
    """However many traces a claim has, they lie in one block, where the index says."""
    steps = range(MOST_TRACES - 1)
    items = [item(f"c{n}", step=step, rollout=0) for n in range(3) for step in steps]
    made, blocks = pages_of(items, ABOUT)
    assert made["blocks"] == len(blocks) == 2
    assert 3 == len(set(zip(made["claim_id"], made["block_of"], strict=True)))
    places = [(n, place) for n, block in enumerate(blocks) for place in range(len(block["items"]))]
    assert places == list(zip(made["block_of"], made["place_of"], strict=True))
    assert all(0 == one["evidence"] for block in blocks for one in block["items"])


RESULT = VerifiedClaim(
    "Ada won.",
    "Refuted",
    confidence(0.8),
    (VerifiedQuestion("When?", "In 1937.", ("Ada won in 1937.",), "Then."),),
    "self_ask-rules-faithful",
    "rules",
    ("weak",),
    evidence="Ada won in 1937.",
    opening="Look.",
    reply="…",
    prompt_hash="ab",
    notes={"asked_again": 1},
)


def test_a_result_of_verify_is_a_trace():
    """In memory and read back from its JSON line alike."""
    one = verified_item(RESULT)
    assert one == result_line(json.dumps(RESULT.as_json()), "", 1)
    assert (Cycle("When?", "In 1937.", "Then."),) == one.cycles
    assert (RESULT.evidence, "Look.", "…") == (one.evidence, one.opening, one.reply)
    assert ("Refuted", confidence(0.8)) == (one.verdict, one.confidence)
    assert '{"asked_again": 1}' == one.notes
    assert 16 == len(one.claim_id)
    assert "mine" == verified_item(replace(RESULT, claim_id="mine")).claim_id


def test_a_result_without_evidence_shows_the_sentences_behind_its_answers():
    """As results of earlier versions are; a warning says so. A line may hold a gold label."""
    values = line(gold="Supported")
    del values["evidence"]
    one = result_item(values, "old.jsonl")
    assert ("Ada won in 1937.", "Supported") == (one.evidence, one.gold)
    assert "evidence" in one.warnings[-1]


def line(**changed: object) -> dict[str, object]:
    return json.loads(json.dumps(RESULT.as_json())) | changed


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("claim", None),
        ("system", 3),
        *((field, "maybe") for field in ("verdict", "gold", "status")),
        ("evidence", 3),
        ("evidence", ["Ada won.", 3]),
        ("questions", 3),
        ("questions", [3]),
        ("confidence", 3),
        ("confidence", {"raw": 0.5}),
        ("confidence", {"raw": "sure", "normalised": 1}),
    ],
)
def test_what_is_no_result_is_refused(field: str, value: object):
    """With file, line and field."""
    with pytest.raises(SourceFileError, match=f"a.jsonl, line 7: field '{field}"):
        result_line(json.dumps(line(**{field: value})), "a.jsonl", 7)


def test_judge_calls_of_a_trace():
    """The same keys as in the log: full, one left out each, and three of each question."""
    calls = judge_calls(item())
    assert 1 + 4 + 4 + 4 + 3 == len(calls)  # an abstention's correctness is not asked for
    tasks = {call.task for call in calls.values()}
    assert {"coverage", "answerability", "atomicity", "correctness"} == tasks


@pytest.mark.parametrize(
    ("answer", "warned"),
    [("Yes.", False), ("Refuted", False), ("I don't know.", False), ("A long bridge.", True)],
)
def test_a_warning_names_answers_that_say_something(answer: str, *, warned: bool):
    """A bare yes, no or verdict is near to no sentence by nature; the page says the same."""
    ended = Verification("Supported", "parsed", "", (Cycle("Which did she cross?", answer),))
    made = Verifying("one", "rules", "").verified("Ada won.", EVIDENCE, ended, None)
    assert warned == any("near to no sentence" in one for one in made.warnings)
    index, _ = pages_of([verified_item(made)], ABOUT)
    flag = 1 << index["flag_names"].index("not_in_evidence")
    assert warned == bool(index["flags"][0] & flag)


STATIC = files("decomposerl.reports.trace_page") / "static"


def test_index_and_blocks_are_read_back_as_they_were():
    """Texts of any kind survive: tags, line separators, control characters, lone surrogates."""
    index, blocks = special_traces()
    page = offline_page(index, blocks)
    packed = re.findall(r'<script type="application/json" [^>]*>([^<]*)</script>', page)
    read = [json.loads(gzip.decompress(base64.b64decode(text))) for text in packed]
    assert [index, *blocks] == read
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
