"""Traces of decomposing baselines are traces like a policy's: the seven rewards score them."""

from pathlib import Path

import pytest

from decomposerl.baselines.catalogue import METHODS
from decomposerl.baselines.method import ClaimInput, Method, Protocol
from decomposerl.rewards.catalogue import REWARDS
from decomposerl.rewards.scoring import reward_rollouts
from decomposerl.rewards.settings import RewardSettings
from decomposerl.text.sentences import split_sentences
from decomposerl.traces.grammar import build_trace, parse_trace, write_trace
from decomposerl.traces.rollout import Rollout
from evaluation_parts import shelf
from fakes import BagOfWordsEmbedder, ScriptedVerifier
from resources.evaluation.rule_chat import RuleChat
from resources.evaluation.runner import run_claims
from resources.judge.rule_judge import RuleJudge

CLAIM = "Marta Oller directed Glass Harbour and was born in Vienna in 1921."
EVIDENCE = (
    "Marta Oller was born in Vienna in 1921. She directed the film Glass Harbour. "
    "The film won the Orion Prize in 1954."
)
DECOMPOSING = [
    (method, protocol) for method in METHODS if method.decomposes for protocol in method.procedures
]


@pytest.mark.parametrize(
    ("method", "protocol"),
    DECOMPOSING,
    ids=lambda one: one if isinstance(one, str) else one.name,
)
def test_the_rewards_score_what_a_baseline_asked(
    method: Method, protocol: Protocol, tmp_path: Path
):
    """Every reward has a value; the one fault is to have asked too little, or twice."""
    question = ClaimInput(CLAIM, EVIDENCE, tuple(split_sentences(EVIDENCE)))
    chat = RuleChat(ScriptedVerifier())
    (ended,) = run_claims(
        method.procedures[protocol],
        method.prompt,
        {"a": question},
        chat,
        shelf(tmp_path),
    )
    found = ended.verification
    trace = parse_trace(write_trace(build_trace(found.opening, found.cycles, found.verdict)))
    assert {fault.kind for fault in trace.faults} <= {"repeated_question", "too_few_cycles"}
    rollout = Rollout("a", 0, CLAIM, EVIDENCE, trace, "Supported", 2)
    scored = reward_rollouts([rollout], RuleJudge(), BagOfWordsEmbedder(), RewardSettings())
    values = {name: scores[0].value for name, scores in scored.results.items()}
    assert {one.name for one in REWARDS if one.weight} == set(values)
    assert None not in values.values()
    assert values["verification"] == (found.verdict == "Supported")
