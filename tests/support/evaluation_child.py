"""Predictions in a process that a test starts and kills.

``python evaluation_child.py <url> <folder> <claims>`` runs the two-step method over that many
claims against the server; finished claims go to ``<folder>/shards``, replies are not stored.
"""

import sys
from pathlib import Path

from chat_parts import settings
from evaluation_parts import PROMPT_HASH, cases, prompts_in, two_steps
from resources.chat.client import ChatClient
from resources.evaluation.chat_caller import CallSettings, ChatCaller
from resources.evaluation.prediction_store import PredictionStore
from resources.evaluation.runner import run_claims

AT_ONCE = 8


def run(url: str, folder: Path, claims: int) -> list[str]:
    """The replies behind the verdicts, in the order of the claims."""
    prompts = prompts_in(folder / "prompts")
    with ChatClient(settings(url, concurrency=AT_ONCE, needs_logprobs=False), None) as chat:
        caller = ChatCaller(chat, CallSettings(), prompts=prompts, claims_at_once=AT_ONCE)
        shelf = PredictionStore(folder / "shards", caller.engine, "two-steps", PROMPT_HASH)
        found = run_claims(two_steps, "simple", cases(claims), caller, shelf)
    return [one.verification.reply for one in found]


if __name__ == "__main__":
    run(sys.argv[1], Path(sys.argv[2]), int(sys.argv[3]))
