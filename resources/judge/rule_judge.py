"""A judge made of rules: the four rulings where no model can run (paper, section 3.2).

It compares names, numbers, plain words and polarity and understands nothing; orders and forged tags
in what it reads are passed over, or cost the text that carries them. How well it does stands
in ``docs/explanation/embedded-engines.md``; patterns and thresholds in ``rule_words.toml``.

A question is answerable where one or two sentences hold what it names; an answer is correct
where every part of it has a counterpart in the document, with the same polarity. Answers alone
refute a claim where one denies a fact of it, negates it, calls it false, or has another name or
number in the place of one that no answer confirms; they support it where they together hold what
every fact says. An abstention, or a yes or no that names nothing of the claim, carries nothing.
"""

import html
import re
import tomllib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from importlib.resources import files
from operator import ge
from typing import NamedTuple

from decomposerl.judge.call import JudgeCall, Ruling, Task
from decomposerl.normal_form import normalised
from decomposerl.replies.abstention import abstains
from decomposerl.replies.rulings import RulingValue
from decomposerl.schemas import Verdict
from decomposerl.text.clauses import AUXILIARIES, DETERMINERS, checks_of, first_finite
from decomposerl.text.families import FAMILY
from decomposerl.text.names import Word, name_runs
from decomposerl.text.sentences import split_sentences
from decomposerl.text.words import STOP_WORDS, WORD, has_opposite, parse, stem, word_set

RULES = 4
"""Raised whenever the rules change, so that stored rulings are not mixed."""
_WORDS = tomllib.loads(files(__package__).joinpath("rule_words.toml").read_text("utf-8"))
_WORDS["ASKING"] = "|".join(word_set(_WORDS["WH"]) | AUXILIARIES)
_RULES = {
    name: re.compile(
        re.sub("TAGS|ASKING|JOIN", lambda word: _WORDS[word[0]], text), re.IGNORECASE | re.VERBOSE
    )
    for name, text in _WORDS["patterns"].items()
}
_LEAST: Mapping[str, float] = _WORDS["least"]
_FRAME = frozenset(map(stem, word_set(_WORDS["FRAME"])))
_MOST: Mapping[str, int] = _WORDS["most"]
_CANDIDATES = 8  # sentences with most words in common that are also compared loosely
_ROOT, _LONGER = 4, 4  # letters that two forms of a word share at least, one has more at most
Stems = frozenset[str]
_NONE: Stems = frozenset()


class RuleJudge:
    """A ``Judge`` that needs nothing installed and always rules."""

    engine = f"rule_judge:{RULES}"

    def judge(self, calls: Sequence[JudgeCall]) -> list[Ruling]:
        """One ruling a call, in order; ``failure`` is always None."""
        return [Ruling(_RULINGS[call.task](call)) for call in calls]


class CleanText(NamedTuple):
    """The sentences that are left, also in one line; ``orders``: words to a judge are gone."""

    sentences: tuple[str, ...]
    text: str
    orders: bool


@lru_cache(maxsize=4096)
def clean(text: str) -> CleanText:
    """A text without markup, forged tags and words to a judge: a ruling on it is on the rest."""
    # Entities may be escaped twice.
    text = html.unescape(html.unescape(text)) if "&" in text else text
    plain = normalised("NFKC", _RULES["marks"].sub(" ", _RULES["invisible"].sub("", text)))
    bare = _RULES["forged"].sub("\n", plain)
    kept: list[str] = []
    orders = bare != plain
    for sentence in split_sentences(_RULES["tag"].sub(" ", bare)):
        order = _RULES["orders"].search(sentence)
        words = (sentence[: order.start()] if order else sentence).split()
        orders = orders or order is not None
        if order and (len(words) <= _MOST["few"] or words[-1].lower().strip(",;:") in STOP_WORDS):
            words = []  # what only leads up to an order goes, too ("unless you …")
        if any(map(str.isalnum, "".join(words))):
            kept.append(" ".join(words))
    return CleanText(tuple(kept), " ".join(kept), orders)


@dataclass(frozen=True, slots=True, eq=False)
class Statement:
    """One sentence, by its stems: ``content`` holds all, ``values`` names and numbers.

    ``topic`` is all but the plain words that talk about the document; ``slots`` are the places of
    names and numbers, by the word before ("in" for any year), each with its (last) stem.
    """

    text: str
    content: Stems
    values: Stems
    numbers: Stems
    topic: Stems
    words: Stems
    slots: tuple[tuple[str, str], ...]
    negated: bool


@lru_cache(maxsize=50_000)
def read(sentence: str) -> Statement:
    """Take one sentence apart."""
    parsed, tokens = parse(sentence), WORD.findall(sentence)
    words, names = [token.lower() for token in tokens], parsed.names
    # At the start a capital alone proves nothing.
    start, end = next(name_runs([Word(token, space=True) for token in tokens[:4]]), (1, 1))
    if start == 0:
        opening = (word for word in words[:end] if word not in STOP_WORDS)
        names |= {stem(word) for word in opening if not word[0].isdigit()}
    values = names | parsed.numbers
    topic = parsed.content - (_FRAME - values)
    slots = tuple(_slots([word for word in words if word not in DETERMINERS], names))
    return Statement(
        sentence, parsed.content, values, parsed.numbers, topic, parsed.words, slots, parsed.negated
    )


def _slots(words: list[str], names: Stems) -> Iterator[tuple[str, str]]:
    """Each number, and each run of name words."""
    roots = [stem(word) if word not in STOP_WORDS else "" for word in words]
    start = 0
    for at, root in enumerate(roots):
        start = start if at and {root, roots[at - 1]} <= names else at
        before = words[start - 1] if start else ""
        if root[:1].isdigit():
            yield "# in" if re.fullmatch(r"1\d{3}|20\d{2}", root) else f"# {before}", root
        elif root in names and not names.issuperset(roots[at + 1 : at + 2] or [""]):
            yield before, root


def weight(stems: Stems, of: Statement) -> int:
    """Names and numbers of ``of`` count twice."""
    return len(stems) + len(stems & of.values)


def shared(wanted: Stems, of: Statement, by: Stems) -> Stems:
    """The ``wanted`` stems of ``of`` that ``by`` holds.

    Values exactly; plain words also within a word family (write, author) and in other forms
    (play, player).
    """
    held = wanted & by
    loose = wanted - held - of.values
    forms = _forms(by) if loose else _NONE
    return held | {root for root in loose if not forms.isdisjoint(_forms(frozenset([root])))}


@lru_cache(maxsize=16_384)
def _forms(stems: Stems) -> frozenset[str | int]:
    """The families of stems, and their shorter forms."""
    families = frozenset[str | int](FAMILY[root] for root in stems if root in FAMILY)
    lengths = ((root, range(max(_ROOT, len(root) - _LONGER), len(root) + 1)) for root in stems)
    return families.union(root[:end] for root, ends in lengths for end in ends)


def share(wanted: Stems, of: Statement, by: Stems) -> float:
    """Weight of the ``wanted`` stems of ``of`` that ``by`` holds, 0..1; 1 where none is."""
    return weight(shared(wanted, of, by), of) / weight(wanted, of) if wanted else 1.0


class Document(NamedTuple):
    """A document's statements, the places of those with a stem, and its text in small letters."""

    sentences: tuple[Statement, ...]
    holders: Mapping[str, Sequence[int]]
    everything: Stems
    text: str

    def window(self, of: Statement, most: int) -> list[Statement]:
        """At most ``most`` sentences that together hold most of the topic of ``of``, best first."""
        chosen: list[Statement] = []
        rest = of.topic
        while rest and len(chosen) < most:
            holding = {at for root in rest for at in self.holders.get(root, ())}
            exact = [self.sentences[at] for at in sorted(holding)]
            near = sorted(exact, key=lambda each: -weight(rest & each.content, of))[:_CANDIDATES]
            if not near:
                break
            scored = [(shared(rest, of, each.content), each) for each in near]
            held, best = max(scored, key=lambda pair: (weight(pair[0], of), -len(pair[1].content)))
            chosen.append(best)
            rest -= held
        return chosen


@lru_cache(maxsize=64)
def read_document(text: str) -> Document:
    """Take a document apart; calls about one document come together."""
    cleaned = clean(text)
    sentences = tuple(map(read, cleaned.sentences))
    holders: dict[str, list[int]] = {}
    for at, sentence in enumerate(sentences):
        for root in sentence.content:
            holders.setdefault(root, []).append(at)
    return Document(sentences, holders, frozenset(holders), cleaned.text.lower())


def _statements(pieces: Iterable[str]) -> tuple[Statement, ...]:
    """Each distinct piece that has a word, taken apart."""
    return tuple(read(each) for each in dict.fromkeys(pieces) if any(map(str.isalnum, each)))


def answerable(document: str, question: str) -> bool:
    """Whether one or two sentences of ``document`` hold what answers ``question``."""
    if "?" in question and _RULES["about_document"].search(clean(question).text):
        return bool(document.strip())
    return bool(answering(document, question))


def answering(document: str, question: str) -> tuple[str, ...]:
    """The one or two sentences that make ``question`` answerable, best first; else none."""
    text = clean(question).text
    asked = read(text)
    window = read_document(document).window(asked, 2)
    held = _NONE.union(*(sentence.content for sentence in window))
    parts = (asked.topic - asked.values, asked.topic & asked.values, asked.topic)
    least = _WORDS["question"]["yes_no" if asks_yes_no(text) else "wh"]
    shares = (share(part, asked, held) for part in parts)
    holds = "?" in question and all(map(ge, shares, least))
    return tuple(sentence.text for sentence in window if holds)


def asks_yes_no(question: str) -> bool:
    """Whether the question opens with an auxiliary."""
    return (question.split() or [""])[0].lower() in AUXILIARIES


def correct(document: str, question: str, answer: str) -> bool:
    """Whether ``document`` supports every part of ``answer``, read with its question."""
    said = clean(answer)
    # Nobody is asked about an abstention: this one comes with more.
    if said.orders or not said.sentences or any(map(abstains, said.sentences)):
        return False
    lead = _RULES["lead"].match(said.text)
    rest = said.text[lead.end() :] if lead else said.text
    source, asked = read_document(document), read(clean(question).text)
    pieces = (part for each in split_sentences(rest) for part in _RULES["part"].split(each))
    parts = _statements(_RULES["contrast"].sub("", part) for part in pieces)
    compared = len(parts) * len(source.sentences)
    if len(parts) > _MOST["parts"] or compared > _MOST["compared"]:
        return False
    if lead:  # the document has to agree with a yes, or a no, to what is asked
        window = source.window(asked, 2)
        otherwise = bool(window) and window[0].negated != asked.negated
        known = asked.topic & asked.values <= _NONE.union(*(one.content for one in window))
        lacks = bool(window) and share(asked.topic, asked, window[0].content) < 1
        if not (known and window and not otherwise if lead["yes"] else otherwise or lacks):
            return False
    return bool(lead or parts) and all(_supported(part, asked, source) for part in parts)


def _supported(part: Statement, asked: Statement, source: Document) -> bool:
    """Whether the document holds one part of an answer.

    A denial holds where the document denies it too, or holds no such value.
    """
    wanted = part.topic
    if len(wanted) >= _LEAST["verbatim"] and part.text.lower().strip(" .,;:!?") in source.text:
        return True
    best = next(iter(source.window(part, 1)), None)
    if best is None:
        return part.negated or not wanted
    if part.negated:
        unknown = not part.values <= source.everything
        return best.negated or unknown or share(wanted, part, best.content) < _LEAST["one_sentence"]
    values = wanted & part.values
    own = wanted - values - shared(wanted - values, part, asked.content)
    if not values <= best.content or share(own, part, source.everything) < _LEAST["plain"]:
        return False
    return share(values | own, part, best.content) >= _LEAST["one_sentence"] and not best.negated


Check = tuple[Statement, Stems]  # a fact of a claim, and the stems of its subject
Answer = tuple[bool | None, tuple[Statement, ...]]  # opens with a yes or a no; its sentences


def _stems(answer: Answer, *, denied: bool) -> Stems:
    """Those of all sentences of an answer, or of those that are not negated."""
    return _NONE.union(*(clause.content for clause in answer[1] if denied or not clause.negated))


def verdict(claim: str, answers: Sequence[str]) -> Verdict:
    """The verdict that the answers support, whatever their order."""
    checks = _checks_in(claim)
    known = [answer for answer in map(_read_answer, answers) if answer is not None]
    if not known or not 0 < len(checks) <= _MOST["checks"]:
        return "NotEnoughInfo"
    content = _NONE.union(*(statement.content for statement, _ in checks))
    confirmed = content & _NONE.union(*(_stems(answer, denied=False) for answer in known))
    if any(_contradicts(answer, check, content, confirmed) for check in checks for answer in known):
        return "Refuted"
    return "Supported" if all(_confirmed(check, known) for check in checks) else "NotEnoughInfo"


@lru_cache(maxsize=4096)
def _checks_in(claim: str) -> tuple[Check, ...]:
    """The facts of a claim that have content, in the order of its wording."""
    checks: list[Check] = []
    for sentence in clean(claim).sentences:
        for text in checks_of(sentence.rstrip(" .;:!,?")):
            statement, words = read(text), text.rstrip("?").split()
            verb = None if text.endswith("?") else first_finite(words)
            subject = read(" ".join(words[:verb])).content if verb else _NONE
            checks += [(statement, subject if statement.content > subject else _NONE)]
    return tuple(check for check in checks if check[0].content)


@lru_cache(maxsize=16_384)
def _read_answer(answer: str) -> Answer | None:
    """What an answer states, None of an abstention; orders to the judge are passed over."""
    if abstains(answer):
        return None
    says: bool | None = None
    clauses: list[str] = []
    for index, sentence in enumerate(clean(answer).sentences):
        if not abstains(sentence):
            lead = _RULES["lead"].match(sentence)
            says = bool(lead["yes"]) if lead and index == 0 else says
            clauses.append(sentence[lead.end() :] if lead else sentence)
    return says, _statements(clauses)


def _confirmed(check: Check, answers: Sequence[Answer]) -> bool:
    """Whether the answers that do not deny hold the check's subject, rest and numbers."""
    statement, subject = check
    own = statement.content - subject
    stems = _NONE.union(*(_stems(answer, denied=statement.negated) for answer in answers))
    return (
        own & statement.numbers <= stems
        and share(subject, statement, stems) >= _LEAST["subject"]
        and share(own & statement.values - statement.numbers, statement, stems) >= _LEAST["names"]
        and share(own, statement, stems) >= _LEAST["own"]
    )


@lru_cache(maxsize=16_384)
def _contradicts(answer: Answer, check: Check, claim: Stems, confirmed: Stems) -> bool:
    """Whether an answer alone speaks against a check, given what all answers confirm of it.

    It does by a no about the check, by the check with the other polarity or its opposite, or by
    another value in the place of one that no answer confirms. Kept, since verdicts with one answer
    left out ask the same of all others.
    """
    statement, subject = check
    own = statement.content - subject
    about = shared(
        own | statement.values - statement.numbers, statement, _stems(answer, denied=True)
    )
    if answer[0] is False and weight(about, statement) >= _LEAST["denied"]:
        return True
    slots = () if statement.negated else statement.slots
    places = {place for place, value in slots if value not in confirmed} - {"", "# "}
    frame = statement.content - (statement.values - confirmed)
    for clause in answer[1]:
        if share(own, statement, clause.content) >= _LEAST["near"] and (
            clause.negated != statement.negated
            or has_opposite(statement.words - clause.words, clause.words - statement.words)
        ):
            return True
        others = (place in places and value not in claim for place, value in clause.slots)
        about_it = share(frame, statement, clause.content) >= _LEAST["place"]
        if about_it and not clause.negated and any(others):
            return True
    return False


def atomicity(claim: str, question: str) -> tuple[bool, ...]:
    """The five criteria, shape (5,). Words to the judge cost focus and verifiability."""
    text, orders = clean(question)[1:]
    asking = sum(_RULES["asking"].search(part) is not None for part in text.split("?"))
    is_question = "?" in text and asking > 0
    bare = _RULES["one_thing"].sub("", _RULES["quoted"].sub("Quotation", text).rstrip(" ?."))
    two_clauses = _RULES["two_clauses"].search(bare) is not None
    about = read(text)
    common = shared(about.topic, about, read(clean(claim).text).content)
    return (
        is_question,
        asking == 1 and not two_clauses and not orders,
        asking <= 1 and _RULES["join"].search(bare) is None,
        is_question and not orders and _RULES["open"].search(text) is None,
        bool(common) and weight(common, about) >= min(2, len(about.topic) / 2),
    )


_RULINGS: Mapping[Task, Callable[[JudgeCall], RulingValue]] = {
    "answerability": lambda call: answerable(call.document, call.question),
    "atomicity": lambda call: atomicity(call.claim, call.question),
    "correctness": lambda call: all(correct(call.document, call.question, a) for a in call.answers),
    "coverage": lambda call: verdict(call.claim, call.answers),
}
