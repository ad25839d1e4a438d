"""Claims to verify, from JSONL lines: what ``decomposerl verify`` reads.

One line is one claim, ``{"claim": "…", "evidence": "…" or ["…", "…"], "claim_id": "…"}``. Without
``claim_id`` a claim has none; other fields are not read.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from decomposerl.errors import SourceFileError
from decomposerl.traces.record_fields import Fields
from decomposerl.traces.records import Problem, group_of, json_object


@dataclass(frozen=True, slots=True)
class ClaimRecord:
    """A claim with its evidence. ``passages`` are the parts of the evidence, in order.

    ``claim_id`` is the caller's own, empty where it gave none. ``notes`` say where the evidence
    comes from, if it was searched for; it may then be empty.
    """

    claim: str
    evidence: str
    passages: tuple[str, ...]
    claim_id: str = ""
    notes: tuple[str, ...] = ()

    @property
    def key(self) -> str:
        """16 hex digits of SHA-256 over claim and evidence: what a result is stored under."""
        return group_of(self.claim, self.evidence)


def claim_record(
    values: dict[str, object], file: str, line: int = 1, *, evidence: bool = True
) -> tuple[ClaimRecord | None, list[Problem]]:
    """The claim of a JSON object, or what is wrong with its fields.

    A text is one evidence document whose lines are its passages. ``evidence`` says whether it must
    be there.
    """
    fields = Fields(values)
    claim = fields.text("claim")
    given = evidence or values.get("evidence") is not None
    text = fields.evidence() if given else ""
    claim_id = fields.name("claim_id") if values.get("claim_id") is not None else ""
    passages = tuple(filter(None, map(str.strip, _passages(values.get("evidence"), text))))
    if fields.bad:
        return None, [Problem(file, line, name, reason) for name, reason in fields.bad]
    return ClaimRecord(claim.strip(), "\n".join(passages), passages, claim_id), []


def checked_record(values: dict[str, object], file: str, *, evidence: bool = True) -> ClaimRecord:
    """The claim of values that stand in no line of a file.

    Raises:
        SourceFileError: a field cannot be read; names it.
    """
    record, problems = claim_record(values, file, 0, evidence=evidence)
    if record is None:
        raise SourceFileError(f"{file}, field '{problems[0].field}': {problems[0].reason}")
    return record


def read_claim_records(
    lines: Iterable[str], file: str, *, evidence: bool = True
) -> list[ClaimRecord]:
    """The claims of JSONL lines; blank lines count as lines and hold no claim.

    Raises:
        SourceFileError: a line cannot be read, or there is no claim; it names the file, the line
            and the field of the first problem, and how many more there are.
    """
    records: list[ClaimRecord] = []
    problems: list[Problem] = []
    for number, text in enumerate(lines, start=1):
        if not text.strip():
            continue
        values = json_object(text.removeprefix("\ufeff") if number == 1 else text)
        if isinstance(values, str):
            problems.append(Problem(file, number, "", values))
            continue
        record, wrong = claim_record(values, file, number, evidence=evidence)
        problems += wrong
        records += [] if record is None else [record]
    if problems:
        more = f" (and {len(problems) - 1:,} further problems)" if len(problems) > 1 else ""
        raise SourceFileError(f"{problems[0]}{more}")
    if not records:
        raise SourceFileError(f"{file} holds no claim")
    return records


def _passages(value: object, text: str) -> Iterable[str]:
    return (
        [one for one in value if isinstance(one, str)]
        if isinstance(value, list)
        else (text.splitlines())
    )
