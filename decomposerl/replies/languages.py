"""Labels and short answers in the languages of claims, as their English words.

A model that verifies a German claim ends with "Urteil: Widerlegt (Refuted)": the label and the
words right behind it are read as the English ones; anything longer is text.
"""

from decomposerl.replies.wordings import Wordings

LANGUAGES = Wordings("languages")
QUESTION, ANSWER = LANGUAGES.text("QUESTION"), LANGUAGES.text("ANSWER")
"""What questions and answers are labelled with."""
_LABELS = ("verdict", "answer")
_WORDS = ("refuted", "supported", "unknown", "yes", "true", "false", "no")


def in_english(text: str) -> str:
    """``text``, in lower case, with a label and a short answer at its start in English.

    A text in another alphabet alone may stand before an English word in brackets.
    """
    match = LANGUAGES["opening"].match(text.removeprefix("**"))
    if match is None or match.start("rest") == 0:
        return text
    label = next((f"{name}: " for name in _LABELS if match[f"{name}_label"]), "")
    word = next((name for name in _WORDS if match[name]), "")
    if match["claim"]:
        said = f"the claim is {word}{match['rest']}" if word else text[match.start("claim") :]
        return f"{label}{said}"
    aside = LANGUAGES["aside"].fullmatch(match["rest"]) if label and not word else None
    return f"{label}{aside['word']}" if aside else f"{label}{word}{match['rest']}"
