"""Where the files of every training corpus and test set are, one ``Access`` a corpus.

Each address names the public page or repository that it was read from (``checked_in``). Files in
Git repositories are pinned by commit. Sizes and checksums are those that a repository's own
objects or a named publication state; any other checksum is recorded at the first fetch and held
from then on.
"""

from collections.abc import Mapping

from decomposerl.claims.benchmarks import coverbench
from decomposerl.claims.catalogue import BENCHMARKS, SOURCES
from decomposerl.claims.downloads import Access, Download, git_files
from decomposerl.claims.source import Benchmark, Source, repository_page
from decomposerl.claims.sources import llm_aggrefact

_GITHUB = "https://github.com"
_FEVER_BUCKET = "s3-eu-west-1.amazonaws.com"
_DATASETS = f"{_GITHUB}/huggingface/datasets/blob/040102f100964a33fd334e2695f1c493fa6b92db/datasets"
_HOVER = "hover-nlp/hover@39b84697f196308f398a251a7aea9b82ae0f0562"
_FEVEROUS = "Raldir/FEVEROUS@32b68ce4e33c53f34ae2e6d88b51cd073ab85ab6"
_BASELINE = "sheffieldnlp/naacl2018-fever@72abdead388e100b656600a2ff5223b642aabf4d"
_COVERBENCH_USER = (
    "KarimSharaf191/should-you-pay-the-extra-tokens@153de33e3298c1bd3ac95fc71d67611b0116c251"
)
_CLAIMDECOMP = "jifan-chen/subquestions-for-fact-checking@fa59dcca483b5430e7c4606185ad0c6dcc73af67"
_GIT = git_files("""
dependentsign/EX-FEVER@ec059bf32ce981aa66830083c34377ad44346b4d
data > ex_fever
c1aa3074cec2ecb01e83dc7053840b85f9427fc3 train.csv
b24dc16eded813b7563c8ffde33bd61d1b9c18fe dev.csv
c318b587e9e49fb199b5ceecc9b843b0f5107561 test.csv 2916393
e8ae85236109df23de20102881080a955e148087 mini_test.csv 483877
teacherpeterpan/ProgramFC@5957016c1556dc5a2a6ea92c7b1ab68d289f8911
datasets/FEVEROUS/claims > feverous_s
1cd86a72a074055a13513efc05725aec83a8445b train.json
af0ed1315a9ff7a9cb22830e2cc87dfaaf1a7095 dev.json 2000571
hover-nlp/hover@39b84697f196308f398a251a7aea9b82ae0f0562
data/hover > hover
49a36d7eb2f319329264b546cb687f54b8f1990f hover_train_release_v1.1.json 9205582
4ca8f5f75b4d00637bcbdc696b19890ca0d51dd1 hover_dev_release_v1.1.json 2153439
0f64895027c758bac60fbd1017d224e3db14a8b9 hover_test_release_v1.1.json 898814
google-research/fool-me-twice@d9db753e5acf91c0d9bf543db327ab655661eb94
dataset > foolmetwice
c80ecae567fdef0b2e58490842a0a221d976ea65 train.jsonl
27a00a0ad0d54adc4f0b11d3f2330ec3c5c10704 dev.jsonl 3165385
27fc8e5127f6ecbee75e78872c7f7c35deb35f88 test.jsonl 3767443
mubasharaak/PubHealthTab@c771d73b9197f85be9fbe727860e9d1348df7544
data > pubhealthtab
34f50856c6845d6c63bdd3b579b3ccbddcca29ed pubhealthtab_trainset.jsonl
1d5349f8e33ad158c778c32c0655adc97adfae36 pubhealthtab_evalset.jsonl 711015
XinyuanLu00/SciTab@217cfbd71ebf39ba26a0938f0d87a9fce560e0fe
dataset > scitab
8527241b039422c03d96929d09409e1d64afec8d sci_tab.json 2292807
ryokamoi/wice@ddeb6c183665e2a20c5f03c5aa07f03888b9870f
data/entailment_retrieval/claim > wice/claim
d1dba6f6cd6f24ea929f46c7ed1a176c6e0d63c1 train.jsonl
7a0add2baa9c9b0eadbf4ad8940e2f5676e56166 dev.jsonl 3490479
f601848e944e55b4c580b381e1d0db5feb52839e test.jsonl 3624529
data/non_supported_tokens > wice/non_supported_tokens
befc307692d3cd55cae2705e8e65389f9aa2047c train.jsonl 3135348
31eb6a06a5044625627987b6277161a4f8a6a105 dev.jsonl 1265080
pubmedqa/pubmedqa@1cbae8e92f72f20c8d3747cbb3bf5bc53554d997
data > pubmedqa
38db7750761c78950ed32303e7545bdaa513390c ori_pqal.json 2584787
825bf8f262c3cca0e3bd1c6f38eecf5e581b0659 test_ground_truth.json 11414
TalSchuster/FeverSymmetric@fa25d17e73ea0694edc78133ec654b9f32f6db73
symmetric_v0.2 > fever_symmetric
07807ade63e21f45e43542eb6260c5ffd7befc32 fever_symmetric_dev.jsonl 466743
""")
"""Files of Git repositories by their folder in the corpora folder."""


def _hover_pages(target: str) -> Download:
    return Download(
        url="https://nlp.cs.unc.edu/data/hover/wiki_wo_links.db",
        files=(("", target),),
        checked_in=repository_page(_HOVER, "download_data.sh"),
        about="about 2.2 GB",
        pages=True,
    )


def _fever(name: str, size: int, sha256: str) -> Download:
    return Download(
        url=f"https://fever.ai/download/fever/{name}",
        files=(("", f"fever/{name}"),),
        checked_in=f"{_DATASETS}/fever/dataset_infos.json",
        size=size,
        sha256=sha256,
        redirects=(_FEVER_BUCKET,),
    )


def _feverous(name: str) -> Download:
    return Download(
        url=f"https://fever.ai/download/feverous/{name}",
        files=(("", f"feverous/{name}"),),
        checked_in=repository_page(_FEVEROUS, "download_data.sh"),
        redirects=(_FEVER_BUCKET,),
    )


def _claimdecomp(split: str) -> Download:
    return Download(
        url=f"https://www.cs.utexas.edu/~jfchen/claim-decomp/{split}.jsonl",
        files=(("", f"claimdecomp/{split}.jsonl"),),
        checked_in=repository_page(_CLAIMDECOMP, "scripts/download_data.sh"),
    )


_ACCESSES = (
    Access(
        name="ex_fever",
        how="direct",
        downloads=(
            *_GIT["ex_fever"],
            _hover_pages("ex_fever/pages.db"),  # its README names HoVer's database
        ),
    ),
    Access(
        name="llm_aggrefact",
        how="hub",
        hub=llm_aggrefact.SOURCE.hub,
        checked_in=llm_aggrefact.SOURCE.forms[0].checked_in[0],
    ),
    Access(
        name="feverous",
        how="direct",
        downloads=(
            _feverous("feverous_train_challenges.jsonl"),
            _feverous("feverous_dev_challenges.jsonl"),
            *_GIT["feverous_s"],
            Download(
                url="https://fever.ai/download/feverous/feverous-wiki-pages-db.zip",
                files=(("feverous_wikiv1.db", "feverous/feverous_wikiv1.db"),),
                checked_in=repository_page(_FEVEROUS, "download_data.sh"),
                about="about 10.4 GB, unpacked 53.5 GB",
                unpacked=53_500_000_000,
                redirects=(_FEVER_BUCKET,),
                pages=True,
            ),
        ),
    ),
    Access(
        name="hover",
        how="direct",
        downloads=(
            *_GIT["hover"],
            _hover_pages("hover/wiki_wo_links.db"),
        ),
        other=(
            ("hover/hover_dev_gold_paragraphs.jsonl", "paragraphs of some dev claims; pages do"),
        ),
    ),
    Access(
        name="foolmetwice",
        how="direct",
        downloads=(*_GIT["foolmetwice"],),
    ),
    Access(
        name="faviq_a",
        how="direct",
        downloads=(
            Download(
                url="https://nlp.cs.washington.edu/ambigqa/data/faviq_a_set_v1.2.zip",
                files=(
                    ("train.jsonl", "faviq/train.jsonl"),
                    ("dev.jsonl", "faviq/dev.jsonl"),
                ),
                checked_in=f"{_GITHUB}/faviq/faviq/blob/0c134063247fa146748ce1bdc29c09053d2cfede/"
                "README.md",
                about="about 13 MB",
            ),
        ),
    ),
    Access(
        name="pubhealth",
        how="direct",
        downloads=(
            Download(
                url="https://drive.google.com/uc?export=download"
                "&id=1eTtRs5cUlBP5dXsx-FTAlmXuB6JQi2qj",
                files=(
                    ("train.tsv", "pubhealth/train.tsv"),
                    ("dev.tsv", "pubhealth/dev.tsv"),
                    ("test.tsv", "pubhealth/test.tsv"),
                ),
                checked_in=f"{_DATASETS}/health_fact/dataset_infos.json",
                size=24_892_660,
                sha256="3f0a5541f4a60c09a138a896621402893ce4b3a37060363d9257010c2c27fc3a",
                redirects=("drive.usercontent.google.com",),
            ),
        ),
        other=(("pubhealth/tuning_excerpt.tsv", "an excerpt of these files"),),
    ),
    Access(
        name="ambifc",
        how="manual",
        step="open https://drive.google.com/drive/folders/1j1DJlE0lpTdpCvnTHgk1xr4NnbxGp4Wq and "
        "download train.certain.jsonl and dev.certain.jsonl into the folder ambifc",
        placed=("ambifc/train.certain.jsonl", "ambifc/dev.certain.jsonl"),
        checked_in=f"{_GITHUB}/CambridgeNLIP/verification-real-world-info-needs/blob/"
        "0b7250210bbbb3d9abd7e6075872943c48894450/README.md",
    ),
    Access(
        name="pubhealthtab",
        how="direct",
        downloads=(*_GIT["pubhealthtab"],),
    ),
    Access(
        name="scifact",
        how="direct",
        downloads=(
            Download(
                url="https://scifact.s3-us-west-2.amazonaws.com/release/latest/data.tar.gz",
                files=(
                    ("claims_train.jsonl", "scifact/claims_train.jsonl"),
                    ("claims_dev.jsonl", "scifact/claims_dev.jsonl"),
                    ("corpus.jsonl", "scifact/corpus.jsonl"),
                ),
                checked_in=f"{_DATASETS}/scifact/dataset_infos.json",
                size=3_115_079,
                sha256="11c621288d41ac144d29b13b0f8503b3820b7d6e8b1f6ff24dff335c196d76be",
            ),
        ),
        other=(("scifact/corpus_train.csv", "a copy of corpus.jsonl"),),
    ),
    Access(
        name="scitab",
        how="direct",
        downloads=(*_GIT["scitab"],),
    ),
    Access(
        name="wice",
        how="direct",
        downloads=(
            *_GIT["wice/claim"],
            *_GIT["wice/non_supported_tokens"],
        ),
    ),
    Access(
        name="claimdecomp",
        how="direct",
        downloads=tuple(map(_claimdecomp, ("train", "dev", "test"))),
        step="no articles, so no evidence: ask the authors for the full data set (their README)",
    ),
    Access(
        name="pubmedclaim",
        how="direct",
        downloads=(*_GIT["pubmedqa"],),
        other=(("pubmedqa/pqal_train_dev.json", "the training half of ori_pqal.json"),),
    ),
    Access(
        name="fever",
        how="direct",
        downloads=(
            _fever(
                "paper_test.jsonl",
                2_181_168,
                "fb7b0280a0adc2302bbb29bfb7af37274fa585de3171bcf908f180642d11d88e",
            ),
            _fever(
                "paper_dev.jsonl",
                2_168_767,
                "41158707810008747946bf23471e82df53e77a513524b9e3ec1c2e674ef5ef8c",
            ),
            *_GIT["fever_symmetric"],
            Download(
                url="https://s3-eu-west-1.amazonaws.com/fever.public/wiki_index/fever.db",
                files=(("", "fever/fever.db"),),
                checked_in=repository_page(_BASELINE, "scripts/download-processed-wiki.sh"),
                pages=True,
            ),
        ),
    ),
    Access(
        name="coverbench",
        how="hub",
        hub=coverbench.BENCHMARK.hub,
        checked_in=repository_page(_COVERBENCH_USER, "data/README.md"),
    ),
)
ACCESS: Mapping[str, Access] = {one.name: one for one in _ACCESSES}
"""By the name of the corpus, which a training corpus and its test set share."""


def corpus_named(name: str) -> Source | Benchmark:
    """The training corpus of a name in ``ACCESS``, or the test set where it has none."""
    every: tuple[Source | Benchmark, ...] = (*SOURCES, *BENCHMARKS)
    return next(one for one in every if one.name == name)
