"""Traces with contradictions, and traces that only look as if they had some."""

from collections.abc import Sequence

from decomposerl.judge.signals import Signals
from decomposerl.rewards.consistency import consistency
from decomposerl.rewards.reward import RewardCase, RewardResult
from decomposerl.rewards.settings import RewardSettings
from decomposerl.traces.abstention import abstains
from decomposerl.traces.rollout import Rollout
from decomposerl.traces.trace import Cycle, Trace

Pairs = Sequence[tuple[str, str]]

GOLFERS = (
    "Best paid golfers of the 2001 season. 1. Davis Love III (United States); 2. Vijay "
    "Singh (Fiji); 3. Phil Mickelson (United States); 4. David Toms (United States); "
    "5. Tiger Woods (United States)."
)
BARS = """Medals of the spring games
Athlete | Country | Medals
Ilva Renn | Torland | 4
Okko Brann | Maurea | 3
Ode Vell | Torland | 2
Petra Lund | Torland | 1"""
KEYED = """Athlete: Ilva Renn; Country: Torland
Athlete: Okko Brann; Country: Maurea
Athlete: Ode Vell; Country: Torland"""
RANKED = ("Who stands in the ranking?", "Renn, Brann, Vell, Lund.")
ORDER = (
    "In what order did they earn?",
    "Love III, Singh, Mickelson, Toms, Woods, in rising order.",
)
LISTED = ("How many golfers does the list name?", "The list names five golfers.")
FROM_US = "How many of the golfers come from the United States?"


def case(pairs: Pairs, evidence: str = "", number: int = 0) -> RewardCase:
    n = len(pairs)
    trace = Trace((), (), None, tuple(Cycle(*pair) for pair in pairs), None)
    silent = tuple(abstains(answer) for _, answer in pairs)
    unasked = (None,) * n
    signals = Signals(None, unasked, unasked, unasked, unasked, silent)
    return RewardCase(Rollout("group", number, "A claim.", evidence, trace), signals)


def scored(pairs: Pairs, evidence: str = "") -> RewardResult:
    (score,) = consistency([case(pairs, evidence)], RewardSettings())
    return score


def states(pairs: Pairs, evidence: str = "") -> list[str]:
    return [question.state for question in scored(pairs, evidence).questions]


RETOLD = {
    "two books, one author": [
        ("Which author wrote Nineteen Eighty-Four?", "Orwell wrote it; it came out in 1949."),
        ("Which author wrote Animal Farm?", "Orwell too; Animal Farm came out in 1945."),
        ("Did Orwell receive a Nobel Prize?", "No, two other awards are listed: Hugo, Prometheus."),
    ],
    "two hops in football": [
        ("Which player keeps goal at SD Eibar?", "Marko Dmitrovic is the goalkeeper of SD Eibar."),
        ("In which league does SD Eibar play?", "SD Eibar has played in La Liga since 2014."),
    ],
    "the wrong date": [
        ("In what year was the party reorganised by George Brown?", "He reorganised it in 1857."),
        (
            "Is July 1, 1867 mentioned in the document?",
            "No, 1857 is the year it has; July 1, 1867 it never mentions.",
        ),
    ],
    "the same date asked twice": [
        ("When was the party reorganised by George Brown?", "George Brown did so in 1857."),
        (
            "In what year was the party reorganised by George Brown?",
            "The year was 1857; July 1, 1867 is never mentioned.",
        ),
    ],
    "the monkey's range": [
        ("Where does the Tantalus monkey live?", "In central Africa: Cameroon, Ghana and Togo."),
        ("Where does the Vervet monkey live?", "I don't know where the Vervet monkey lives."),
        ("Does the Tantalus monkey live in Ethiopia?", "No, Ethiopia is not in its range."),
    ],
}


CLASHES: dict[str, Pairs] = {
    "years": [
        ("When was the Torbeck club founded?", "The Torbeck club was founded in 1857."),
        ("In what year was the Torbeck club founded?", "It was founded in 1867."),
    ],
    "years, another verb": [
        ("When was Torbeck College established?", "In 1857."),
        ("What year was Torbeck College founded?", "The document gives 1867, not 1857."),
    ],
    "days": [
        ("When did the Ilva bridge open?", "It opened on July 1, 1867."),
        ("On what date did the Ilva bridge open?", "On 4 July 1867."),
    ],
    "a year against a date": [
        ("When did the Ilva bridge open?", "In 1868."),
        ("On what date did the Ilva bridge open?", "On 4 July 1867."),
    ],
    "counts": [
        ("How many students does Torbeck College have?", "Torbeck College has 1,240 students."),
        ("What is the number of students that Torbeck College has?", "It has 980 students."),
    ],
    "counts in words": [
        ("How many towers does the Ilva bridge have?", "It has twenty-one towers."),
        ("According to the document, how many towers does the Ilva bridge have?", "Two dozen."),
    ],
    "measures": [
        ("How long is the Ilva bridge?", "The Ilva bridge is 420 metres long."),
        ("How long is the Ilva bridge according to the text?", "It measures 560 metres."),
    ],
    "money": [
        ("How much did the Ilva bridge cost?", "It cost $5 million."),
        ("How much did the Ilva bridge cost in total?", "The cost was $7.5 million."),
    ],
    "yes against no": [
        ("Was Ilva Renn born in Torbeck?", "Yes, she was born there."),
        ("Is it true that Ilva Renn was born in Torbeck?", "No, she was not."),
    ],
    "yes against a denied yes": [
        ("Was Ilva Renn born in Torbeck?", "Yes."),
        ("Is it true that Ilva Renn was not born in Torbeck?", "Yes, that is right."),
    ],
    "yes to a claim and to its falsehood": [
        ("Is it true that Ilva Renn was born in Torbeck?", "Yes."),
        ("Is it false that Ilva Renn was born in Torbeck?", "Yes."),
    ],
    "a year agreed to": [
        ("When was the Torbeck club founded?", "In 1857."),
        ("Was the Torbeck club founded in 1867?", "Yes, the document says so."),
    ],
    "two years agreed to": [
        ("Was the Torbeck club founded in 1857?", "Yes."),
        ("Was the Torbeck club founded in 1867?", "Yes."),
    ],
}  # fmt: skip


MISCOUNTS: dict[str, tuple[Pairs, str]] = {
    "too few listed": ([("Who won?", "Three golfers won: Tiger Woods and David Toms.")], ""),
    "too many listed": (
        [("Who won?", "Two of the golfers won: Tiger Woods, Vijay Singh and David Toms.")], "",
    ),
    "namely": ([("Who won?", "It names four winners, namely Ilva Renn and Okko Brann.")], ""),
    "too few named by another answer": (
        [(FROM_US, "Three golfers come from the United States."), ORDER], GOLFERS,
    ),
    "too many of a list that is named whole": (
        [("How many golfers are from Fiji?", "Two golfers are from Fiji."), ORDER], GOLFERS,
    ),
    "rows between bars": ([("How many athletes are from Torland?", "Two are."), RANKED], BARS),
    "too many rows between bars": (
        [("How many athletes are from Maurea?", "Two athletes are."), RANKED], BARS,
    ),
    "rows of a table": ([("How many athletes does the table list?", "Three."), RANKED], BARS),
    "rows with columns named": (
        [("How many athletes are from Torland?", "One athlete is from Torland."), RANKED], KEYED,
    ),
    "entries of the list": ([("How many golfers does the list name?", "Four."), ORDER], GOLFERS),
}  # fmt: skip


SAME = "How many towers does the Ilva bridge have?"
AGAIN = "According to the document, how many towers does the Ilva bridge have?"
HARMLESS: dict[str, Pairs] = {
    "two clubs": [
        ("When was Torbeck United founded?", "In 1857."),
        ("When was Lamland United founded?", "In 1867."),
    ],
    "open and closed": [
        ("When did the Ilva bridge open?", "In 1857."),
        ("When did the Ilva bridge close?", "In 1867."),
    ],
    "first and last": [
        ("When did the first train reach Torbeck?", "In 1857."),
        ("When did the last train reach Torbeck?", "In 1967."),
    ],
    "two years of earnings": [
        ("How much did Renn earn in 2001?", "Renn earned 5 million dollars."),
        ("How much did Renn earn in 2002?", "Renn earned 6 million dollars."),
    ],
    "who beat whom": [
        ("How many goals did Torbeck score against Lamland?", "Three goals."),
        ("How many goals did Lamland score against Torbeck?", "Two goals."),
    ],
    "ahead of": [
        ("Is Woods ahead of Singh?", "Yes, he is."), ("Is Singh ahead of Woods?", "No, he is not."),
    ],
    "active and passive": [
        ("Did Torbeck beat Lamland?", "Yes."), ("Was Torbeck beaten by Lamland?", "No."),
    ],
    "rounded": [(SAME, "It has 1.2 thousand towers."), (AGAIN, "It has 1,234 towers.")],
    "hedged": [(SAME, "It has about forty towers."), (AGAIN, "It has 38 towers.")],
    "at least": [(SAME, "It has at least 30 towers."), (AGAIN, "It has 38 towers.")],
    "a range": [(SAME, "It has 30-40 towers."), (AGAIN, "It has 50 towers.")],
    "denied": [(SAME, "It has 38 towers, not 40."), (AGAIN, "Not 40 but 38 towers.")],
    "the claim's number": [
        (SAME, "It has 38 towers."), (AGAIN, "The claim says 40, the document has 38 towers."),
    ],
    "a part of the game": [
        ("How many goals did Renn score?", "Two in the first half."),
        ("According to the text, how many goals did Renn score?", "Renn scored three goals."),
    ],
    "two parts of the game": [
        ("How many goals did Renn score?", "She scored two goals early and one goal late."),
        ("According to the text, how many goals did Renn score?", "Renn scored three goals."),
    ],
    "a census": [
        ("How many people live in Torbeck?", "5,200 people in 2001."),
        ("According to the text, how many people live in Torbeck?", "4,810 people in 2011."),
    ],
    "two places": [
        ("When was the Torbeck song released?", "It was released in Torland in 1990."),
        ("In what year was the Torbeck song released?", "It came to Maurea in 1991."),
    ],
    "two numbers": [(SAME, "It has 38 towers and 4 gates."), (AGAIN, "It has 38 towers.")],
    "a part of a whole": [(SAME, "Three of the five towers."), (AGAIN, "Three towers.")],
    "words and digits": [(SAME, "Twenty-one."), (AGAIN, "It has 21 towers.")],
    "other units": [
        ("How long is the Ilva bridge?", "It is 2 kilometres long."),
        ("How long is the Ilva bridge in the text?", "It is 2,000 metres long."),
    ],
    "a date in a year": [
        ("When did the Ilva bridge open?", "On July 1, 1867."),
        ("In what year did the Ilva bridge open?", "In 1867."),
    ],
    "until a year": [
        ("When did the Ilva bridge open?", "It was closed until 1867."),
        ("In what year did the Ilva bridge open?", "In 1868."),
    ],
    "an abstention": [
        ("When did the Ilva bridge open?", "In 1867."),
        ("In what year did the Ilva bridge open?", "I don't know."),
    ],
    "two things called it": [
        ("When was it founded by Renn?", "It was founded in 1857."),
        ("In what year was it founded by Renn?", "It was founded in 1867."),
    ],
    "from and to": [
        ("How many towns does the road from Torbeck cross?", "It crosses five towns."),
        ("How many towns does the road to Torbeck cross?", "Three towns."),
    ],
    "a denied question": [
        ("Was Ilva Renn not born in Torbeck?", "No, she was not."),
        ("Was Ilva Renn born in Torbeck?", "Yes."),
    ],
    "no as a number": [
        ("Did Ilva Renn win medals?", "No golfer won more."), ("Did Ilva Renn win medals?", "Yes."),
    ],
    "two wins": [
        ("Did Torbeck win the cup in 1857?", "Yes."), ("Did Torbeck win the cup in 1867?", "Yes."),
    ],
    "two wins, one asked for": [
        ("When did Torbeck win the cup?", "In 1857."),
        ("Did Torbeck win the cup in 1867?", "Yes, it won again."),
    ],
    "two players": [
        ("Who plays for Torbeck United?", "Ilva Renn plays there."),
        ("Which player plays for Torbeck United?", "Okko Brann does."),
    ],
    "a full and a short name": [
        ("Who wrote The Drowned Fair?", "Ilva Renn wrote it."),
        ("Who was The Drowned Fair written by?", "By Renn."),
    ],
    "a yes with an older year": [
        ("Did Torbeck buy the mill in 1867?", "Yes, it bought the mill, which was built in 1840."),
    ],
    "two questions, two things founded": [
        ("What is said of Torbeck and its mill?", "The Torbeck mill was founded in 1857."),
        ("What is said of Torbeck and its new mill?", "The Torbeck mill was founded in 1867."),
    ],
    "a list that is whole": [("Who won?", "Three won: Tiger Woods, David Toms, and Vijay Singh.")],
    "a list that goes on": [("Who won?", "Five golfers won: Woods, Toms and others.")],
    "a list with examples": [("Who won?", "Five golfers won, including Woods and Toms.")],
    "places with countries": [("Where?", "It names two cities: Paris, France, and Rome, Italy.")],
    "names with and": [("Who?", "Two duos: Simon and Garfunkel and Sonny and Cher.")],
    "a span of time": [("How long?", "The war lasted three years: Torbeck and Lamland bled.")],
    "times": [("How often?", "Torbeck won three times: against Lamland and against Vonmora.")],
    "a score": [("What was it?", "The final score was 3 to 2: Renn and Brann scored.")],
    "a numbered part": [("What is in it?", "Chapter 3 covers two wars: the Boer War and another.")],
    "twins": [("Who?", "She had three sons: the twins and Okko.")],
    "a clause after the colon": [("Who?", "Three won: this is what the text says, and no more.")],
}  # fmt: skip


HONEST: dict[str, tuple[Pairs, str]] = {
    "the right count": ([LISTED, (FROM_US, "Four golfers do."), ORDER], GOLFERS),
    "a condition more": (
        [("How many golfers from the United States won a major?", "One golfer."), ORDER], GOLFERS,
    ),
    "a kind of rows": (
        [("How many older athletes are from Torland?", "One athlete is from Torland."), RANKED],
        BARS,
    ),
    "what no row is": ([("How many countries does the table list?", "Two."), RANKED], BARS),
    "the first rows": (
        [("How many of the top three golfers come from the United States?", "Three."), ORDER],
        GOLFERS,
    ),
    "nobody names the fourth": (
        [(FROM_US, "Three of them are: David Toms, Phil Mickelson and Tiger Woods.")], GOLFERS,
    ),
    "no such value": ([("How many golfers are from Peru?", "None of the five."), ORDER], GOLFERS),
    "two lists": (
        [("How many athletes are from Torland?", "Two are."), RANKED], f"{BARS}\n\n{BARS}",
    ),
    "prose": (
        [("How many writers are English?", "One is English."), ("Who wrote?", "Orwell, Huxley.")],
        "George Orwell (English) wrote it. Aldous Huxley (English) taught him.",
    ),
    "the value stands elsewhere too": (
        [("How many golfers are from Fiji?", "Two golfers are from Fiji."), ORDER],
        f"{GOLFERS} Another golfer from Fiji came sixth.",
    ),
    "one sentence names both": (
        [("Who founded the Ilva mill?", "Okko Brann."), ("Who was the Ilva mill founded by?",
          "By Ode Vell.")], "The Ilva mill was founded by Okko Brann and Ode Vell.",
    ),
}  # fmt: skip
