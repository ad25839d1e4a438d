"""The judge as a chat model (paper, section 3.2: four prompts, temperature 0, seed 42).

A failed call has no value: it is never read as a 0. Failures are counted by reason.
"""

from collections.abc import Callable, Mapping, Sequence

from decomposerl.chat import ChatFailure, ChatReply, ChatRequest, Parse
from decomposerl.errors import ConfigError
from decomposerl.judge.call import JudgeCall, JudgeValue, Ruling, Task
from decomposerl.prompts.judge import (
    TASKS,
    JudgeSettings,
    answerability_request,
    atomicity_request,
    correctness_request,
    coverage_request,
    read_criteria,
    read_digit,
    read_verdict,
)
from decomposerl.prompts.template import PromptFile
from resources.chat.engine import ChatEngine, StoringChat
from resources.store.prompts import load_prompt

_DIGEST_DIGITS = 12
# Tasks about a document go out in one batch, so that a server's prefix cache serves both.
_PARSERS: tuple[tuple[frozenset[Task], Callable[..., JudgeValue]], ...] = (
    (frozenset({"answerability", "correctness"}), read_digit),
    (frozenset({"atomicity"}), read_criteria),
    (frozenset({"coverage"}), read_verdict),
)


def load_judge_prompts(folder: str = "") -> dict[str, PromptFile]:
    """The four prompt files by task, from ``folder``, or the package's where it is empty.

    Raises:
        ConfigError: one of the four is missing or malformed.
    """
    return {task: load_prompt(task, folder) for task in TASKS}


class ChatJudge(ChatEngine[JudgeCall]):
    """A ``Judge`` that sends one chat request per call."""

    _port = "judge"

    def __init__(
        self,
        chat: StoringChat,
        prompts: Mapping[str, PromptFile],
        settings: JudgeSettings | None = None,
        *,
        sends_temperature: bool = True,
        batch_size: int = 1024,
    ) -> None:
        """``prompts`` by task; the default ``settings`` are greedy, with replies in tags.

        ``sends_temperature`` is false for models that accept none.

        Raises:
            ConfigError: a task has no prompt, or one that lacks a section or a place; so
                nothing is spent on half a judge.
        """
        super().__init__(chat, batch_size)  # failures are for the rewards to handle
        self._prompts, self._settings = dict(prompts), settings or JudgeSettings()
        if missing := sorted(set(TASKS) - set(self._prompts)):
            raise ConfigError(f"the judge has no prompt for {', '.join(missing)}")
        for task in ("answerability", "atomicity", "correctness", "coverage"):
            self._request(JudgeCall(task, answers=("",)))
        self._sends_temperature = sends_temperature

    @property
    def engine(self) -> str:
        """Model, prompts and settings: rulings under different ones are never mixed."""
        settings, sampling = self._settings, self._settings.sampling
        digests = " ".join(
            f"{task}:{self._prompts[task].digest[:_DIGEST_DIGITS]}" for task in TASKS
        )
        form = "json" if settings.structured else "tags"
        thinking = {None: "default", True: "on", False: "off"}[settings.thinking]
        temperature = f"{sampling.temperature:g}" if self._sends_temperature else "default"
        return (
            f"{self._chat.engine} {digests} {form} "
            f"temperature={temperature} top_p={sampling.top_p:g} "
            f"seed={sampling.seed} max_tokens={sampling.max_tokens} "
            f"thinking={thinking}"
        )

    def judge(self, calls: Sequence[JudgeCall]) -> list[Ruling]:
        """One ruling per call, in order; equal calls cost one request.

        A failed call is ``Ruling(None, reason)``, with a reason of ``ChatFailure``.

        Raises:
            EngineError: a ceiling was reached, or no endpoint answers; what was answered is
                stored.
        """
        rulings: dict[JudgeCall, Ruling] = {}
        for tasks, read in _PARSERS:
            group = [call for call in calls if call.task in tasks]
            answers = self._answers(group, lambda call: [self._request(call)], self._parser(read))
            for call, (answer,) in zip(group, answers, strict=True):
                if isinstance(answer, ChatFailure):
                    rulings[call] = Ruling(None, answer.reason)
                else:
                    rulings[call] = Ruling(answer)
        return [rulings[call] for call in calls]

    def _parser(self, read: Callable[..., JudgeValue]) -> Parse[JudgeValue]:
        def parse(reply: ChatReply[object]) -> JudgeValue:
            return read(reply.text, structured=self._settings.structured)

        return parse

    def _request(self, call: JudgeCall) -> ChatRequest:
        prompt, settings = self._prompts[call.task], self._settings
        match call.task:
            case "answerability":
                return answerability_request(prompt, settings, call.document, call.question)
            case "correctness":
                (answer,) = call.answers
                return correctness_request(prompt, settings, call.document, (call.question, answer))
            case "atomicity":
                return atomicity_request(prompt, settings, call.claim, call.question)
            case "coverage":
                return coverage_request(prompt, settings, call.claim, call.answers)
