"""Few-shot prompting: eight worked examples, then claim and evidence in one call.

Frontier models with a few examples verify nearly as well as anything that was trained for it, and
papers often leave them out (Seo et al. 2025). Each example reasons in a sentence or two and ends
with the verdict. Calls per claim: 1, and the repeated call. Both protocols are this one call. It is
no row of the paper's tables: only entries of ``systems.toml`` name it.
"""

from decomposerl.baselines.method import Method
from decomposerl.baselines.single_call import one_call

_PROCEDURE = one_call("last_line", max_tokens=2_048)

METHOD = Method(
    name="few_shot",
    title="Few-shot",
    publication="Seo et al. 2025",
    calls="1",
    procedures={"faithful": _PROCEDURE, "single_call": _PROCEDURE},
    formula=lambda _: 1,
    prompt="few_shot",
    decomposes=False,
    three_way=True,
)
