"""CoverBench: complex claims over long contexts from nine tasks, for testing only.

The gated hub file is JSON lines, or a JSON array, of ``context, claim, label``; passages are the
lines of the context, cut into sentences. The terms allow test use only: there is no training
source.
"""

from decomposerl.claims.claim import Draft, LabelMap
from decomposerl.claims.fields import NativeRow, each_row, non_blank
from decomposerl.claims.passages import sentence_passages
from decomposerl.claims.source import Benchmark, Form, HubLocation, NativeFile


def _draft(row: NativeRow) -> Draft:
    return row.draft(
        native_id=f"{row.file.split}-{row.record.row}",  # not every form may have an id
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
    license="CC BY-ND 4.0, as a repository that uses it states",
    terms="Gated. Test use only; uploading it as plain text is forbidden.",
    labels=LabelMap.of(supported="true", refuted="false"),
    files=(NativeFile("coverbench/eval.json", "json_array", "test"),),
    forms=(
        Form.of(
            "hub",
            "claim, context, label",
            "KarimSharaf191/should-you-pay-the-extra-tokens@153de33e3298c1bd3ac95fc71d67611b0116c251:"
            "src/faithfulness_multi_support.py",
        ),
    ),
    read=each_row(_draft),
    # The file is eval/coverbench.json in a repository that uses it; the hub's listing is gated.
    hub=HubLocation("google/coverbench", (("*eval*.json*", "coverbench/eval.json"),), gated=True),
    notes=("Place the gated file at coverbench/eval.json, or fetch it with a token.",),
)
