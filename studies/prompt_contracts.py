"""What is read from the reply to each prompt, in one sentence each, for the page on prompts."""

from collections.abc import Mapping

_ANSWER = "Plain text; `unknown` is an abstention."
_LABEL = "One label, Supported or Refuted; a sentence about the claim as a whole reads as well."
_LAST = "Free text; the last line is `Verdict: Supported` or `Verdict: Refuted`."
_WRITTEN_OUT = "Lines `Q1: …` and `A1: …` become the trace; the last line is the verdict."
_DIGIT = "A digit, 1 or 0, in `<answer>` at the end."
_TRUTH = "The first word: Yes or True, No or False, Unknown."

CONTRACTS: Mapping[str, str] = {
    "policy/prompt": "A trace: thoughts, at least two questions with answers, one verdict.",
    "simple/verdict": _LABEL,
    "cot/verdict": _LAST,
    "simple_examples/verdict": _LABEL,
    "cot_examples/verdict": _LAST,
    "few_shot/verdict": _LAST,
    "self_ask/transcript": "`Follow up: …`, cut at `Intermediate answer:`, or the final line.",
    "self_ask/answer": _ANSWER,
    "self_ask/verdict": "The label that ends the line `So the final answer is:`.",
    "decomposed_prompting/next_step": "One line `[handler] text`, or NONE.",
    "decomposed_prompting/lookup": _ANSWER,
    "decomposed_prompting/check": _TRUTH,
    "decomposed_prompting/compare": _ANSWER,
    "decomposed_prompting/verdict": "A sentence or two, then one label.",
    "hiss/split": "A numbered list of sub-claims, or NONE for a claim that stays whole.",
    "hiss/work_through": "Lines `Q1: …`, `Sure: yes` or `Sure: no`, `A1: …`.",
    "hiss/verdict": "The label after `Verdict:`.",
    "folk/predicates": "A numbered list of lines `Predicate(…) | statement | question`.",
    "folk/answer": _ANSWER,
    "folk/verdict": "A line `1: True - reason` a predicate, then `[Supported]` or `[Refuted]`.",
    "program_fc/program": "A program of Question, Verify and one Predict.",
    "program_fc/answer": _ANSWER,
    "program_fc/check": _TRUTH,
    "chen_2024/questions": "A numbered list; items that are no yes-no question are dropped.",
    "chen_2024/select": "Numbers of passages, or NONE.",
    "chen_2024/summary": "Plain text.",
    "chen_2024/verdict": _LABEL,
    "claimdecomp/questions": "A numbered list of lines `question | yes` or `question | no`.",
    "claimdecomp/answer": _TRUTH,
    "qacheck/first_question": "One question.",
    "qacheck/next_question": "One question, or NONE.",
    "qacheck/sufficient": "The first word, Yes or No.",
    "qacheck/answer": _ANSWER,
    "qacheck/statement": "One sentence.",
    "qacheck/verdict": _LABEL,
    "silver/prompt": "One to twenty questions: `<question>` tags, or JSON where it is enforced.",
    "answerability/prompt": _DIGIT,
    "correctness/prompt": _DIGIT,
    "sentence/prompt": "The same, of the answer alone (`paper_7b_literal`).",
    "atomicity/prompt": "YES or NO for each of the five criteria, in `<answer>` at the end.",
    "coverage/prompt": "Supported, Refuted or Not Enough Information, in `<answer>` at the end.",
    "minicheck/user": "The probabilities of Yes and No as the first token. This text is used with "
    "`allow_own_prompt` alone; the default is the publisher's, which is not part of the project.",
    "continuation/prompt": "What the transcript goes on with, as for the prompt that it repeats.",
}
"""By prompt file and section."""


def contract(prompt: str, section: str) -> str:
    """What is read from a reply.

    Raises:
        KeyError: the prompt is not listed.
    """
    return _WRITTEN_OUT if section == "single_call" else CONTRACTS[f"{prompt}/{section}"]
