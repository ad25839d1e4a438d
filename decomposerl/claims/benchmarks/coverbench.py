"""CoverBench: complex claims over long contexts from nine tasks, for testing only.

Takes the gated hub file (a JSON array or JSON lines of ``context, claim, label``), gives
one draft a row; passages are the lines of the context, cut into sentences.

Left out deliberately: a training source, because its terms allow test use only, and a
hub location: the names of its files could not be verified, so the user places the file.
"""

from collections.abc import Iterator
from functools import partial

from decomposerl.claims.claim import Draft, Record, Reject
from decomposerl.claims.fields import boolean, held, read_each, text
from decomposerl.claims.labels import LabelMap
from decomposerl.claims.passages import sentences
from decomposerl.claims.source import Benchmark, CorpusFiles, HubLocation, NativeFile


def read(files: CorpusFiles, file: NativeFile) -> Iterator[Draft | Reject]:
    """One draft a row; the corpus has no documented id, so it is split and row number."""
    return read_each(files, file, partial(_draft, file))


def _draft(file: NativeFile, record: Record) -> Draft:
    row = record.fields
    return Draft(
        file=record.file,
        row=record.row,
        native_id=f"{file.split}-{record.row}",
        split=file.split,
        claim=text(row, "claim"),
        passages=held(sentences(text(row, "context")), "context"),
        native_label="true" if boolean(row, "label") else "false",
    )


COVERBENCH = Benchmark(
    name="coverbench",
    title="CoverBench",
    domain="Mixed",
    in_domain=False,
    homepage="https://huggingface.co/datasets/google/coverbench",
    license="stated behind the hub's gate",
    terms="Gated. Test use only; uploading it as plain text is forbidden.",
    labels=LabelMap.of(supported="true", refuted="false"),
    files=(NativeFile("coverbench/eval.json", "json_array", "test"),),
    read=read,
    # The split is one JSON file; its exact name stands behind the gate.
    hub=HubLocation("google/coverbench", (("*eval*.json*", "coverbench/eval.json"),), gated=True),
    notes=("Place the gated file at coverbench/eval.json, or fetch it with a token.",),
)
