"""The judge as a chat model (paper, section 3.2: four prompts, temperature 0, seed 42).

Takes a ``Chat`` and the four prompt files, gives a ``Judge``. A call that failed, for
whatever reason, has no value: it is never read as a 0. The reasons are counted.

Left out deliberately: calls, retries, caches and money (``resources.chat``), and which calls
a trace needs (``decomposerl.judge``).
"""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from functools import partial

from decomposerl.chat import Chat, ChatFailure, ChatReply, ChatRequest
from decomposerl.errors import ConfigError
from decomposerl.judge.call import JudgeCall, Ruling, Task
from decomposerl.prompts.judge import (
    TASKS,
    JudgeSettings,
    answerability_request,
    atomicity_request,
    correctness_request,
    coverage_request,
)
from decomposerl.prompts.judge_replies import read_criteria, read_digit, read_verdict
from decomposerl.prompts.template import PromptFile
from resources.chat.failure_policy import FailurePolicy
from resources.store.prompts import load_prompt

_SHOWN = 12
# Tasks about a document are asked in one batch, so that its two kinds of call meet in time.
_BATCHES: tuple[tuple[frozenset[Task], Callable[..., str]], ...] = (
    (frozenset({"answerability", "correctness"}), read_digit),
    (frozenset({"atomicity"}), read_criteria),
    (frozenset({"coverage"}), read_verdict),
)


def load_judge_prompts(folder: str = "") -> dict[str, PromptFile]:
    """The four prompt files by task, from ``folder``, or from the package where none is named.

    Raises:
        ConfigError: one of the four is missing or malformed.
    """
    return {task: load_prompt(task, folder) for task in TASKS}


class ChatJudge:
    """A ``Judge`` that asks a chat model once a call."""

    def __init__(
        self,
        chat: Chat,
        prompts: Mapping[str, PromptFile],
        asking: JudgeSettings | None = None,
        *,
        sends_temperature: bool = True,
    ) -> None:
        """``prompts`` by task; ``asking`` is greedy, in tags, where none is given.

        ``sends_temperature`` is false where the model takes none.

        Raises:
            ConfigError: a task has no prompt, or one that lacks a section or a place; so
                nothing is spent on half a judge.
        """
        self._chat, self._prompts, self._asking = chat, dict(prompts), asking or JudgeSettings()
        if missing := sorted(set(TASKS) - set(self._prompts)):
            raise ConfigError(f"the judge has no prompt for {', '.join(missing)}")
        for task in ("answerability", "atomicity", "correctness", "coverage"):
            self._request(JudgeCall(task, answers=("",)))
        self._sends_temperature = sends_temperature
        self._verdict = FailurePolicy(
            most_unanswered=1.0
        )  # what failures do is for the rewards to say

    @property
    def failures(self) -> Counter[str]:
        """How many calls got no ruling, by reason, since this object was made."""
        return self._verdict.failures

    @property
    def engine(self) -> str:
        """Model, prompts and settings: rulings under different ones never mix."""
        asking = self._asking
        digests = " ".join(f"{task}:{self._prompts[task].digest[:_SHOWN]}" for task in TASKS)
        form = "json" if asking.structured else "tags"
        thinking = {None: "default", True: "on", False: "off"}[asking.thinking]
        warmth = f"{asking.sampling.temperature:g}" if self._sends_temperature else "default"
        return (
            f"{self._chat.engine} {digests} {form} "
            f"temperature={warmth} top_p={asking.sampling.top_p:g} "
            f"seed={asking.sampling.seed} max_tokens={asking.sampling.max_tokens} "
            f"thinking={thinking}"
        )

    def judge(self, calls: Sequence[JudgeCall]) -> list[Ruling]:
        """One ruling a call, in order; equal calls cost what one costs.

        A failed call is ``Ruling(None, reason)``, the reasons being those of ``ChatFailure``.

        Raises:
            EngineError: a ceiling was reached, or no endpoint answers; what was answered is
                in the client's cache.
        """
        rulings: dict[int, Ruling] = {}
        for tasks, read in _BATCHES:
            places = [place for place, call in enumerate(calls) if call.task in tasks]
            requests = [self._request(calls[place]) for place in places]
            reader = partial(read, structured=self._asking.structured)
            outcomes = self._chat.complete(requests, parse=reader) if requests else []
            self._verdict.note(outcomes)
            self._verdict.refuse(f"judge '{self.engine}'")
            for place, outcome in zip(places, outcomes, strict=True):
                rulings[place] = _ruling(outcome, reader)
        return [rulings[place] for place in range(len(calls))]

    def _request(self, call: JudgeCall) -> ChatRequest:
        prompt, asking = self._prompts[call.task], self._asking
        match call.task:
            case "answerability":
                return answerability_request(prompt, asking, call.document, call.question)
            case "correctness":
                (answer,) = call.answers
                return correctness_request(prompt, asking, call.document, (call.question, answer))
            case "atomicity":
                return atomicity_request(prompt, asking, call.claim, call.question)
            case "coverage":
                return coverage_request(prompt, asking, call.claim, call.answers)


def _ruling(outcome: ChatReply | ChatFailure, reader: Callable[[str], str]) -> Ruling:
    if isinstance(outcome, ChatFailure):
        return Ruling(None, outcome.reason)
    return Ruling(reader(outcome.text))
