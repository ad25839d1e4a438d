"""The judge's prompts and replies of a rollout, rebuilt from its trace and the stored replies.

A log names each call by its key. The call itself follows from claim, evidence and trace, its prompt
from the judge's settings; so there is a text only where today's judge is the one that ruled.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Protocol

from decomposerl.judge.call import JudgeCall
from decomposerl.reports.trace_page.items import TraceItem, judge_calls


class RecordingJudge(Protocol):
    """A judge that can show what it was asked and answered."""

    @property
    def engine(self) -> str:
        """Model, prompts and settings."""
        ...

    def recorded(self, calls: Sequence[JudgeCall]) -> list[tuple[str, str]]:
        """Prompt and stored reply of each call, in order; both empty where none is stored."""
        ...


def with_judge_texts(item: TraceItem, judge: RecordingJudge) -> TraceItem:
    """The trace with the prompts and replies behind its rulings, where they are stored.

    Raises:
        EngineError: the store of replies cannot be read.
    """
    rulings = item.judged.rulings
    calls = judge_calls(item)
    known = {
        one.call_key: calls[one.call_key]
        for one in rulings
        if one.engine == judge.engine and one.call_key in calls
    }
    texts = dict(zip(known, judge.recorded(list(known.values())), strict=True))
    shown = []
    for one in rulings:
        prompt, reply = texts.get(one.call_key, ("", ""))
        shown.append(replace(one, prompt=prompt, reply=reply))
    return replace(item, judged=replace(item.judged, rulings=tuple(shown)))
