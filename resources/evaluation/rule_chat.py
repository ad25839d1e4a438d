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

import re
from collections.abc import Callable, Generator, Mapping, Sequence

from decomposerl.baselines import program as language
from decomposerl.baselines.method import ModelCall, ModelReply, Operation
from decomposerl.baselines.pairs import numbered, qa_lines
from decomposerl.schemas import WRITTEN
from decomposerl.text.clauses import AUXILIARIES, checks_of
from decomposerl.text.numbers import lists_more
from decomposerl.text.sentences import split_sentences
from decomposerl.text.words import STOP_WORDS
from decomposerl.training.evidence_view import evidence_view
from decomposerl.training.experiment import EvidenceView
from resources.decomposer.rule_engine import questions_of
from resources.evaluation.runner import AnyVerifier, Details, MethodPrompts, Reply
from resources.judge.rule_judge import answering, asks_yes_no, read, read_document, share, verdict

RULES = 5
"""Raised whenever the rules change, so that stored claims are not mixed."""
NONE, UNKNOWN = "NONE", "unknown"
Pair = tuple[str, str]
Weighing = Generator[Pair, float, str]
"""Yields (evidence, statement) pairs, is sent P(supported) of each, returns the reply."""
Variables = Mapping[str, str]
_THIRD = WRITTEN["NotEnoughInfo"].lower()
_HOLDS = 0.5
_NAMED = 0.34  # least share of a statement's content words in evidence that can decide it
_QUESTIONS = 5  # most of a whole transcript
_FACTS = 9  # most of a program: with the prediction, the language's limit of ten statements
_SELECTED = 3
_SUMMARY = EvidenceView(most_sentences=3)
_PAIR = re.compile(r"^Q(\d+): (.*)\nA\1: (.*)$", re.MULTILINE)
_PASSAGE = re.compile(r"^\[?(\d+)[.\]):]+ ?(.*)$", re.MULTILINE)
_TRUE_THAT = re.compile(r"^is it true that ", re.IGNORECASE)
_LEAD = re.compile(r"\s*(yes|no)\b", re.IGNORECASE)
_NUMBER = re.compile(r"^\d+\. ")


class RuleChat:
    """A ``MethodCaller`` that needs only its verifier installed, and always answers."""

    concurrent = False
    claims_at_once = 256

    def __init__(self, verifier: AnyVerifier, prompts: MethodPrompts | None = None) -> None:
        """``verifier`` checks statements against evidence; ``prompts`` as for a chat model."""
        self._verifier, self._prompts = verifier, prompts or MethodPrompts()

    @property
    def engine(self) -> str:
        """The rule set and the verifier."""
        return f"rule_chat:{RULES}+{self._verifier.engine}"

    def details(self) -> Details:
        """The verifier's."""
        return self._verifier.details()

    def prompt_hash(self, prompt: str) -> str:
        """Over the prompt file and the rules."""
        return self._prompts.hash(prompt, RULES)

    def answer(self, prompt: str, calls: Sequence[ModelCall]) -> list[Reply]:
        """One reply per call, in order.

        Raises:
            ConfigError: as ``MethodCaller``, although the rules do not read the filled prompt.
            EngineError: the verifier cannot be asked.
        """
        sections, works = self._prompts.file(prompt).sections, list[str | Weighing]()
        for call in calls:
            self._prompts.filled(prompt, call)
            works.append(_work(call, sections[call.template].lower()))
        return [Reply(ModelReply(text)) for text in self._weighed(works)]

    def _weighed(self, works: Sequence[str | Weighing]) -> list[str]:
        """All replies; the pairs that they need at the same time are weighed in one batch."""
        replies = [work if isinstance(work, str) else "" for work in works]
        going = {at: work for at, work in enumerate(works) if not isinstance(work, str)}
        weights: dict[int, float | None] = dict.fromkeys(going)
        while weights:
            pairs: dict[int, Pair] = {}
            for at, weight in weights.items():
                try:
                    pairs[at] = next(going[at]) if weight is None else going[at].send(weight)
                except StopIteration as end:
                    replies[at] = end.value
            batch = [*pairs.values()]
            chances = self._verifier.support_probability(batch).tolist() if batch else []
            weights = dict(zip(pairs, chances, strict=True))
        return replies


def _work(call: ModelCall, template: str) -> str | Weighing:
    """The reply to a call, whose template is in lower case."""
    variables, offers_third = call.variables, _THIRD in template
    if call.operation == "decompose":
        cut = questions_of if "question" in template else _statements_of
        return numbered(parts) if (parts := cut(variables["claim"])) else NONE
    if call.operation == "verify":
        unknown = call.template != "verdict" and UNKNOWN in template
        return _check(variables, may_be_unknown=offers_third or unknown)
    if call.operation == "procedure":
        with_verdict = call.template == "single_call"
        return _written_out(variables, with_verdict=with_verdict, may_be_unknown=offers_third)
    return _SERVES[call.operation](variables)


def _check(variables: Variables, *, may_be_unknown: bool) -> Weighing:
    """``Supported``, ``Refuted``, or ``Unknown`` where the template offers it or a third verdict.

    Earlier answers decide where they support or refute the statement, else the evidence. Where
    neither does, a check with two labels gives Refuted. A predicate is decided by the answer to
    its question, and the last line is the conjunction of all predicates.
    """
    if "predicates" in variables:
        truths = [_truth(question, answer) for question, answer in _pairs_in(variables)]
        lines = [f"{number}: {truth}" for number, truth in enumerate(truths, start=1)]
        return "\n".join([*lines, "[Supported]" if {"True"} == set(truths) else "[Refuted]"])
    known, evidence = _known_statements(variables), _evidence_in(variables)
    statement = variables.get("statement", variables.get("claim", ""))
    if "question" in variables and "statement" not in variables:
        statement = _statement_of(variables["question"])
    ruled = verdict(statement, known)
    if ruled == "Supported" and lists_more(statement, "\n".join([*known, evidence or ""])):
        return "Refuted"
    if ruled != "NotEnoughInfo":
        return str(ruled)
    if evidence is None or (may_be_unknown and not _covers(evidence, statement)):
        return "Unknown" if may_be_unknown else "Refuted"
    return (yield from _verified(evidence, statement))


def _answer(variables: Variables) -> Weighing:
    """The sentences that answer a question, after yes or no for a yes-no question."""
    question, evidence = variables["question"], _evidence_in(variables)
    reply = UNKNOWN if evidence is None else (yield from _answered(evidence, question))
    if reply == UNKNOWN:
        return " ".join(answering(" ".join(_known_statements(variables)), question)) or UNKNOWN
    return reply


def _written_out(variables: Variables, *, with_verdict: bool, may_be_unknown: bool) -> Weighing:
    """Questions about the claim with their answers, then the verdict where it is asked for."""
    claim, evidence = variables["claim"], _evidence_in(variables) or ""
    questions, pairs = questions_of(claim)[:_QUESTIONS], list[Pair]()
    for question in questions:
        pairs += [(question, (yield from _answered(evidence, question)))]
    lines = [qa_lines(pairs)] if pairs else []
    if with_verdict:
        label = str(verdict(claim, [answer for _, answer in pairs if answer != UNKNOWN]))
        if label == "NotEnoughInfo":
            is_open = may_be_unknown and not _covers(evidence, claim)
            label = "Unknown" if is_open else (yield from _verified(evidence, claim))
        lines.append(f"Verdict: {label}")
    return "\n".join(lines)


def _truth(question: str, answer: str) -> str:
    """The truth value of a predicate, by the answer to its question."""
    if answer.strip().lower().rstrip(".") == UNKNOWN:
        return "Unknown"
    if lead := _LEAD.match(answer):
        return "True" if lead[1].lower() == "yes" else "False"
    ruled = verdict(_statement_of(question), [answer])
    return {"Supported": "True", "Refuted": "False", "NotEnoughInfo": "Unknown"}[ruled]


def _verified(evidence: str, statement: str) -> Weighing:
    probability = yield evidence, statement
    # The verifier weighs the share of the numbers that it finds: half of them may be enough for it.
    held = probability > _HOLDS and not lists_more(statement, evidence)
    return "Supported" if held else "Refuted"


def _answered(evidence: str, question: str) -> Weighing:
    """The evidence's answer on one line, or unknown."""
    text = " ".join(" ".join(answering(evidence, question)).split())
    if not text or not asks_yes_no(question):
        return text or UNKNOWN
    held = yield from _verified(evidence, _statement_of(question))
    return f"{'Yes' if held == 'Supported' else 'No'}, {text}"


def _covers(evidence: str, statement: str) -> bool:
    wanted = read(statement)
    return share(wanted.content, wanted, read_document(evidence).everything) >= _NAMED


def _next_question(variables: Variables) -> str:
    """The first question, planned or of the claim, that no pair or transcript has yet."""
    planned = variables.get("questions", "").splitlines() or questions_of(variables["claim"])
    names = ("qa", "transcript", "known")
    written = "\n".join(variables.get(name, "") for name in names).casefold()
    return next((line for line in planned if line and line.casefold() not in written), NONE)


def _sufficient(variables: Variables) -> str:
    """Yes where the known statements decide the claim without the evidence."""
    statement = variables.get("statement", variables.get("claim", ""))
    return "No" if verdict(statement, _known_statements(variables)) == "NotEnoughInfo" else "Yes"


def _program(variables: Variables) -> str:
    """A program that checks each statement of the claim and predicts that all hold."""
    facts = enumerate(_statements_of(variables["claim"])[:_FACTS], start=1)
    steps = tuple(language.ProgramStep(f"fact_{at}", "Verify", fact) for at, fact in facts)
    expression = " and ".join(step.name for step in steps)
    return language.write_program(language.Program(steps, "label", expression))


def _select(variables: Variables) -> str:
    """Numbers of the passages that share most with what is asked, in order."""
    wanted = read(_asked(variables))
    shared = {
        int(number): share(wanted.content, wanted, read(passage).content)
        for number, passage in _PASSAGE.findall(variables["passages"])
        if wanted.content
    }
    best = sorted((at for at in shared if shared[at] > 0), key=lambda at: (-shared[at], at))
    return ", ".join(map(str, sorted(best[:_SELECTED]))) or NONE


def _summary(variables: Variables) -> str:
    """The few sentences of the evidence that share most with what is asked, in one line."""
    evidence = _evidence_in(variables) or ""
    return " ".join(evidence_view(_asked(variables), evidence, _SUMMARY).split())


def _stated(variables: Variables) -> str:
    """The one pair of ``qa`` as a statement: that of the question, with the answer's sentences.

    An answer other than yes or no is a statement already.
    """
    ((question, answer),) = _pairs_in(variables)
    lead, _, reason = answer.partition(",")
    decision, fact = lead.strip(" .").lower(), _statement_of(question)
    if not asks_yes_no(question) or decision not in {"yes", "no"}:
        return answer
    if decision == "no":
        is_name = fact.partition(" ")[0].lower() not in STOP_WORDS
        fact = f"It is not true that {fact if is_name else fact[:1].lower() + fact[1:]}"
    return f"{fact.removesuffix('.')}: {reason.strip()}" if reason.strip() else fact


def _asked(variables: Variables) -> str:
    return variables.get("question") or variables.get("statement") or variables["claim"]


def _statements_of(claim: str) -> list[str]:
    """The claim as statements of one fact each; the claim itself where no rule splits it."""
    statements: dict[str, str] = {}
    for sentence in split_sentences(" ".join(claim.split())):
        checks = [text for text in checks_of(sentence.rstrip(" .;:!,")) if not text.endswith("?")]
        for check in checks or [sentence.rstrip(" .")]:
            statements.setdefault(check.casefold(), f"{check[:1].upper()}{check[1:]}.")
    return list(statements.values()) or [" ".join(claim.split())]


def _pairs_in(variables: Variables) -> list[Pair]:
    """Questions with their answers, in order, from ``qa``."""
    return [(question, answer) for _, question, answer in _PAIR.findall(variables.get("qa", ""))]


def _known_statements(variables: Variables) -> list[str]:
    """What is known beside the evidence: answers of ``qa``, lines of ``known``."""
    known = variables.get("known", "")
    lines = [] if known.strip().lower() == "none" else known.splitlines()
    statements = (_NUMBER.sub("", line.strip()) for line in lines)
    return [*(answer for _, answer in _pairs_in(variables)), *filter(None, statements)]


def _evidence_in(variables: Variables) -> str | None:
    """The evidence of a call, from ``evidence`` or numbered ``passages``; None: it has none."""
    if "evidence" in variables or "passages" not in variables:
        return variables.get("evidence")
    return "\n".join(passage for _, passage in _PASSAGE.findall(variables["passages"]))


def _statement_of(question: str) -> str:
    """A yes-no question as the statement that it asks about; any other text as it is.

    A leading auxiliary is removed and not moved, because its position is unknown.
    """
    text = question.strip().rstrip("?").strip()
    bare = _TRUE_THAT.sub("", text)
    if bare == text and asks_yes_no(question):
        first, _, rest = text.partition(" ")
        bare = rest if first.lower() in AUXILIARIES else text
    return f"{bare[:1].upper()}{bare[1:]}."


_SERVES: Mapping[Operation, Callable[[Variables], str | Weighing]] = {
    "next_question": _next_question,
    "answer": _answer,
    "judge_sufficient": _sufficient,
    "program": _program,
    "select": _select,
    "summarise": _summary,
    "state": _stated,
}
