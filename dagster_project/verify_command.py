"""The options and the output of ``decomposerl verify``; ``verify`` does the work."""

import sys
from collections.abc import Sequence
from contextlib import nullcontext
from itertools import zip_longest
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from dagster_project import own_model
from dagster_project.environment import read_settings
from dagster_project.evaluation_commands import DataOption
from dagster_project.named_graph import SystemsOption
from dagster_project.terminal import (
    JsonOption,
    counted,
    print_block,
    print_json_line,
    print_note,
    report_errors,
)
from decomposerl.errors import ConfigError
from resources.store.temporary import require_writable

if TYPE_CHECKING:
    from dagster_project.settings import Settings
    from decomposerl.reports.verified import VerifiedClaim
    from decomposerl.traces.records import ClaimRecord

NO_VERDICT = 3
_CODES = {"Supported": 0, "Refuted": 1, "NotEnoughInfo": 4}
"""Exit codes; 2 is a wrong use, as in all commands."""
_COLOURS = {"Supported": "bold green", "Refuted": "bold red"}
Evidence = Annotated[
    Path | None, typer.Option(help="File with its evidence: text, PDF or HTML; '-': stdin.")
]
Page = Annotated[Path | None, typer.Option(help="Also write one page, for a browser.")]


@report_errors
def verify(  # noqa: PLR0913 - each is one option
    file: Annotated[
        Path | None,
        typer.Argument(help="JSONL: claim, evidence, optional claim_id; '-': standard input."),
    ] = None,
    *,
    claim: Annotated[str | None, typer.Option(help="One claim, in place of FILE.")] = None,
    evidence: Evidence = None,
    evidence_text: Annotated[str | None, typer.Option(help="Its evidence.")] = None,
    retrieve: Annotated[
        Path | None, typer.Option(help="Folder of text, PDF and HTML to find evidence in.")
    ] = None,
    search: Annotated[
        bool, typer.Option("--search", help="Find evidence on the web: sends the claim there.")
    ] = False,
    rerank: Annotated[
        bool, typer.Option("--rerank", help="Rank what was found by the embedder, too.")
    ] = False,
    system: Annotated[
        str, typer.Option(help="A system's key, or an entry's name; default: the profile's.")
    ] = "",
    endpoint: own_model.EndpointOption = "",
    model: own_model.ModelOption = "",
    key_env: own_model.KeyOption = "",
    method: own_model.MethodOption = "",
    data: DataOption = None,
    systems_file: SystemsOption = None,
    as_json: JsonOption = False,
    html: Page = None,
) -> None:
    """Verify a claim, or a file of claims, and show the questions, answers and evidence behind it.

    Exit codes: 0 Supported, 1 Refuted, 2 wrong use, 3 no verdict, 4 Not Enough Information (of a
    three-way system); with FILE 0 if every claim got a verdict, and 3 if a line, or a file of the
    folder, cannot be read: each is named, the others are answered. Claims come in the order of the
    file, each as soon as it is done; an answered one costs no call. See docs/how-to/verify.md.
    """
    own = own_model.named_model(endpoint, model, key_env, method, system=system)
    searched = search or retrieve is not None
    if rerank and not searched:
        raise ConfigError("--rerank belongs to --retrieve FOLDER or --search")
    if len([one for one in (evidence, evidence_text, retrieve, search or None) if one]) > 1:
        raise ConfigError("evidence has one source: keep one option of those that give or find it")
    records, problems = _records(file, claim, evidence or evidence_text, searched=searched)
    settings = read_settings(data=data, systems=systems_file)
    system = own_model.remembered(own, settings) if own else system
    if searched:
        from dagster_project.found_evidence import with_evidence

        records, unread = with_evidence(records, retrieve, settings if rerank else None)
        problems = [*problems, *unread]
    for problem in problems:
        print_note(str(problem))
    if html is not None:
        require_writable(html)
    results = _verified(settings, system, records, as_json=as_json)
    if html is not None:
        _write_page(html, results)
    verdicts = [result.verdict for result in results]
    raise typer.Exit(NO_VERDICT if problems else exit_code(verdicts, many=claim is None))


def _verified(
    settings: "Settings", system: str, records: "Sequence[ClaimRecord]", *, as_json: bool
) -> "list[VerifiedClaim]":
    """Verify the claims, and print each as soon as it is there."""
    from dagster_project.progress_display import shown_progress
    from dagster_project.verify import claim_verifier

    results: list[VerifiedClaim] = []
    quiet = sys.stdout.isatty()  # claims are printed there, and a bar would be among them
    with nullcontext() if quiet else shown_progress(), claim_verifier(settings, system) as verifier:
        warnings = verifier.about.warnings
        for warning in () if as_json else warnings:
            print_note(warning)
        for one in verifier.verify(records):
            results.append(one)
            if as_json:
                print_json_line(one.as_json())
            else:
                print_claim(one, hidden=len(warnings))
    return results


def _write_page(path: Path, results: "Sequence[VerifiedClaim]") -> None:
    """The trace page of the results; equal ones are one entry."""
    from importlib.metadata import version

    from decomposerl.reports.trace_page.page import offline_parts
    from decomposerl.reports.trace_page.pages import PageAbout, pages_of
    from decomposerl.reports.trace_page.results import ClaimNames, verified_item
    from resources.store.temporary import replace_text

    names = ClaimNames()
    about = PageAbout("Verified claims", f"decomposerl {version('decomposerl')}")
    items = dict.fromkeys(names.named(verified_item(one)) for one in results)
    index, blocks = pages_of([*items], about)
    replace_text(path, offline_parts(index, blocks))
    print_note(f"{counted(len(index['claim_id']), 'trace')}: {path}")


def exit_code(verdicts: Sequence[str | None], *, many: bool) -> int:
    """The exit code for these verdicts; of ``many`` claims it says only whether all have one."""
    if None in verdicts:
        return NO_VERDICT
    return 0 if many else _CODES[str(verdicts[0])]


def _records(
    file: Path | None, claim: str | None, own: Path | str | None, *, searched: bool
) -> "tuple[Sequence[ClaimRecord], Sequence[object]]":
    """The claims of a file or of the options, and the lines that are none.

    ``own`` is evidence, or its file; ``searched``: they need no evidence of their own.

    Raises:
        ConfigError: both were given, or neither, or a claim without evidence or with two.
        SourceFileError: a file cannot be read, or holds no claim.
    """
    from dagster_project.row_forms import lines_of, name_of
    from dagster_project.verify import checked_record
    from decomposerl.traces.records import read_claim_records
    from resources.corpora.documents import DOCUMENTS, document_text

    if (file is None) == (claim is None):
        raise ConfigError("give either FILE or --claim TEXT with --evidence FILE")
    if file is not None and own is not None:
        raise ConfigError("--evidence belongs to --claim; in FILE each line has its evidence")
    if file is not None:
        return read_claim_records(lines_of(file), name_of(file), evidence=not searched)
    if (own is None) != searched:
        ways = "--evidence FILE, --evidence-text TEXT, --retrieve FOLDER and --search"
        raise ConfigError(f"--claim needs one of {ways}")
    if own is None:
        return [checked_record({"claim": claim}, "--claim", evidence=False)], ()
    text, name = own, "--evidence-text"
    if isinstance(own, Path):
        name, suffix = name_of(own), own.suffix.lower()
        known = suffix in DOCUMENTS
        text = document_text(own.read_bytes(), suffix, name) if known else "\n".join(lines_of(own))
    return [checked_record({"claim": claim, "evidence": text}, f"--claim with {name}")], ()


def print_claim(one: "VerifiedClaim", hidden: int = 0) -> None:
    """Print a claim's trace; the last ``hidden`` warnings were printed before."""
    from decomposerl.traces.basis import basis_words
    from decomposerl.traces.grounding import says_something

    print_block(f"{one.claim_id}: {one.claim}" if one.claim_id else one.claim, "bold")
    for number, question in enumerate(one.questions, start=1):
        print_block(question.question, "cyan", indent=5, lead=f"{number}. ")
        print_block(question.answer, indent=5)
        # No colour of a verdict: that the evidence has the words does not make the answer right.
        for sentence, place in zip_longest(question.evidence, question.places, fillvalue=""):
            where = f"evidence ({place})" if place else "evidence"
            print_block(f"{where}: {sentence}", "dim", indent=5)
        for cell in question.cells:
            print_block(f"table: {cell}", "dim", indent=5)
        if not (question.evidence or question.cells) and says_something(question.answer):
            print_block("no sentence of the evidence behind this answer", "yellow", indent=5)
    word = basis_words(one.verdict, one.basis) if one.verdict else "No verdict"
    decided = one.verdict if one.verdict and one.basis != "silent" else ""
    print_block(word, _COLOURS.get(decided, "bold yellow"), indent=2)
    said = "none, the system gives no probability of its verdict"
    if (sure := one.confidence) is not None:
        calibrated = "none" if sure.calibrated is None else f"{sure.calibrated:.2f}"
        said = f"raw {sure.raw:.2f}, calibrated {calibrated} ({sure.meaning})"
    if one.verdict is not None:
        print_block(f"confidence: {said}", "dim", indent=2)
    for warning in one.warnings[: len(one.warnings) - hidden]:
        print_block(f"! {warning}", "yellow", indent=2)
    print_block(f"{one.system}, {one.engine}", "dim", indent=2)
    print_block("")
