"""Common word families: words that state the same fact in another form (write, author)."""

from decomposerl.text.words import stem

_FAMILIES = (
    "write wrote written writer author authored novelist novel essayist book penned pen",
    "win won winner award awarded receive received recipient honour honours honor laureate prize",
    "direct directed director film movie",
    "found founded founder establish established set registered began begin begun started start",
    "locate located lie lies situated based found",
    "marry married wife husband spouse",
    "die died death dead succumbed killed lost",
    "born birth raised grew",
    "play plays played player footballer footbal goalkeep",
    "build built constructed erected put",
    "buy bought acquired acquire purchased purchase take took taken",
    "lead led head headed leader leadership chaired presided captain",
    "make made produce produced manufacture manufactured turn create created",
    "give gave given donated paid pay granted",
    "discover discovered found isolated identified detected",
    "say said stated claimed told reported",
    "cause causes caused lead leads led due because",
    "increase increased rise rose risen grew growth grow higher",
    "decrease decreased fall fell fallen drop dropped decline declined lower reduce reduced",
    "home house houses homes",
    "work worked job employed employ earned career living",
    "study studied degree graduated alumnus educated",
    "name named called known",
    "range native habitat live lives found",
    "nation country land",
    "us usa american america",
)
FAMILY = {
    stem(word): number
    for number, words in reversed(tuple(enumerate(_FAMILIES)))
    for word in words.split()
}
"""Stem to the number of its family; a stem of several belongs to the first."""
