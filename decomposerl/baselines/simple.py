"""Simple: claim and evidence in, one word out (paper, section 4, base prompts).

Calls per claim: 1, and the repeated call. Both protocols are this one call. The reply is
``Supported`` or ``Refuted``.
"""

from decomposerl.baselines.method import Method
from decomposerl.baselines.single_call import one_call

# Room for a label and what surrounds it; a model that explains itself is cut there.
_PROCEDURE = one_call("verdict", max_tokens=64)

METHOD = Method(
    name="simple",
    title="Simple",
    publication="the paper, section 4",
    calls="1",
    procedures={"faithful": _PROCEDURE, "single_call": _PROCEDURE},
    formula=lambda _: 1,
    prompt="simple",
    decomposes=False,
    revision=2,
    three_way=True,
)
