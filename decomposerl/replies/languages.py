"""Labels and short answers in the languages of claims, as their English words.

A model that verifies a German claim ends with "Urteil: Widerlegt (Refuted)": the label and the
words right behind it are read as the English ones; anything longer is text.
"""

import re

QUESTION = (
    r"frage|pregunta|question|domanda|pergunta|vraag|pytanie|вопрос|fråga|soru|问题|問題|質問|질문"
)
"""What questions are labelled with."""
DONT_KNOW = (
    r"(?:ich\s)?weiß\s(?:ich\s|es\s|das\s)*nicht|(?:yo\s)?no\s(?:lo\s)?s[eé]"
    r"|je\s(?:ne\s)?(?:le\s)?sais\spas|non\s(?:lo\s)?so|(?:eu\s)?não\ssei|ik\sweet\s(?:het|dat)\sniet|nie\swiem|(?:я\s)?не\sзнаю"
    r"|(?:jag\s)?vet\s(?:jag\s)?inte|bilmiyorum|tôi\skhông\sbiết|我?不(?:知道|清楚)"
    r"|(?:わか|分か|知)りません|모르겠습니다|모릅니다|모른다"
)
"""Not knowing, as a whole answer."""
_LABELS = {
    "verdict": r"verdict|urteil|fazit|bewertung|einschätzung|ergebnis|schlussfolgerung|veredicto"
    r"|veredito|dictamen|conclusi[óo]n|resultado|verdetto|conclusione|résultat|jugement|conclusão|oordeel"
    r"|uitspraak|conclusie|werdykt|wniosek|вердикт|вывод|заключение|verdikt|omdöme|slutsats|karar"
    r"|sonuç|phán\squyết|kết\sluận|结论|結論|判定|判断|判决|判決|裁决|最终结论|최종\s?판정|판정|결론",
    "answer": r"answer|antwort|respuesta|réponse|risposta|resposta|antwoord|odpowiedź|ответ"
    r"|svar|cevap|答案|回答|答え|답변|답",
}
_SUPPORTED = (
    r"(?:gestützt|belegt|unterstützt|bestätigt|apoyad|respaldad|confirmad|sustentad|étayé|soutenu"
    r"|confirmé|supportat|sostenut|confermat|suportad|apoiad|ondersteund|bevestigd|onderbouwd"
    r"|potwierdzon|popart|подтвержд[её]н|подтвержда|stöds|bekräftat)(?:[aoes]|ется|но)?"
    r"|desteklen(?:iyor|mektedir)|đúng"
)
_CLAIM = re.compile(
    r"(?:die|der|la|l'|il|el|de|het|o|a|该|此|这一|这个|この)?\s?(?:behauptung|aussage|afirmación"
    r"|declaración|affirmation|déclaration|affermazione|afirmação|bewering|twierdzenie|утверждение"
    r"|主张|说法|陈述|声明|主張|주장)(?:\s?(?:ist|wird|es|está|est|è|é|is|jest|被|是|は|은|이))?\s?"
    r"(?:durch\sdie\s(?:belege|beweise)\s)?"
)
_NOT = r"nicht|kein|no\s(?:está|es)|no|non|n'est\spas|pas|não|niet|nie|не|inte"
_WORDS = {
    "refuted": rf"(?:{_NOT})\s(?:{_SUPPORTED})|widerlegt|refutad[oa]|desmentid[oa]|réfutée?"
    r"|contredite?|confutat[oa]|smentit[oa]|weerlegd|obalon[eay]|опровергнуто?|опровергается"
    r"|motbevisat|vederlagt|çürütüldü|(?:被)?(?:反驳|駁斥|驳斥|反駁|驳倒|推翻)|不支持|不成立|反証"
    r"|反証された|支持されない|반박됨|반박|지지되지\s않음",
    "supported": rf"{_SUPPORTED}|(?:被|得到)?(?:支持|证实|證實)|成立|支持される|지지됨|지지",
    "unknown": r"unbekannt|unklar|ungewiss|unentschieden|nicht\s(?:bekannt|bestimmbar|angegeben"
    r"|genügend\s(?:informationen|belege))|desconocid[oa]|no\sse\s(?:sabe|indica)|inconnue?"
    r"|sconosciut[oa]|non\s(?:noto|specificato)|desconhecid[oa]|onbekend|nieznan[aey]|неизвестно"
    r"|okänt|bilinmiyor|未知|不明|不详|不知道|未提及|无法确定|信息不足|알\s수\s없음|불명",
    "yes": r"ja|sí|si|sì|oui|sim|tak|да|evet|是的?|对|はい|예|네",
    "true": r"wahr|richtig|zutreffend|verdader[oa]|ciert[oa]|vraie?|ver[oa]|verdadeir[oa]|waar"
    r"|prawda|верно|правда|sant|doğru|真|正确|属实|正しい|참",
    "false": r"falsch|unwahr|unzutreffend|fals[oa]|faux|fausse|onwaar|fałsz|неверно|ложь|falskt"
    r"|yanlış|假|错误|不正确|不属实|誤り|거짓",
    "no": r"nein|non|não|nee|nie|нет|nej|hayır|否|不|不是|いいえ|아니요|아니오",
}
_PATTERN = re.compile(
    r"(?:(?:"
    + "|".join(rf"(?P<{english}_label>{words})" for english, words in _LABELS.items())
    + r")\s?[:=]\s*)?"
    + rf"(?P<claim>{_CLAIM.pattern})?(?:(?:"
    + "|".join(rf"(?P<{english}>{words})" for english, words in _WORDS.items())
    + r")(?:该|这一|此)?(?:主张|说法|陈述|声明)?(?![^\W_]))?(?P<rest>.*)",
    re.DOTALL,
)
_ASIDE = re.compile(r"[^()\[\]]{1,40}\s?[(\[](supported|refuted)[)\]]\W*")


ANSWER = _LABELS["answer"]
"""What answers are labelled with."""
UNKNOWN = _WORDS["unknown"]


def in_english(text: str) -> str:
    """``text``, in lower case, with a label and a short answer at its start in English.

    A text in another alphabet alone may stand before an English word in brackets.
    """
    match = _PATTERN.match(text.removeprefix("**"))
    if match is None or match.start("rest") == 0:
        return text
    label = next((f"{name}: " for name in _LABELS if match[f"{name}_label"]), "")
    word = next((name for name in _WORDS if match[name]), "")
    rest = match["rest"]
    if match["claim"]:
        if not word:
            return f"{label}{text[match.start('claim') :]}"
        return f"{label}the claim is {word}{rest}"
    aside = _ASIDE.fullmatch(rest) if label and not word else None
    return f"{label}{aside[1] if aside else word}{rest if not aside else ''}"
