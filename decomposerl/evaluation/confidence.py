"""The confidence of a verdict, read from the log probabilities of its tokens.

The verdict is located by character offset, because the end of a tag may share a token with the
word: after the last opening verification tag; in a reply without one, in the last ``Verdict: ...``
line, else in the last line with a letter if it says nothing else. The words of a pair differ in
their first letter, so the first token decides: the probabilities of all tokens that begin one word
are summed. Where a trace argued before the verdict these numbers saturate; see
``evaluation.calibration``.
"""

import math
import re
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate

from decomposerl.chat import Token
from decomposerl.traces.trace import Verdict

READING = 2
"""Part of the prompt's hash. Raise it whenever this file reads another number, or none, from the
same tokens: stored claims are then not reused."""
TAG = "<verification>"
PAIRS = (("supported", "refuted"), ("yes", "no"), ("true", "false"))
"""Words for Supported and for Refuted; a trace uses the first pair only."""
SMALLEST_REST = 1e-6
"""Least probability of all unlisted tokens: log probabilities come in single precision."""
_WORD = "|".join(word for pair in PAIRS for word in pair)
_MARKS = r"(?:[^\S\n]|<\|?/?[a-z_]+\|?>|\\boxed|[*_`\"'“”‘’«»\[\](){}#>.!-])*+"
_WHOSE = rf"{_MARKS}(?:(?:yes|no)\b[.,]?\s)?(?:so,?\s)?(?:the\s)?(?:(?:final|overall|my)\s)?"
_SAYS = rf"{_MARKS}(?:[:=]|is\b(?:\s?:)?)"
_LAST_NAMED = re.compile(
    rf"^{_WHOSE}(?:verdict|(?<=final.)(?:answer|conclusion|label)){_SAYS}(.*)$",
    re.IGNORECASE | re.MULTILINE,
)
_SAID = re.compile(
    rf"(?:{_WHOSE}(?:verdict|answer|conclusion|label){_SAYS})?"
    rf"{_MARKS}(?:the\s(?:claim|statement)\sis\s)?{_MARKS}({_WORD}){_MARKS}",
    re.IGNORECASE,
)
_LABEL = re.compile(rf"\s*({'|'.join(PAIRS[0])})(?![^\W_])", re.IGNORECASE)
_LETTER = re.compile(r"[^\W\d_]")


@dataclass(frozen=True, slots=True)
class Confidence:
    """The confidence of a verdict's token, all 0..1.

    ``raw`` is the probability of the printed word, as the paper seems to print; ``normalised`` the
    same over the two words alone. ``lower_bound``: the other word was not among the listed tokens,
    and ``normalised`` assumes the greatest probability that it can have had. ``verdict`` is the one
    that the tokens spell.
    """

    raw: float
    normalised: float
    lower_bound: bool
    verdict: Verdict

    @property
    def support(self) -> float:
        """P(Supported), normalised over the two words."""
        return self.normalised if self.verdict == "Supported" else 1.0 - self.normalised


def read_confidence(tokens: Sequence[Token]) -> Confidence | None:
    """The confidence of the verdict that these tokens spell.

    None where it is unavailable: no verdict is spelled, or the tokens have no top log
    probabilities.
    """
    texts = [token.text for token in tokens]
    spelled = _verdict_offset("".join(texts))
    if spelled is None:
        return None
    offset, word = spelled
    ends = list(accumulate(map(len, texts)))
    index = bisect_right(ends, offset)
    token = tokens[index]
    if not token.alternatives:
        return None
    head = token.text[: offset - (ends[index] - len(token.text))].strip()
    return _read_token(token, head, word)


def _verdict_offset(text: str) -> tuple[int, str] | None:
    """Character offset of the verdict's word, and the word in lower case."""
    tag = text.rfind(TAG)
    if tag >= 0:
        match = _LABEL.match(text, tag + len(TAG))
        return None if match is None else (match.start(1), match[1].lower())
    start, end = _verdict_line(text)
    match = _SAID.fullmatch(text, start, end)
    return None if match is None else (match.start(1), match[1].lower())


def _verdict_line(text: str) -> tuple[int, int]:
    """Span of what the last ``Verdict:`` line says, else of the last line with a letter."""
    named = list(_LAST_NAMED.finditer(text))
    if named:
        return named[-1].span(1)
    end = len(text)
    while end > 0:
        start = text.rfind("\n", 0, end) + 1
        if _LETTER.search(text, start, end):
            return start, end
        end = start - 1
    return 0, 0


def _read_token(token: Token, head: str, word: str) -> Confidence:
    """Sum the tokens that begin ``word`` and those that begin its rival.

    ``head`` is the text before the word in the same token.
    """
    pair = next(pair for pair in PAIRS if word in pair)
    listed = list(token.alternatives)
    if all(text != token.text for text, _ in listed):
        listed.append((token.text, token.logprob))
    mass = dict.fromkeys(pair, 0.0)
    for text, logprob in listed:
        for begun in pair:
            mass[begun] += math.exp(logprob) if _begins(text, head, begun) else 0.0
    rival = pair[1 - pair.index(word)]
    rival_listed = any(_begins(text, head, rival) for text, _ in listed)
    against = mass[rival] if rival_listed else _most_unlisted([logprob for _, logprob in listed])
    own = min(mass[word], 1.0)
    verdict: Verdict = "Supported" if word == pair[0] else "Refuted"
    total = own + against
    return Confidence(own, own / total if total else 0.5, not rival_listed, verdict)


def _begins(text: str, head: str, word: str) -> bool:
    """Whether a token, after ``head``, begins ``word``."""
    written = text.lstrip()
    if not written.startswith(head):
        return False
    rest = written[len(head) :].lstrip().lower()
    if len(rest) <= len(word):
        return rest != "" and word.startswith(rest)
    return rest.startswith(word) and not rest[len(word)].isalnum()


def _most_unlisted(logprobs: Sequence[float]) -> float:
    """Upper bound of an unlisted token: the least listed probability, and the mass left."""
    chances = [math.exp(logprob) for logprob in logprobs]
    return min(*chances, max(1.0 - math.fsum(chances), SMALLEST_REST))
