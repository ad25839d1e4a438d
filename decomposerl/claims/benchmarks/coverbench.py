"""CoverBench: complex claims over long contexts from nine tasks, for testing only.

The gated hub file is a JSON array or JSON lines of ``context, claim, label``; passages are the
lines of the context, cut into sentences. The terms allow test use only: there is no training
source.
"""

from decomposerl.claims.claim import Draft, LabelMap
from decomposerl.claims.fields import NativeRow, each_row, non_blank
from decomposerl.claims.passages import sentence_passages
from decomposerl.claims.source import Benchmark, Form, HubLocation, NativeFile


def _draft(row: NativeRow) -> Draft:
    return row.draft(
        native_id=f"{row.file.split}-{row.record.row}",  # no id is documented
        claim=row.text("claim"),
        passages=non_blank(sentence_passages(row.text("context")), "context"),
        native_label="true" if row.boolean("label") else "false",
    )


BENCHMARK = Benchmark(
    name="coverbench",
    title="CoverBench",
    domain="Mixed",
    in_domain=False,
    homepage="https://huggingface.co/datasets/google/coverbench",
    license="stated behind the hub's gate",
    terms="Gated. Test use only; uploading it as plain text is forbidden.",
    labels=LabelMap.of(supported="true", refuted="false"),
    files=(NativeFile("coverbench/eval.json", "json_array", "test"),),
    forms=(Form.of("hub", "claim, context, label"),),
    read=each_row(_draft),
    # The split is one JSON file; its exact name stands behind the gate.
    hub=HubLocation("google/coverbench", (("*eval*.json*", "coverbench/eval.json"),), gated=True),
    notes=("Place the gated file at coverbench/eval.json, or fetch it with a token.",),
)
