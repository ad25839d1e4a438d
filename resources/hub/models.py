"""The hub's models that the profiles `local` and `paper`, the recipes and the baselines name.

``commit`` is a pin of this project, empty where none was verified: then the commit found at the
first use is locked (``resources.hub.locks``). Licences are those of the model cards.
"""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class HubModel:
    """A model, what it is used for, and its licence.

    With ``remote_code``, loading it runs Python code of its repository.
    """

    name: str
    used_for: str
    licence: str
    remote_code: bool = False
    commit: str = ""


HUB_MODELS: tuple[HubModel, ...] = (
    HubModel(
        "Qwen/Qwen2.5-7B-Instruct",
        "base of the paper's recipes, token counter, baselines",
        "Apache-2.0",
    ),
    HubModel("Qwen/Qwen2.5-3B-Instruct", "base of recipe `paper_3b`, baselines", "Qwen Research"),
    HubModel("HuggingFaceTB/SmolLM2-135M-Instruct", "base of recipe `smol`", "Apache-2.0"),
    HubModel("Qwen/Qwen2.5-14B-Instruct", "baselines", "Apache-2.0"),
    HubModel("Qwen/Qwen2.5-32B-Instruct", "baselines", "Apache-2.0"),
    HubModel("Qwen/Qwen3-32B", "judge; silver sub-questions of `local`", "Apache-2.0"),
    HubModel("Qwen/Qwen3-32B-FP8", "judge of two layouts", "Apache-2.0"),
    HubModel("answerdotai/ModernBERT-large", "encoder of the tiny judge in `paper`", "Apache-2.0"),
    HubModel("Qwen/Qwen3-Embedding-8B", "questions of traces in `paper`", "Apache-2.0"),
    HubModel(
        "bespokelabs/Bespoke-MiniCheck-7B",
        "verifier of `paper`, MiniCheck baseline",
        "CC BY-NC 4.0",
        remote_code=True,
    ),
    HubModel("lytang/MiniCheck-Flan-T5-Large", "verifier of `local`, MiniCheck baseline", "MIT"),
    HubModel("lytang/MiniCheck-DeBERTa-v3-Large", "verifier, if chosen", "MIT"),
    HubModel("lytang/MiniCheck-RoBERTa-Large", "verifier, if chosen", "MIT"),
    HubModel("sentence-transformers/all-MiniLM-L6-v2", "embedder of `local`", "Apache-2.0"),
)
_BY_NAME = {model.name: model for model in HUB_MODELS}


def hub_model(name: str) -> HubModel | None:
    """The table's row of a model; None for one that only the user names."""
    return _BY_NAME.get(name)
