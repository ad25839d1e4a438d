"""Simple: claim and evidence in, one word out (paper, section 4, base prompts).

Calls per claim: 1. Both protocols are this one call. The reply is ``Supported`` or ``Refuted``.
"""

from decomposerl.baselines.method import Method
from decomposerl.baselines.replies import read_verdict
from decomposerl.baselines.single_call import one_call

# Room for a label and what surrounds it; a model that explains itself is cut there.
_PROCEDURE = one_call(read_verdict, max_tokens=16)

METHOD = Method(
    name="simple",
    title="Simple",
    publication="the paper, section 4",
    calls="1",
    procedures={"faithful": _PROCEDURE, "single_call": _PROCEDURE},
    expected_calls=lambda _: 1,
    prompt="simple",
    decomposes=False,
)
