"""The judge as a chat model (paper, section 3.2: four prompts, temperature 0, seed 42).

A reply that cannot be read, or is cut off, is requested once more in another way (the chat client
does so); a call that the endpoint failed is made once more at the end of the batch. A call that
fails twice has no value: it is never read as a 0. Failures are counted by reason.
"""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from decomposerl.chat import Chat, ChatFailure, ChatRequest, Parse
from decomposerl.errors import ConfigError
from decomposerl.judge.call import JudgeCall, JudgeValue, Ruling, Task
from decomposerl.prompts.judge import (
    SENTENCE,
    TASKS,
    JudgeSettings,
    again_section,
    judge_request,
    read_criteria,
    read_digit,
    read_verdict,
)
from decomposerl.prompts.template import PromptFile
from resources.chat.engine import ChatEngine
from resources.store.prompts import AGAIN, load_prompt

_DIGEST_DIGITS = 12
# Faults of the endpoint that may be over at the end of a batch.
_PASSING = {"transport", "timeout", "rate_limited", "server_error", "circuit_open"}
# Tasks about a document go out in one batch, so that a server's prefix cache serves both.
_PARSERS: tuple[tuple[frozenset[Task], Callable[..., JudgeValue]], ...] = (
    (frozenset({"answerability", "correctness"}), read_digit),
    (frozenset({"atomicity"}), read_criteria),
    (frozenset({"coverage"}), read_verdict),
)
_TEXTS: Mapping[Task, tuple[str, ...]] = {
    "answerability": ("document", "question"),
    "atomicity": ("claim", "question"),
    "correctness": ("document", "question"),
    "coverage": ("claim",),
}


def load_judge_prompts(folder: str = "") -> dict[str, PromptFile]:
    """The prompt files by task, and that of a sentence; from ``folder``, or the package's.

    Raises:
        ConfigError: one of them is missing or malformed.
    """
    return {task: load_prompt(task, folder) for task in (*TASKS, SENTENCE)}


class ChatJudge(ChatEngine[JudgeCall]):
    """A ``Judge`` that sends one chat request per call."""

    _port = "judge"

    def __init__(
        self,
        chat: Chat,
        prompts: Mapping[str, PromptFile],
        settings: JudgeSettings | None = None,
        *,
        again: PromptFile | None = None,
        sends_temperature: bool = True,
        batch_size: int = 1024,
    ) -> None:
        """``prompts`` by task; the default ``settings`` are greedy, with replies in tags.

        ``again`` has the lines of repeated requests (None: the package's ``again.md``).
        ``sends_temperature`` is false for models that accept none.

        Raises:
            ConfigError: a task has no prompt, or one that lacks a section or a place; so
                nothing is spent on half a judge.
        """
        super().__init__(chat, batch_size)  # failures are for the rewards to handle
        self._prompts = {SENTENCE: load_prompt(SENTENCE), **prompts}
        self._settings = settings or JudgeSettings()
        self._shorter = None if self._settings.reasons == "full" else load_prompt("reasons")
        self._again = again or load_prompt(AGAIN)
        if missing := sorted(set(TASKS) - set(self._prompts)):
            raise ConfigError(f"the judge has no prompt for {', '.join(missing)}")
        for task in _TEXTS:
            self._request(JudgeCall(task, question="?", answers=("",)))
        self._sends_temperature = sends_temperature

    @property
    def engine(self) -> str:
        """Model, prompts and settings: rulings under different ones are never mixed."""
        settings, sampling = self._settings, self._settings.sampling
        # A sentence's prompt is named where it is your own: rulings are older than the prompt.
        named = [*TASKS, *[SENTENCE] * (self._prompts[SENTENCE] != load_prompt(SENTENCE))]
        digests = " ".join(f"{one}:{self._prompts[one].digest[:_DIGEST_DIGITS]}" for one in named)
        form = "json" if settings.structured else "tags"
        thinking = {None: "default", True: "on", False: "off"}[settings.thinking]
        if settings.thinking_tokens is not None:
            thinking = f"{settings.thinking_tokens}"
        shorter = self._shorter
        form += f" reasons={settings.reasons}:{shorter.digest[:_DIGEST_DIGITS]}" if shorter else ""
        temperature = f"{sampling.temperature:g}" if self._sends_temperature else "default"
        return (
            f"{self._chat.engine} {digests} {form} "
            f"temperature={temperature} top_p={sampling.top_p:g} "
            f"seed={sampling.seed} max_tokens={sampling.max_tokens} thinking={thinking}"
        )

    def judge(self, calls: Sequence[JudgeCall]) -> list[Ruling]:
        """One ruling per call, in order; equal calls cost one request.

        A failed call is ``Ruling(None, reason)``, with a reason of ``ChatFailure``; if the fault
        was the endpoint's, it was made twice.

        Raises:
            EngineError: a ceiling was reached, or no endpoint answers; what was answered is
                stored.
        """
        rulings = self._round(calls)
        failed = {call: why for call, one in rulings.items() if (why := one.failure) in _PASSING}
        if failed:
            self.failures -= Counter(failed.values())
            rulings |= self._round([*failed])
        return [rulings[call] for call in calls]

    def recorded(self, calls: Sequence[JudgeCall]) -> list[tuple[str, str]]:
        """Prompt and stored reply of each call, in order; both empty where none is stored.

        Nothing is sent. The prompt is that of the first request; a reply that could not be read
        and was asked for again is not shown.

        Raises:
            EngineError: the store of replies cannot be read.
        """
        requests = [self._request(call) for call in calls]
        prompts = ["\n\n".join(turn.content for turn in one.messages) for one in requests]
        both = zip(prompts, self._chat.recall(requests), strict=True)
        return [("", "") if reply is None else (prompt, reply.text) for prompt, reply in both]

    def _round(self, calls: Sequence[JudgeCall]) -> dict[JudgeCall, Ruling]:
        rulings: dict[JudgeCall, Ruling] = {}
        for tasks, read in _PARSERS:
            places: dict[str, int] = {}  # of documents: a server's prefix cache then serves a row
            group = sorted(
                (call for call in calls if call.task in tasks),
                key=lambda call: places.setdefault(call.document, len(places)),
            )
            answers = self._answers(group, lambda call: [self._request(call)], self._parser(read))
            for call, (answer,) in zip(group, answers, strict=True):
                if isinstance(answer, ChatFailure):
                    rulings[call] = Ruling(None, answer.reason)
                else:
                    rulings[call] = Ruling(answer)
        return rulings

    def _parser(self, read: Callable[..., JudgeValue]) -> Parse[JudgeValue]:
        structured = self._settings.structured
        return lambda reply: read(reply.text, structured=structured)

    def _request(self, call: JudgeCall) -> ChatRequest:
        """The request of a call, with the line for a repetition."""
        section = again_section(call.task, structured=self._settings.structured)
        alone = call.task == "correctness" and not call.question  # an answer as a sentence
        texts = {"document": call.document, "claim": call.claim, "question": call.question}
        needed = ("document",) if alone else _TEXTS[call.task]
        prompt = self._prompts[SENTENCE if alone else call.task]
        kept = {name: texts[name] for name in needed}
        made = judge_request(prompt, self._settings, call.task, call.answers, self._shorter, **kept)
        return replace(made, again=self._again.filled(section))
