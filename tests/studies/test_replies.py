"""The command that counts a model's replies: what it prints, bad lines, the file of misses."""

import json
import re
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from project import ROOT
from studies import replies
from studies.reply_operations import OPERATIONS

SHARED = ROOT.parent / "shared" / "replies" / "replies.jsonl"


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
    assert "4 replies: 2 as expected, 1 unread, 1 silently wrong" == out[-1]
    cells = [one.split() for one in out[2:4]]
    assert ["simple/faithful/verdict", "3", "1", "1", "1"] == cells[0]
    assert ["judge/coverage/tags", "1", "1", "0", "0"] == cells[1]
    wrong, unread = (one for one in out if one.startswith("line "))
    assert wrong.startswith("line 3  simple/faithful/verdict  [a trap]  silently wrong: ")
    assert 'expected "Supported", got "Refuted"  reply: Refuted' in wrong
    assert unread.startswith("line 4  ")
    assert "Mills turn. Mills" in unread
    assert len(unread) < 250


BAD_LINES: Sequence[tuple[str | bytes, str]] = (
    ("{", "line 2: broken JSON"),
    ("[" * 100_000, "line 2: broken JSON"),
    ("[]", "line 2: must be a JSON object"),
    (b"\xff", "line 2: not UTF-8"),
    (line(), "line 2, field expected: missing"),
    ('{"reply": "", "expected": null}', "line 2, field operation: missing"),
    (line(expected=None, operation="simple/faithful/verdikt"), "line 2, field operation: unknown"),
    (line(expected=None, modell="x"), "line 2, field modell: unknown field"),
    (line(expected=None, reply=1), "line 2, field reply: must be text"),
    (line(expected=None, style=None), "line 2, field style: must be text"),
    (line(expected=None, truncated="no"), "line 2, field truncated: must be true or false"),
    (line(expected="refuted"), "line 2, field expected: must be "),
    (line(expected=None)[:-1] + ', "reply": ""}', "line 2, field reply: repeated"),
    (
        line(operation="minicheck/user", reply="Yes", expected=None),
        "line 2, field reply: must be a token",
    ),
)


@pytest.mark.parametrize(("bad", "printed"), BAD_LINES, ids=lambda value: str(value)[:50])
def test_a_bad_line_is_named_and_the_others_are_counted(
    bad: str | bytes, printed: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    """The error has file, line and field; the exit code is 2; nothing is lost."""
    good = line(reply="Refuted", expected="Refuted").encode()
    file = tmp_path / "replies.jsonl"
    file.write_bytes(b"\n".join([good, bad if isinstance(bad, bytes) else bad.encode(), good]))
    code, out, err = run(capsys, file)
    assert 2 == code
    assert "2 replies: 2 as expected, 0 unread, 0 silently wrong" == out[-1]
    (error,) = err
    assert error.startswith(f"{file}: {printed}")


def test_a_near_name_is_offered(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    """For an operation that is misspelt."""
    file = file_of(tmp_path, line(operation="silver/tag", expected=1))
    assert "near: silver/tags" in run(capsys, file)[2][0]


@pytest.mark.parametrize("name", ["absent.jsonl", "."])
def test_a_file_that_cannot_be_opened_is_named(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    """With the system's reason."""
    code, out, err = run(capsys, tmp_path / name)
    assert (2, []) == (code, out)
    assert err[0].startswith(f"{tmp_path / name}: ")


def test_a_file_without_replies_is_no_success(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    """Nothing was measured."""
    code, out, err = run(capsys, file_of(tmp_path, "", ""))
    assert (2, "0 replies: 0 as expected, 0 unread, 0 silently wrong") == (code, out[-1])
    assert "no replies" in err[0]


def test_the_misses_are_a_file_of_replies(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    """They keep their fields, have the new reading, and are misses again; no input is replaced."""
    shown = line(reply="Refuted", expected="Supported", style="half \ud800", claim_key="c")
    file = file_of(tmp_path, line(reply="Refuted", expected="Refuted"), shown)
    misses = tmp_path / "misses.jsonl"
    assert 0 == run(capsys, file, "--misses", misses)[0]
    (miss,) = map(json.loads, misses.read_text("utf-8").splitlines())
    assert json.loads(shown) | {"got": miss["got"], "outcome": miss["outcome"]} == miss
    assert ("Refuted", "silently wrong") == (miss["got"], miss["outcome"])
    code, out, _ = run(capsys, misses)
    assert (0, "1 replies: 0 as expected, 0 unread, 1 silently wrong") == (code, out[-1])
    before = file.read_bytes()
    code, out, err = run(capsys, file, "--misses", file)
    assert (2, before) == (code, file.read_bytes())
    assert "would replace" in err[0]
    assert out[-1].startswith("2 replies: ")
    code, out, err = run(capsys, file, "--misses", tmp_path / "absent" / "misses.jsonl")
    assert (2, "2 replies: ") == (code, out[-1][:11])
    assert "misses.jsonl: No such file" in err[0]


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
    printed = capsys.readouterr().out
    assert 0 == ended.value.code
    for name, operation in OPERATIONS.items():
        assert any(
            one.split()[:1] == [name] and one.endswith(operation.shape.form)
            for one in printed.splitlines()
        )


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
