"""Token patterns of entities that are not capitalised names, for spaCy's ``Matcher``."""

from typing import Any

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
    word = {"LOWER": {"IN": _NUMBER_WORDS}}
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
            [{**word, "OP": "+"}, {"TEXT": "-", "OP": "?"}, {**unit, "OP": "?"}],
            [{"LOWER": {"IN": _ORDINALS}}],
        ],
        "SYMBOL": [
            [{"TEXT": {"REGEX": f"(?!{_NOT_GENE})(?:{_GENE})"}}],
            [{"TEXT": {"REGEX": _HYPHENATED}}],
        ],
        "TERM": [
            [{"LOWER": {"REGEX": rf"^\w{{3,}}(?:{'|'.join(_SUFFIXES)})$"}}],
            [{"LOWER": {"IN": _TERMS}, "OP": "+"}],
        ],
    }
