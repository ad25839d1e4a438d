"""Named entities by rules, on a real spaCy pipeline without a trained model.

Gives each claim's distinct normalised surface forms (paper, appendix "NER Grounding"). The
pipeline is spaCy's blank English one with one component, which joins a token ``Matcher`` for
dates, quantities, symbols and terms (``patterns``), runs of capitalised words
(``decomposerl.text.names``) and quoted titles. The longest span wins. A text without any
capital letter gets runs of two or more plain words in place of names.
"""

import re
from collections.abc import Callable, Sequence
from functools import cached_property
from importlib.metadata import version
from typing import Any

from decomposerl.extras import require
from decomposerl.text.names import Word, guessed_runs, name_runs
from decomposerl.text.words import CARDINALS, MONTHS, words_of

Pattern = list[dict[str, Any]]

_MONTHS = [*MONTHS, *words_of("jan feb mar apr jun jul aug sep sept oct nov dec")]
_NUMBER_WORDS = [
    *(word for word, value in CARDINALS.items() if value > 1),
    *words_of("hundred thousand million billion trillion dozen"),
]
_ORDINALS = words_of("first second third fourth fifth sixth seventh eighth ninth tenth")
_UNITS = words_of(
    "percent % year years month months week weeks day days hour hours minutes seconds century "
    "centuries decades km kilometers kilometres miles meters metres m cm mm feet inches kg grams "
    "mg ml pounds tons acres hectares dollars euros people patients points times votes goals "
    "episodes seasons films albums copies members million billion thousand trillion"
)
_RUNS = range(1, 13)  # words in a row; the operator "+" would match every stretch of any run
_NUMBER = r"^[$€£~<>≤≥]?\d[\d.,:/]*(?:st|nd|rd|th|s|%|bn|m|k)?$"
# Letters and digits in one word (TP53, CD4+, p53, IL-6), or capitals inside one (mRNA, GnRH).
_GENE = r"^(?=\w*\d)(?=\w*[A-Za-z])[A-Za-z0-9]+(?:[-/+][A-Za-z0-9]+)*\+?$|^[a-z]{1,3}[A-Z]{2,}\w*$"
_NOT_GENE = r"^\d+(?:st|nd|rd|th|s|m|k|bn|am|pm)$"
_HYPHENATED = r"^[A-Za-zα-ω]+-\d+[a-z]?$|^[α-ω]-\w+$|^[A-Z]{2,}-\w+$"

_SUFFIXES = words_of(
    "itis osis oses oma omas emia aemia pathy pathies ectomy ectomies plasty scopy scopies graphy "
    "cyte cytes cytic kine kines lysis cillin statin statins mab nib azole mycin penia trophy uria "
    "blast blasts phage phages sclerosis toxin toxins peptide peptides globin plasm phosphate "
    "ylation yltransferase glycemia glycaemia lipid lipids therapy plegia tropin nephrine caine "
    "genesis coccus bacter"
)
_TERMS = words_of(
    "cell cells gene genes protein proteins mutation mutations receptor receptors enzyme antibody "
    "antibodies antigen antigens tumor tumors tumour tumours cancer cancers carcinoma leukemia "
    "diabetes obesity asthma stroke dementia malaria tuberculosis hiv aids pneumonia sepsis "
    "infection infections disease diseases disorder disorders syndrome syndromes pregnancy surgery "
    "transplantation chemotherapy radiotherapy vaccine vaccines vaccination drug drugs treatment "
    "treatments trial trials patient patients mortality survival incidence prevalence risk blood "
    "plasma serum liver kidney kidneys lung lungs heart brain bone bones muscle skin breast "
    "prostate colon pancreas spleen marrow artery arteries vein veins hypertension cholesterol "
    "glucose insulin estrogen testosterone cortisol vitamin calcium sodium iron zinc dna rna mrna "
    "microrna chromatin histone chromosome genome mitochondria mitochondrial neuron neurons "
    "synapse synapses axon axons cortex hippocampus embryo embryos oocyte stem macrophages "
    "lymphocytes neutrophils monocytes platelets inflammation apoptosis autophagy metastasis "
    "metastases fibrosis lesion lesions fracture fractures injury pain depression anxiety "
    "schizophrenia autism smoking alcohol diet placebo dose biopsy ultrasound mri ct symptoms "
    "infants children adolescents adults women men mice rats mouse zebrafish yeast parasites "
    "parasite bacteria virus viruses pathogen pathogens transcription expression knee hip shoulder "
    "spine spinal cord cervical thoracic lumbar pelvic renal hepatic cardiac coronary pulmonary "
    "gastric colorectal ovarian myocardial infarction ischemia vascular arterial venous "
    "laparoscopic resection graft catheter stent anesthesia analgesia ventilation intubation "
    "epilepsy seizures migraine lymph nodes thyroid bladder uterus cesarean neonatal pediatric "
    "fatty acids acid lipid prognosis diagnosis relapse recurrence supplementation microbiome gut "
    "biomarkers biomarker immune immunity antibiotic antibiotics opioid opioids coronavirus rabies "
    "measles influenza flu ebola signaling phosphorylation methylation activation inhibition "
    "differentiation proliferation kinase kinases protease proteases polymerase phosphatase "
    "transferase synthase oxidase reductase helicase ligase lipase caspase caspases telomerase "
    "deacetylase collagen actin leptin ghrelin adiponectin albumin globulin fibronectin keratin "
    "myosin tubulin integrin integrins cadherin ubiquitin thrombin heparin ferritin prolactin "
    "oxytocin serotonin melatonin interleukin chemokine chemokines aspirin metformin rapamycin "
    "dopamine penicillin"
)


def patterns() -> dict[str, list[Pattern]]:
    """Label to token patterns. Quantities and dates come whole; terms are single words."""
    number: dict[str, Any] = {"TEXT": {"REGEX": _NUMBER}}
    word: dict[str, Any] = {"LOWER": {"IN": _NUMBER_WORDS}}
    month = {"LOWER": {"IN": _MONTHS}, "IS_TITLE": True}
    unit = {"LOWER": {"IN": _UNITS}}
    comma = {"TEXT": ",", "OP": "?"}
    link = {"TEXT": {"IN": ["-", "–", "to", "and"]}}
    return {
        "DATE": [
            [month, number, comma, {"TEXT": {"REGEX": r"^\d{4}$"}}],
            [number, month, comma, {"TEXT": {"REGEX": r"^\d{4}$"}}],
            [month, number],
            [number, month],
            [{"TEXT": {"REGEX": r"^(?:\d{3,4}s|1\d{3}|20\d{2})$"}}],
        ],
        "QUANTITY": [
            [{"TEXT": {"IN": ["$", "€", "£"]}}, number, {**word, "OP": "?"}],
            [number, {**word, "OP": "?"}, {**unit, "OP": "?"}],
            [number, {"TEXT": "-", "OP": "?"}, unit],
            [number, link, number, {**unit, "OP": "?"}],
            *([*[word] * run, {"TEXT": "-", "OP": "?"}, {**unit, "OP": "?"}] for run in _RUNS),
            [{"LOWER": {"IN": _ORDINALS}}],
        ],
        "SYMBOL": [
            [{"TEXT": {"REGEX": f"(?!{_NOT_GENE})(?:{_GENE})"}}],
            [{"TEXT": {"REGEX": _HYPHENATED}}],
        ],
        "TERM": [
            [{"LOWER": {"REGEX": rf"^\w{{3,}}(?:{'|'.join(_SUFFIXES)})$"}}],
            *([{"LOWER": {"IN": _TERMS}}] * run for run in _RUNS),
        ],
    }


RULES = 2
"""Raised whenever the rules change, so that stored results are not mixed."""
_COMPONENT = "claim_entities"
_EDGES = "\"'“”‘’«»()[]{}.,;:!?*_ "
_DETERMINER = re.compile(r"^(?:the|a|an|this|that|these|those|its|his|her|their|our)\s+")
_QUOTED = re.compile(r"[\"“]([^\"“”]{2,60})[\"”]")
_MARKS = re.compile(r"([^\w\s]{32}|_{32})(?=[^\w\s]|_)")
"""What is cut, as spaCy's tokenizer is quadratic in runs of marks."""
_POSSESSIVE = re.compile(r"['’]s?$")


class RuleEntities:
    """An ``EntityRecogniser`` made of rules; spaCy is loaded at the first text."""

    @property
    def engine(self) -> str:
        """Rule set and spaCy's version, whose tokenizer decides what a word is.

        Raises:
            EngineMissing: spaCy is not installed.
        """
        require("spacy")
        major, minor, *_ = version("spacy").split(".")
        return f"rule_entities:{RULES}:spacy-{major}.{minor}"

    def entities(self, texts: Sequence[str]) -> list[list[str]]:
        """Per text its distinct normalised surface forms, in order of first appearance.

        Raises:
            EngineMissing: spaCy is not installed.
        """
        if not texts:
            return []
        most = self._pipeline.max_length  # spaCy refuses longer texts
        parts = (_MARKS.sub(r"\1 ", text)[:most] for text in texts)
        docs = self._pipeline.pipe(parts, batch_size=256)
        return [distinct_forms([span.text for span in doc.ents]) for doc in docs]

    @cached_property
    def _pipeline(self) -> Any:  # noqa: ANN401 - spaCy's types are not imported here
        name = self.engine  # raises with the install command where spaCy is absent
        import spacy
        from spacy.language import Language

        if not Language.has_factory(_COMPONENT):
            Language.factory(_COMPONENT, func=_make_component)
        pipeline = spacy.blank("en", meta={"name": name.replace(":", "_")})
        pipeline.add_pipe(_COMPONENT)
        return pipeline


def normalise(surface: str) -> str:
    """Case-folded, white space collapsed, without determiner, possessive and edge marks."""
    text = " ".join(surface.split()).strip(_EDGES).casefold()
    text = _DETERMINER.sub("", text)
    return _POSSESSIVE.sub("", text).strip(_EDGES)


def distinct_forms(surfaces: Sequence[str]) -> list[str]:
    """The normalised forms of ``surfaces`` without empty ones, each once, in order."""
    return [form for form in dict.fromkeys(normalise(surface) for surface in surfaces) if form]


def _make_component(nlp: Any, name: str) -> Callable[[Any], Any]:  # noqa: ANN401 - spaCy's factory signature
    """A component for ``nlp``; ``name`` is the one it has in the pipeline."""
    from spacy.matcher import Matcher
    from spacy.tokens import Span
    from spacy.util import filter_spans

    matcher = Matcher(nlp.vocab)
    for label, known in patterns().items():
        matcher.add(label, known)

    def component(doc: Any) -> Any:  # noqa: ANN401 - a spaCy Doc in and out
        words = [Word(token.text, bool(token.whitespace_)) for token in doc]
        spans = matcher(doc, as_spans=True)
        for label, runs in (("NAME", name_runs(words)), ("GUESS", guessed_runs(words))):
            spans += [Span(doc, start, end, label=label) for start, end in runs]
        for quoted in _QUOTED.finditer(doc.text):
            span = doc.char_span(*quoted.span(1), label="TITLE", alignment_mode="contract")
            spans += [span] if span is not None else []
        doc.ents = filter_spans(spans)
        return doc

    component.__name__ = name
    return component
