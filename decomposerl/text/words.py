"""Words of a claim or sentence: stems, numbers, names, negation, doubt, opposites.

Takes strings, gives a frozen ``Sentence``. English, by rules and short lists. Sentences are
split by ``kernels.text_scan.sentences``.
"""

import re
from dataclasses import dataclass
from functools import lru_cache

WORD = re.compile(r"\d+(?:[.,]\d+)*|[^\W\d_]+(?:['’](?=[^\W\d_])[^\W\d_]+)?")
"""A number, or letters with an apostrophe inside at most."""


def words_of(text: str) -> list[str]:
    """The words of a list written as one string."""
    return text.split()


def word_set(text: str) -> frozenset[str]:
    """The same as a set."""
    return frozenset(text.split())


STOP_WORDS = word_set(
    "a an the this that these those it its he she they them his her hers their theirs him we us "
    "our you your i my me who whom whose which what when where why how and or but nor so if then "
    "than as of in on at by for from to with into onto upon over under about between among "
    "through during after before since until while because though although however also too "
    "very just there here be am is are was were been being have has had having do does did doing "
    "done will would shall should can could may might must not no never n't s t re ve ll d m "
    "such same other another any some each every both either neither own more most less least "
    "up down out off again further once only all few many much one"
)
_NEGATIONS = word_set(
    "not no never neither nor none nobody nothing nowhere without cannot fail fails failed "
    "unable lack lacks lacked lacking absence denied denies refused barely hardly"
)
_DOUBTS = word_set(
    "false falsely untrue hoax fake fabricated myth debunked debunk misleading baseless rumor "
    "rumors rumour rumours misinformation conspiracy satire satirical unfounded doctored bogus "
    "fictitious incorrect incorrectly wrongly erroneous unproven disproved disproven refuted"
)
MONTHS = words_of(
    "january february march april may june july august september october november december"
)
_TENS = words_of("twenty thirty forty fifty sixty seventy eighty ninety")
CARDINALS = {
    word: value
    for value, word in enumerate(
        words_of(
            "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen "
            "fifteen sixteen seventeen eighteen nineteen"
        )
    )
} | {word: 10 * value for value, word in enumerate(_TENS, start=2)}
OPPOSITES = tuple(
    words_of(
        "increase/decrease increase/reduce increase/decline increase/lower rise/fall rise/drop "
        "high/low higher/lower more/less more/fewer many/few large/small larger/smaller big/small "
        "largest/smallest highest/lowest most/least best/worst better/worse good/bad greater/less "
        "before/after early/late earlier/later first/last old/young older/younger new/old "
        "long/short "
        "longer/shorter true/false win/lose won/lost accept/reject allow/prevent allow/ban "
        "start/end begin/end began/ended open/close open/shut male/female man/woman men/women "
        "brother/sister father/mother son/daughter husband/wife king/queen actor/actress his/her "
        "he/she north/south east/west northern/southern eastern/western positive/negative "
        "activate/inhibit promote/inhibit promote/suppress induce/inhibit enhance/reduce "
        "enhance/impair improve/worsen upregulate/downregulate gain/loss presence/absence "
        "always/never all/none everyone/nobody inside/outside above/below over/under major/minor "
        "success/failure successful/unsuccessful pass/fail dead/alive died/survived living/dead "
        "include/exclude same/different similar/different significant/insignificant "
        "effective/ineffective safe/dangerous strong/weak stronger/weaker fast/slow rich/poor "
        "public/private married/divorced former/current heavy/light hot/cold summer/winter "
        "day/night left/right up/down with/without support/oppose agree/disagree buy/sell "
        "outperform/underperform efficient/inefficient single/married only/also"
    )
)

_ROOT = 3
"""Letters that a stem keeps at least."""


@dataclass(frozen=True, slots=True)
class Sentence:
    """One sentence taken apart; stems are lower-case and cut of common endings.

    ``stems`` keeps order and repeats and leaves stop words out; ``content`` is its set
    (numbers and names included), ``words`` the set of all lower-case words.
    """

    text: str
    stems: tuple[str, ...]
    content: frozenset[str]
    numbers: frozenset[str]
    names: frozenset[str]
    words: frozenset[str]
    negated: bool

    @property
    def doubts(self) -> bool:
        """Whether it calls something false, invented or unproven."""
        return not self.words.isdisjoint(_DOUBTS)


def parse(text: str) -> Sentence:
    """Take one sentence apart."""
    found = [m[0] for m in WORD.finditer(text)]
    lower = [word.lower() for word in found]
    words = frozenset(lower)
    stems: list[str] = []
    numbers: set[str] = set()
    names: set[str] = set()
    for position, (word, low) in enumerate(zip(found, lower, strict=True)):
        if low in STOP_WORDS:
            continue
        root = stem(low)
        stems.append(root)
        if root[0].isdigit():
            numbers.add(root)
        elif word[0].isupper() and (position or word[1:].lower() != word[1:]):
            names.add(root)
    low = text.lower()
    shortened = ("n't" in low or "n’t" in low) and any(w.endswith(("n't", "n’t")) for w in words)
    negated = shortened or not words.isdisjoint(_NEGATIONS)
    return Sentence(
        text,
        tuple(stems),
        frozenset(stems),
        frozenset(numbers),
        frozenset(names),
        words,
        negated,
    )


@lru_cache(maxsize=200_000)
def stem(word: str) -> str:
    """A lower-case word without its common English ending; numbers in one spelling."""
    if word[0].isdigit():
        plain = word.replace(",", "")
        return plain.rstrip("0").rstrip(".") if "." in plain else plain
    if CARDINALS.get(word, 0) > 1:
        return str(CARDINALS[word])
    word = re.sub(r"['’]s?$|['’]s\b", "", word)
    for ending, put in (
        ("ies", "y"),
        ("sses", "ss"),
        ("ing", ""),
        ("ed", ""),
        ("es", ""),
        ("s", ""),
    ):
        if word.endswith(ending) and len(word) - len(ending) >= _ROOT and not word.endswith("ss"):
            word = word[: -len(ending)] + put
            break
    if len(word) > _ROOT + 1 and word[-1] == word[-2] and word[-1] not in "aeiouls":
        word = word[:-1]
    return word.rstrip("e") if len(word) > _ROOT else word


@lru_cache(maxsize=1)
def opposites() -> dict[str, frozenset[str]]:
    """Stem to the stems of its opposites, both ways; unstemmed spellings included."""
    table: dict[str, set[str]] = {}
    for entry in OPPOSITES:
        one, other = entry.split("/")
        for a, b in ((one, other), (other, one)):
            table.setdefault(stem(a), set()).add(stem(b))
    return {word: frozenset(found) for word, found in table.items()}


def has_opposite(claim_only: frozenset[str], sentence_only: frozenset[str]) -> bool:
    """Whether a word of the one set has its opposite in the other."""
    table = opposites()
    others = {stem(word) for word in sentence_only}
    return any(not table.get(stem(word), frozenset()).isdisjoint(others) for word in claim_only)
