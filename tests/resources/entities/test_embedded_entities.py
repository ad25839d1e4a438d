"""Rule entities: what counts as a name, a number, a term, and in which form."""

from hypothesis import given
from hypothesis import strategies as st

from resources.entities.rule_engine import RuleEntities, normalise
from strategies import law

ENGINE = RuleEntities()


ENTITIES = {
    "Maria Keller was born in Oslo.": {"maria keller", "oslo"},
    "The treaty was signed on 4 March 1921 by Alan Reed.": {"4 march 1921", "alan reed"},
    "Profits rose by 12.5% to $3 million.": {"12.5%", "$3 million"},
    'The song "Blue Hour" reached number two.': {"blue hour", "two"},
    "TP53 loss raises IL-6 in breast cancer.": {"tp53", "il-6", "breast cancer"},
    "Smith's Bridge of the North fell.": {"smith", "bridge of the north"},
    # Numbers and runs of plain words stand in for names where nothing is capitalised.
    "the last time the cleveland browns won a game was 1994": {"cleveland browns", "1994"},
}
NONE = [
    "The weather was pleasant for most of the week.",
    "Many people enjoy long walks in the evening.",
    "However, nobody knew what had really happened.",
    "Walking is often better than running.",
    "",
    "  ?!  ",
]


def test_plain_entities_are_found():
    """Names, dates, amounts, titles, symbols and terms are found in their normal form.

    A capital at the start of a sentence proves nothing.
    """
    found = dict(zip(ENTITIES, ENGINE.entities([*ENTITIES]), strict=True))
    assert {} == {claim: forms for claim, forms in found.items() if ENTITIES[claim] - set(forms)}
    assert [[]] * len(NONE) == ENGINE.entities(NONE)


def test_forms_are_distinct_normal_and_in_order():
    """One surface form in two spellings counts once, at its first place.

    Determiners, possessives, case and spare white space do not make another entity.
    """
    found = ENGINE.entities(["Anna Berg met the Nile Club and ANNA BERG left Nile Club in 1990."])
    assert ["anna berg", "nile club", "1990"] == found[0]
    assert "red river" == normalise(" The  Red River's ")


@law(50)
@given(texts=st.lists(st.text(max_size=40), max_size=4))
def test_any_text_is_answered(texts: list[str]):
    """Any text gets distinct, non-empty, normal forms, the same ones every time and alone."""
    found = ENGINE.entities(texts)
    assert len(texts) == len(found)
    assert found == [ENGINE.entities([text])[0] for text in texts]
    assert all(len(set(forms)) == len(forms) and all(forms) for forms in found)


def test_the_engine_names_rules_and_spacy():
    """Stored results are kept apart by rule set and tokenizer version."""
    assert ENGINE.engine.startswith("rule_entities:2:spacy-3.")
