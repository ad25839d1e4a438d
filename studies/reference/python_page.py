"""``docs/reference/python.md``: what is meant to be imported, with examples that a test runs.

A ``text`` block after a ``python`` block is what the example prints.
"""

import ast
import dataclasses
import inspect
import re
from collections.abc import Iterator
from dataclasses import dataclass
from types import FunctionType

from decomposerl import api
from decomposerl.evaluation import metrics
from decomposerl.traces import grammar, trace
from resources.catalogue import database
from studies.reference.markdown import MADE, code, paragraphs, plain, table


@dataclass(frozen=True, slots=True)
class Subject:
    """A section of the page; ``names`` are functions and classes to import.

    ``prints`` is empty where that depends on the data.
    """

    title: str
    text: str
    example: str
    prints: str
    names: tuple[object, ...]


_VERIFY = """\
from decomposerl.api import verify

evidence = "Ada Brown, a swimmer, was born in Odense."
result = verify("Ada Brown was born in Odense.", evidence)
print(result.verdict)
for question in result.questions:
    print(question.question, question.evidence)
"""
_SCORE = '''\
from decomposerl.api import RewardSettings, score_traces

trace = """<think>
1. Ada Brown was born in Odense. 2. She is a person.
</think>
<question>
Where was Ada Brown born?
</question>
<answer>
Ada Brown was born in Odense.
</answer>
<think>
Who she is comes next.
</think>
<question>
What did Ada Brown do?
</question>
<answer>
Ada Brown was a swimmer.
</answer>
<verification>
Supported
</verification>"""
record = {
    "claim": "Ada Brown was born in Odense.",
    "evidence": "Ada Brown, a swimmer, was born in Odense.",
    "trace": trace,
    "label": "Supported",
    "n_star": 2,
}
(scored,) = score_traces([record], RewardSettings(weights={"diversity": 0}))
print(scored["total"])
for name, reward in scored["rewards"].items():
    print(name, reward["value"])
'''
_TRACE = """\
from decomposerl.traces.grammar import parse_trace

trace = parse_trace("<question>Who?</question><answer>Ada.</answer> Yes, she did.")
print(trace.cycles, trace.verdict)
print([fault.kind for fault in trace.faults])
"""
_METRICS = """\
from decomposerl.evaluation.metrics import codes_of, shared_evidence, verdict_estimates

labels = codes_of(["Supported", "Refuted"] * 50)
verdicts = codes_of(["Supported", "Refuted", "Supported", None] * 25)  # None: no verdict
documents = [f"page {n // 2}" for n in range(100)]  # of each claim, or None
estimates = verdict_estimates(labels, verdicts, shared_evidence(documents))
value, low, high, *_ = estimates["balanced_accuracy"]
print(f"{value:.2f}, {low:.3f} to {high:.3f}")
"""
_TABLES = """\
from pathlib import Path

import polars as pl

from resources.catalogue.database import open_catalogue

data = Path("data")
drops = pl.read_parquet(data / "drops/*.parquet")
print(drops.group_by("stage", "reason").len().sort("len", descending=True))

with open_catalogue(data) as connection:
    board = connection.sql("SELECT system, benchmark, score FROM leaderboard").pl()
print(board)
"""
SUBJECTS = (
    Subject(
        "Verify claims",
        "The verdict on a claim by its evidence. Profile and data folder are those of the "
        "[environment](variables.md); the default system of the `embedded` profile needs no model. "
        "`Evidence` is a text, whose lines are its passages, or a sequence of passages.",
        _VERIFY,
        "Supported\nWas Ada Brown born in Odense? ('Ada Brown, a swimmer, was born in Odense.',)\n",
        (
            api.verify,
            api.verify_claims,
            api.VerifiedClaim,
            api.VerifiedQuestion,
            api.VerdictConfidence,
        ),
    ),
    Subject(
        "Score traces",
        "Rewards of traces of any policy. A trainer in another environment uses "
        "[the HTTP service](../how-to/serve-rewards.md) instead.",
        _SCORE,
        "5.375\nformat 0.875\nverification 1.0\nquestion_count 1.0\ncoverage 1.0\nnecessity 0.5\n"
        "joint 1.0\n",
        (api.score_traces, api.RewardSettings),
    ),
    Subject(
        "Read and write traces",
        "The text of a trace, as the policy writes it, in parts. Any text can be read; what is "
        'malformed is in `faults`. A `Verdict` is `"Supported"` or `"Refuted"`.',
        _TRACE,
        "(Cycle(question='Who?', answer='Ada.', thought=None),) None\n"
        "['no_opening_thought', 'too_few_cycles', 'no_thought_after_answer', 'text_outside', "
        "'no_verdict']\n",
        (
            grammar.parse_trace,
            grammar.write_trace,
            grammar.build_trace,
            trace.Trace,
            trace.Cycle,
            trace.Fault,
        ),
    ),
    Subject(
        "Metrics",
        "The metrics of the leaderboard, for verdicts of your own; a missing verdict is wrong. "
        "`Codes` and `Counts` are NumPy arrays. Claims of one document count together: name the "
        "documents in `shared_evidence`. For files, use "
        "[decomposerl metrics](commands.md#metrics).",
        _METRICS,
        "0.75, 0.648 to 0.817\n",
        (
            metrics.codes_of,
            metrics.shared_evidence,
            metrics.verdict_estimates,
            metrics.Estimate,
            metrics.share,
            metrics.auroc,
            metrics.difference_interval,
        ),
    ),
    Subject(
        "Read tables",
        "Every table is plain Parquet; [Tables](tables.md) has the columns and [Files](files.md) "
        "the paths. The DuckDB file has views over all of them.",
        _TABLES,
        "",
        (database.open_catalogue, database.read_table),
    ),
)
_INTRODUCTION = """\
What you may import. Other modules may change without notice. Wrong input raises a subclass of
`decomposerl.errors.DecomposeRLError` with one sentence that names the place.
"""
_WIDTH = 84


def page() -> str:
    """The page as Markdown."""
    parts = [part for subject in SUBJECTS for part in _section(subject)]
    return paragraphs("# Python API", _INTRODUCTION, MADE, *parts)


def _section(subject: Subject) -> Iterator[str]:
    yield f"## {subject.title}"
    yield subject.text
    yield f"```python\n{subject.example}```"
    yield f"```text\n{subject.prints}```" if subject.prints else ""
    for one in subject.names:
        yield from _entry(one)


def _entry(one: object) -> Iterator[str]:
    module, name = one.__module__, one.__name__
    module = api.__name__ if name in api.__all__ else module
    yield f"### {name}"
    if isinstance(one, FunctionType):
        yield f"```text\n{_signature(f'{module}.{name}', one)}\n```"
    else:
        yield f"`{module}.{name}`"
    yield from map(_paragraph, inspect.cleandoc(one.__doc__ or "").split("\n\n"))
    if dataclasses.is_dataclass(one):
        yield table(("Field", "Type", "Default"), _fields(one))


def _paragraph(text: str) -> str:
    if not text.startswith("Raises:"):
        return plain(text)
    errors = re.sub(r"\n {8,}", " ", text).splitlines()[1:]
    lines = [error.strip().partition(": ") for error in errors]
    return "Raises:\n\n" + "\n".join(f"- {_names(name)}: {plain(why)}" for name, _, why in lines)


def _names(text: str) -> str:
    return ", ".join(map(code, text.split(", ")))


def _signature(name: str, function: FunctionType) -> str:
    """As in its source: on one line, or with a line for each parameter."""
    source = _source(function)
    parameters = ast.unparse(source.args)
    returned = f" -> {ast.unparse(source.returns)}" if source.returns else ""
    line = f"{name}({parameters}){returned}"
    if len(line) < _WIDTH:
        return line
    return f"{name}(\n" + "".join(f"    {one},\n" for one in _split(parameters)) + f"){returned}"


def _split(parameters: str) -> list[str]:
    """At the commas outside brackets."""
    parts, depth = [""], 0
    for letter in parameters:
        depth += (letter in "([") - (letter in ")]")
        if letter == "," and not depth:
            parts.append("")
        else:
            parts[-1] += letter
    return [part.strip() for part in parts]


def _fields(one: type) -> Iterator[tuple[str, str, str]]:
    for line in _source(one).body:
        if isinstance(line, ast.AnnAssign):
            default = ast.unparse(line.value) if line.value else ""
            default = "" if default.startswith("field(") else default
            yield code(ast.unparse(line.target)), code(ast.unparse(line.annotation)), code(default)


def _source(one: FunctionType | type) -> ast.stmt:
    """The definition as a syntax tree, whose types read as written on every version of Python."""
    return ast.parse(inspect.getsource(one)).body[0]
