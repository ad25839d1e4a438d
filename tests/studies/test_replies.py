"""Files of a model's replies: how each operation reads one, and the command that counts them.

The tables are in ``replies.json``.
"""

import json
import re
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from project import ROOT
from strategies import law
from studies import replies, reply_shapes
from studies.reply_drive import drive
from studies.reply_operations import OPERATIONS, reading
from studies.reply_rows import Row, RowError
from studies.reply_shapes import accepted, compared

SHARED = ROOT.parent / "shared" / "replies" / "replies.jsonl"
TABLES = json.loads((ROOT / "tests/studies/replies.json").read_text("utf-8"))
WRITTEN_OUT = "Q1: Who built the mill?\nA1: Ada Holm.\nQ2: When?\nA2: In 1840.\n\nVerdict: Refuted"
READINGS = TABLES["readings"] + [
    (operation, WRITTEN_OUT, ["Refuted", 2])
    for operation in OPERATIONS
    if operation.endswith("/single_call/single_call")
]


def line(**values: object) -> str:
    return json.dumps({"operation": "simple/faithful/verdict", "reply": "", **values})


def file_of(folder: Path, *lines: str) -> Path:
    path = folder / "replies.jsonl"
    path.write_text("".join(f"{one}\n" for one in lines), "utf-8")
    return path


def run(capsys: pytest.CaptureFixture[str], *arguments: object) -> tuple[int, list[str], list[str]]:
    """Exit code, lines of standard output and of standard error."""
    code = replies.main(list(map(str, arguments)))
    printed = capsys.readouterr()
    return code, printed.out.splitlines(), printed.err.splitlines()


def test_a_plain_reply_is_read_by_the_operations_own_reader():
    """Every operation has a row; its reading is of the operation's shape and as expected."""
    assert set(OPERATIONS) == {operation for operation, _, _ in READINGS}
    for operation, reply, expected in READINGS:
        shape, got = OPERATIONS[operation].shape, reading(Row(operation, reply, expected))
        assert accepted(shape, got), (operation, reply)
        assert "as expected" == compared(shape, expected, got), (operation, reply, got)


@pytest.mark.parametrize("operation", sorted(set(OPERATIONS) - {"minicheck/user"}))
@law(12)
@given(reply=st.text("NOne yesQA12:.?|[]<>\n{}\"'-") | st.text())
def test_any_reply_has_a_reading_of_its_operations_shape(operation: str, reply: str):
    """Readers refuse by a ``ValueError``, which becomes a text, never by another exception."""
    for truncated in (False, True):
        got = reading(Row(operation, reply, None, truncated=truncated))
        assert accepted(OPERATIONS[operation].shape, got)


@pytest.mark.parametrize("reply", TABLES["tokens without alternatives"])
def test_a_token_without_its_alternatives_is_a_fault_of_the_file(reply: str):
    """It says nothing about the reader."""
    with pytest.raises(RowError) as refused:
        reading(Row("minicheck/user", reply, None))
    assert "reply" == refused.value.field


def test_outcomes():
    """A lost reading is unread, another one silently wrong, error texts and other shapes none."""
    for name, expected, got, outcome in TABLES["outcomes"]:
        shape: reply_shapes.Shape = getattr(reply_shapes, name)
        assert accepted(shape, expected), (name, expected)
        assert outcome == compared(shape, expected, got), (name, expected, got)
    for operation, expected in TABLES["other shapes"]:
        assert not accepted(OPERATIONS[operation].shape, expected), (operation, expected)


def test_a_reply_is_cut_where_the_call_stops():
    """What an endpoint would not have sent is not read; then the token limit cut nothing."""
    operation = "hiss/faithful/work_through"
    reply = "Q1: Who?\nA1: Ada.\nSub-claim 2: more\nQ2: When?\nA2: 1840."
    assert 1 == reading(Row(operation, reply, 1))
    assert 1 == reading(Row(operation, reply, 1, truncated=True))
    assert 1 == reading(Row(operation, reply.replace("Sub-claim 2: more\n", ""), 1, truncated=True))
    row = Row("judge/correctness/tags", "<answer>1</answer>", "1", truncated=True)
    assert "unread" == compared(OPERATIONS[row.operation].shape, "1", reading(row))


def test_numbers_are_read_in_the_range_of_the_prompt():
    """The prompt says how many passages there are; without it, 99."""
    prompt = "Passages:\n1. one\n2. two\n3. three\n\nWhich year, 1840. or later?"
    assert reading(Row("chen_2024/faithful/select", "4", None, prompt=prompt)) is None
    assert [4] == reading(Row("chen_2024/faithful/select", "4", [4]))


def test_a_call_without_a_written_reply_is_an_error():
    """It names the template: a method that asks something new needs a plain reply for it."""
    with pytest.raises(LookupError, match="'single_call'"):
        drive(Row("self_ask/single_call/transcript", "Follow up: Who?", None))
    with pytest.raises(LookupError, match="template"):
        drive(Row("self_ask/faithful/check", "Yes", None))


def test_the_report(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    """A table of the operations present, the misses with line and style, the sums at the end."""
    file = file_of(
        tmp_path,
        line(reply="Refuted", expected="Refuted"),
        "",
        line(reply="Refuted", expected="Supported", style="a trap"),
        line(reply="Mills\nturn. " * 40, expected="Supported"),
        line(operation="judge/coverage/tags", reply="No.", expected=None),
    )
    code, out, err = run(capsys, file)
    assert (0, []) == (code, err)
    assert ["4", "2", "1", "1"] == re.findall(r"\d+", out[-1])
    cells = [one.split() for one in out[2:4]]
    assert ["simple/faithful/verdict", "3", "1", "1", "1"] == cells[0]
    assert ["judge/coverage/tags", "1", "1", "0", "0"] == cells[1]
    wrong, unread = (one for one in out if one.startswith("line "))
    for part in ("line 3", "simple/faithful/verdict", "a trap", '"Supported"', '"Refuted"'):
        assert part in wrong
    assert unread.startswith("line 4  ")
    assert "Mills turn. Mills" in unread
    assert len(unread) < 250


BAD_LINES: Sequence[tuple[str | bytes, str]] = (
    *(("{", "JSON"), ("[" * 100_000, "JSON"), ("[]", "object"), (b"\xff", "UTF-8")),
    (line(), "field expected"),
    ('{"reply": "", "expected": null}', "field operation"),
    (line(expected=None, operation="simple/faithful/verdikt"), "field operation"),
    (line(expected=None, operation="silver/tag"), "silver/tags"),
    (line(expected=None, modell="x"), "field modell"),
    (line(expected=None, reply=1), "field reply"),
    (line(expected=None, style=None), "field style"),
    (line(expected=None, truncated="no"), "field truncated"),
    (line(expected="refuted"), "field expected"),
    (line(expected=None)[:-1] + ', "reply": ""}', "field reply: repeated"),
    (line(operation="minicheck/user", reply="Yes", expected=None), "field reply"),
)


@pytest.mark.parametrize(("bad", "named"), BAD_LINES, ids=lambda value: str(value)[:50])
def test_a_bad_line_is_named_and_the_others_are_counted(
    bad: str | bytes, named: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    """The error has file, line and field or near name; the exit code is 2; nothing is lost."""
    good = line(reply="Refuted", expected="Refuted").encode()
    file = tmp_path / "replies.jsonl"
    file.write_bytes(b"\n".join([good, bad if isinstance(bad, bytes) else bad.encode(), good]))
    code, out, (error,) = run(capsys, file)
    assert (2, ["2", "2", "0", "0"]) == (code, re.findall(r"\d+", out[-1]))
    assert error.startswith(f"{file}: line 2")
    assert named in error


def test_a_file_that_cannot_be_read_is_no_success(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    """One that is absent or a folder is named; one without replies measured nothing."""
    for name in ("absent.jsonl", "."):
        code, out, err = run(capsys, tmp_path / name)
        assert (2, []) == (code, out)
        assert err[0].startswith(f"{tmp_path / name}: ")
    code, out, err = run(capsys, file_of(tmp_path, "", ""))
    assert (2, 1, "0 replies") == (code, len(err), out[-1][:9])


def test_the_misses_are_a_file_of_replies(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    """They keep their fields, have the new reading, and are misses again; no input is replaced."""
    shown = line(reply="Refuted", expected="Supported", style="half \ud800", claim_key="c")
    file = file_of(tmp_path, line(reply="Refuted", expected="Refuted"), shown)
    misses = tmp_path / "misses.jsonl"
    assert 0 == run(capsys, file, "--misses", misses)[0]
    (miss,) = map(json.loads, misses.read_text("utf-8").splitlines())
    assert json.loads(shown) | {"got": "Refuted", "outcome": "silently wrong"} == miss
    code, out, _ = run(capsys, misses)
    assert (0, ["1", "0", "0", "1"]) == (code, re.findall(r"\d+", out[-1]))
    before = file.read_bytes()
    code, out, err = run(capsys, file, "--misses", file)
    assert (2, 1, before) == (code, len(err), file.read_bytes())
    assert out[-1].startswith("2 replies: ")
    code, out, err = run(capsys, file, "--misses", tmp_path / "absent" / "misses.jsonl")
    assert (2, "2 replies: ") == (code, out[-1][:11])
    assert "misses.jsonl" in err[0]


def test_nothing_from_the_file_moves_the_cursor(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    """Replies, styles, expected values, names of fields: visible escapes only."""
    attack = "\x1b[2J\u202e\u2028\x07"
    file = file_of(
        tmp_path,
        line(reply=attack, expected="Refuted", style=attack),
        line(operation="qacheck/faithful/first_question", reply=f"Who{attack}?", expected=attack),
        line(operation=attack, expected=None),
        line(expected=attack),
        line(expected=None, **{attack: 1}),
    )
    code, out, err = run(capsys, file)
    assert (2, 3) == (code, len(err))
    assert all(one.isprintable() for one in [*out, *err])
    assert 2 == sum("\\x1b" in one for one in out)


def test_the_help_lists_every_operation(capsys: pytest.CaptureFixture[str]):
    """With the form of its readings."""
    with pytest.raises(SystemExit) as ended:
        replies.main(["--help"])
    assert 0 == ended.value.code
    printed = capsys.readouterr().out.splitlines()
    for name, operation in OPERATIONS.items():
        form = operation.shape.form
        assert any(one.split()[:1] == [name] and one.endswith(form) for one in printed), name


def test_the_documented_example_gives_the_documented_sums(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    """Of ``docs/how-to/evaluate.md``."""
    page = (ROOT / "docs/how-to/evaluate.md").read_text("utf-8")
    section = page.partition("## Read replies of your own model")[2].partition("\n## ")[0]
    example, sums = re.findall(r"```(?:json)?\n(.*?)```", section, re.DOTALL)
    code, out, _ = run(capsys, file_of(tmp_path, example.rstrip()))
    assert (0, sums.strip()) == (code, out[-1])


@pytest.mark.skipif(not SHARED.exists(), reason="the shared replies are not on this machine")
def test_every_shared_reply_is_read(capsys: pytest.CaptureFixture[str]):
    """All rows are of a known operation and shape; shows the sums."""
    rows = sum(1 for one in SHARED.read_bytes().splitlines() if one.strip())
    code, out, err = run(capsys, SHARED)
    with capsys.disabled():
        sys.stdout.write(f"\n{out[-1]}\n")
    assert (0, []) == (code, err)
    assert out[-1].startswith(f"{rows} replies: ")
