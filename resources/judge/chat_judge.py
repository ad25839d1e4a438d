"""The judge as a chat model (paper, section 3.2: four prompts, temperature 0, seed 42).

A reply that cannot be read, or is cut off, is requested once more in another way (the chat client
does so); a call that the endpoint failed is made once more at the end of the batch. A call that
fails twice has no value: it is never read as a 0. Failures are counted by reason.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from itertools import product
from typing import get_args

from decomposerl.chat import Chat, ChatFailure, ChatRequest, Parse
from decomposerl.judge.call import JudgeCall, Ruling
from decomposerl.prompts import judge as tasks
from decomposerl.prompts.template import PromptFile
from decomposerl.replies.rulings import Form, RulingValue, read_ruling
from resources.chat.engine import ChatEngine
from resources.store.prompts import load_prompt

# Faults of the endpoint that may be over at the end of a batch.
_PASSING = {"transport", "timeout", "rate_limited", "server_error", "circuit_open"}


def load_judge_prompts(folder: str = "") -> dict[str, PromptFile]:
    """The prompt files of ``judge_request`` by name; from ``folder``, or the package's.

    Raises:
        ConfigError: one of them is missing or malformed.
    """
    names = (*tasks.PROMPTS, tasks.AGAIN, tasks.REASONS)
    return {name: load_prompt(name, folder) for name in names}


class ChatJudge(ChatEngine[JudgeCall]):
    """A ``Judge`` that sends one chat request per call."""

    _port = "judge"

    def __init__(
        self,
        chat: Chat,
        prompts: Mapping[str, PromptFile],
        settings: tasks.JudgeSettings | None = None,
        *,
        sends_temperature: bool = True,
        batch_size: int = 1024,
    ) -> None:
        """``prompts`` by name; the default ``settings`` are greedy, with replies in tags.

        ``sends_temperature`` is false for models that accept none.

        Raises:
            ConfigError: a task has no prompt, or one that lacks a section or a place; so
                nothing is spent on half a judge.
        """
        super().__init__(chat, batch_size)  # failures are for the rewards to handle
        self._prompts, self._settings = prompts, settings or tasks.JudgeSettings()
        self._sends_temperature = sends_temperature
        for task, question in product(tasks.TASKS, ("", "?")):
            tasks.judge_request(prompts, self._settings, task, question=question, answers=[""])

    @property
    def engine(self) -> str:
        """Model, prompts and settings: rulings under different ones are never mixed."""
        settings, sampling, prompts = self._settings, self._settings.sampling, self._prompts
        # A sentence's prompt is named where it is your own: rulings are older than the prompt.
        own = prompts[tasks.SENTENCE] != load_prompt(tasks.SENTENCE)
        named = [*tasks.TASKS, *[tasks.SENTENCE] * own]
        digests = {name: prompt.digest[:12] for name, prompt in prompts.items()}
        form = "json" if settings.structured else "tags"
        if settings.reasons != "full":
            form += f" reasons={settings.reasons}:{digests[tasks.REASONS]}"
        switch = {None: "default", True: "on", False: "off"}[settings.thinking]
        thinking = settings.thinking_tokens or switch
        temperature = f"{sampling.temperature:g}" if self._sends_temperature else "default"
        return (
            f"{self._chat.engine} {' '.join(f'{name}:{digests[name]}' for name in named)} {form} "
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
        for form in get_args(Form):
            # A document's calls of both tasks go out in a row: a server's prefix cache serves them.
            places: dict[str, int] = {}
            group = sorted(
                (call for call in calls if tasks.PROMPTS[call.task][0] == form),
                key=lambda call: places.setdefault(call.document, len(places)),
            )
            answers = self._answers(group, lambda call: [self._request(call)], self._parser(form))
            for call, (said,) in zip(group, answers, strict=True):
                rulings[call] = (
                    Ruling(None, said.reason) if isinstance(said, ChatFailure) else Ruling(said)
                )
        return rulings

    def _parser(self, form: Form) -> Parse[RulingValue]:
        structured = self._settings.structured
        return lambda reply: read_ruling(reply.text, form, structured=structured)

    def _request(self, call: JudgeCall) -> ChatRequest:
        return tasks.judge_request(self._prompts, self._settings, **asdict(call))
