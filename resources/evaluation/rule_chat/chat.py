"""A rule-based chat model, which serves the calls of methods where no model can run.

Takes calls and gives deterministic replies, one form per operation; no call fails and no reply is
truncated. It reads a call's variables and only two facts of its template: whether it asks for
questions or statements, and whether a check may end as unknown. Replies come from comparing names,
numbers, plain words and polarity by the rules of the embedded decomposer and judge, and from a
verifier. A method's procedure runs unchanged; only the model is replaced.

    decompose         numbered questions or statements, or NONE
    next_question     a question that was not asked yet, or NONE
    answer            the sentences that answer, or unknown
    verify            Supported or Refuted; or Unknown, where a template other than a verdict has it
                      or a verdict's offers the third label
    judge_sufficient  Yes or No
    program           a program of checks that must all hold
    select            numbers of passages, or NONE
    summarise, state  a text in one line
    procedure         Q and A lines, and a verdict where the template is ``single_call``
"""

from collections.abc import Callable, Generator, Mapping, Sequence

from decomposerl.baselines.method import ModelCall, ModelReply, Operation
from decomposerl.ports import Verifier
from decomposerl.schemas import WRITTEN
from resources.evaluation.caller import Reply
from resources.evaluation.chat_caller import MethodPrompts
from resources.evaluation.rule_chat import checks, texts
from resources.evaluation.rule_chat.checks import Weighing

RULES = 4
"""Raised whenever the rules change, so that stored claims are not mixed."""

_THIRD = WRITTEN["NotEnoughInfo"].lower()


class RuleChat:
    """A ``MethodCaller`` that needs only its verifier installed, and always answers."""

    concurrent = False
    claims_at_once = 256

    def __init__(self, verifier: Verifier, prompts: MethodPrompts | None = None) -> None:
        """``verifier`` checks statements against evidence; ``prompts`` as for a chat model."""
        self._verifier, self._prompts = verifier, prompts or MethodPrompts()

    @property
    def engine(self) -> str:
        """The rule set and the verifier."""
        return f"rule_chat:{RULES}+{self._verifier.engine}"

    def prompt_hash(self, prompt: str) -> str:
        """Over the prompt file and the rules."""
        return self._prompts.hash(prompt, RULES)

    def answer(self, prompt: str, calls: Sequence[ModelCall]) -> list[Reply]:
        """One reply per call, in order.

        Raises:
            ConfigError: the prompt file lacks a call's section or one of its variables, as
                for a chat model, although the rules do not read them.
            EngineError: the verifier cannot be asked.
        """
        for call in calls:
            self._prompts.filled(prompt, call)
        works = [
            _SERVES[call.operation](call, self._prompts.section(prompt, call).lower())
            for call in calls
        ]
        return [Reply(ModelReply(text)) for text in _worked(works, self._verifier)]


# Each takes a call and the words of its template, in lower case.
_SERVES: Mapping[Operation, Callable[[ModelCall, str], str | Weighing]] = {
    "decompose": lambda call, words: texts.decompose(
        call.variables, as_questions="question" in words
    ),
    "next_question": lambda call, _: texts.next_question(call.variables),
    "answer": lambda call, _: checks.answer(call.variables),
    "verify": lambda call, words: checks.check(
        call.variables,
        may_be_unknown=_THIRD in words or (call.template != "verdict" and "unknown" in words),
    ),
    "judge_sufficient": lambda call, _: texts.sufficient(call.variables),
    "program": lambda call, _: texts.program(call.variables),
    "select": lambda call, _: texts.select(call.variables),
    "summarise": lambda call, _: texts.summarise(call.variables),
    "state": lambda call, _: texts.state(call.variables),
    "procedure": lambda call, words: checks.written_out(
        call.variables,
        with_verdict=call.template == "single_call",
        may_be_unknown=_THIRD in words,
    ),
}


def _worked(works: Sequence[str | Weighing], verifier: Verifier) -> list[str]:
    """All replies; the pairs that they need at the same time are weighed in one batch."""
    replies = [work if isinstance(work, str) else "" for work in works]
    waiting: list[tuple[int, Weighing, tuple[checks.Pair, ...]]] = []
    for index, work in enumerate(works):
        if isinstance(work, Generator):
            _go(work, None, index, replies, waiting)
    while waiting:
        pairs = [pair for _, _, wanted in waiting for pair in wanted]
        weights = iter(verifier.support_probability(pairs).tolist())
        going, waiting = waiting, []
        for index, work, wanted in going:
            _go(work, tuple(next(weights) for _ in wanted), index, replies, waiting)
    return replies


def _go(
    work: Weighing,
    weights: tuple[float, ...] | None,
    index: int,
    replies: list[str],
    waiting: list[tuple[int, Weighing, tuple[checks.Pair, ...]]],
) -> None:
    """Run up to the next pairs that are to be weighed, or to the reply."""
    try:
        wanted = next(work) if weights is None else work.send(weights)
    except StopIteration as end:
        replies[index] = end.value
    else:
        waiting.append((index, work, wanted))
