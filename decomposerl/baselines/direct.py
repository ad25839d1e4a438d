"""Direct prompting: claim and evidence in, one reply with the verdict out.

Simple asks for one word, CoT for reasoning whose last line is ``Verdict: Supported`` or
``Verdict: Refuted`` (the paper, section 4, base prompts). The paper prompts both directly, without
worked examples; with two of them they are rows of our own. Few-shot has eight, each with a sentence
or two of reasoning: frontier models with a few examples verify nearly as well as anything that was
trained for it, and papers often leave them out (Seo et al. 2025).

Calls per claim: 1, and the repeated call. Both protocols are this one call. A reply that the token
limit cuts before its last line is truncated. There are no questions, so there is no trace.
"""

from dataclasses import replace

from decomposerl.baselines.method import Method, Procedure
from decomposerl.baselines.single_call import one_call

# Room for a label and what surrounds it; a model that explains itself is cut there.
_WORD = one_call("verdict", max_tokens=64)
_REASONED = one_call("last_line", max_tokens=2_048)


def _direct(name: str, title: str, publication: str, procedure: Procedure, revision: int) -> Method:
    return Method(
        name=name,
        title=title,
        publication=publication,
        calls="1",
        procedures={"faithful": procedure, "single_call": procedure},
        formula=lambda _: 1,
        prompt=name,
        decomposes=False,
        revision=revision,
        three_way=True,
    )


def _with_examples(method: Method) -> Method:
    name = f"{method.name}_examples"
    return replace(method, name=name, title=f"{method.title}, with examples", prompt=name)


SIMPLE = _direct("simple", "Simple", "the paper, section 4", _WORD, 2)
COT = _direct("cot", "CoT", "Wei et al. 2022", _REASONED, 2)
SIMPLE_EXAMPLES, COT_EXAMPLES = _with_examples(SIMPLE), _with_examples(COT)
FEW_SHOT = _direct("few_shot", "Few-shot", "Seo et al. 2025", _REASONED, 1)
