"""The file of marks: appended to by several processes, never spoiled by a killed one."""

import json
import resource
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from decomposerl.errors import EvaluationError
from decomposerl.evaluation.marks import Mark
from resources.traces.marks import MarksFile, read_marks

MARK = Mark("c1", "one", None, None, "ada", "agree", "it’s so\n", None, "2026-01-02T03:04:05Z")


def test_marks_are_appended_as_lines(tmp_path: Path):
    """And read back, by both readers; no file is no mark."""
    file = MarksFile(tmp_path / "new/marks.jsonl")
    assert ([], b"") == (file.marks(), file.content())
    file.append(MARK)
    file.append(MARK)
    assert [MARK, MARK] == file.marks()
    assert ([MARK, MARK], []) == read_marks([file.path])
    assert 2 == file.content().count(b"\n")


def test_a_line_that_a_killed_process_left_costs_no_other(tmp_path: Path):
    """The next mark begins on a line of its own; the page leaves the broken one out."""
    file = MarksFile(tmp_path / "marks.jsonl")
    file.append(MARK)
    file.path.write_bytes(file.content() + b'{"claim_id": "c1", "no')
    file.append(MARK)
    assert [MARK, MARK] == file.marks()


def test_a_mark_that_is_written_in_part_is_refused(tmp_path: Path):
    """Where the disk takes half of a line, the file stays as it was and the error says so."""
    file = MarksFile(tmp_path / "marks.jsonl")
    file.append(MARK)
    before = file.content()
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (len(before) + 9, hard))
    try:
        with pytest.raises(OSError, match=r"No space left.*marks\.jsonl"):
            file.append(MARK)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert before == file.content()
    file.append(MARK)
    assert [MARK, MARK] == file.marks()


def test_many_writers(tmp_path: Path):
    """Every mark is on a whole line."""
    path = tmp_path / "marks.jsonl"
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda _: MarksFile(path).append(MARK), range(64)))
    assert [MARK] * 64 == MarksFile(path).marks()


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("[]", "line 2: is a list"),
        ('{"claim_id": ""}', "line 2: field"),
        ('{"mark": ', "line 2: is no JSON"),
    ],
)
def test_a_line_that_is_no_mark_is_named(tmp_path: Path, text: str, named: str):
    """By file and line, and costs no other mark; alone in a file, it is refused."""
    path = tmp_path / "odd.jsonl"
    path.write_text(f"{json.dumps(MARK.as_json())}\n{text}\n", "utf-8")
    marks, (skipped,) = read_marks([path])
    assert [MARK] == marks
    assert f"odd.jsonl, {named}" in skipped
    path.write_text(f"\n{text}", "utf-8")
    with pytest.raises(EvaluationError, match=f"no mark in .*odd.jsonl, {named}"):
        read_marks([path])


def test_files_without_a_mark_are_refused(tmp_path: Path):
    """An empty count is nobody's answer."""
    path = tmp_path / "none.jsonl"
    path.write_text("\n", "utf-8")
    with pytest.raises(EvaluationError, match="no mark in"):
        read_marks([path])
