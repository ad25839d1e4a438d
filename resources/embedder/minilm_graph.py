"""A BERT sentence encoder as an ONNX graph, built in memory from its safetensors file.

Takes a sentence-transformers model folder, gives an ONNX Runtime session and its limit of word
pieces. The graph uses ONNX Runtime's fused operators (attention, skip connection with layer norm,
bias with GELU) and needs neither an exporter nor torch.

Only post-norm BERT encoders with mean pooling are supported, such as the MiniLM family; for other
models use the engine ``sentence_transformers``.
"""

import json
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from decomposerl.errors import EngineMissing

IDS, POSITIONS, STATES = "ids", "positions", "states"
_FUSED = "com.microsoft"
_OPSETS = (("", 17), (_FUSED, 1))
_IR_VERSION = 9  # below the onnx package's default; every ONNX Runtime from 1.17 on reads it


def load_session(folder: Path) -> tuple[Any, int]:
    """The session of the model in ``folder``, and its limit of word pieces.

    Inputs: ``ids`` and ``positions``, int64, shape (texts, length), without padding.
    Output: ``states``, float32, shape (texts, length, width).

    Raises:
        EngineMissing: the folder has no BERT encoder with mean pooling.
    """
    model, max_pieces = encoder(folder)
    return session_of(model.SerializeToString()), max_pieces


def session_of(model: bytes | str) -> Any:  # noqa: ANN401 - onnxruntime carries no types
    """A single-threaded session of a serialised model or a model file."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    # One thread: sums that are split among threads may round differently.
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.log_severity_level = 3
    return onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])


def encoder(folder: Path) -> tuple[Any, int]:
    """The ONNX model of the encoder in ``folder``, and its limit of word pieces.

    Raises:
        EngineMissing: the folder has no BERT encoder with mean pooling.
    """
    from safetensors.numpy import load_file

    config, max_pieces = _config(folder)
    weights = {
        name.removeprefix("bert."): tensor.astype(np.float32, copy=False)
        for name, tensor in load_file(folder / "model.safetensors").items()
    }
    return _Graph(weights, config).model(), max_pieces


def _config(folder: Path) -> tuple[dict[str, Any], int]:
    """The encoder's configuration and its limit of word pieces, after checking the architecture."""
    config = _read(folder / "config.json")
    pooling = _read(folder / "1_Pooling" / "config.json")
    max_pieces = _read(folder / "sentence_bert_config.json").get("max_seq_length")
    kind = (
        config.get("model_type"),
        config.get("hidden_act"),
        config.get("position_embedding_type"),
    )
    pooled = {name for name, chosen in pooling.items() if chosen is True and "pooling_mode" in name}
    if kind not in {("bert", "gelu", "absolute"), ("bert", "gelu", None)} or pooled != {
        "pooling_mode_mean_tokens"
    }:
        raise EngineMissing(
            f"the model in {folder} is not a BERT encoder with GELU and mean pooling; load it with "
            "the embedder's engine 'sentence_transformers'"
        )
    return config, int(max_pieces or config["max_position_embeddings"])


def _read(file: Path) -> dict[str, Any]:
    try:
        content: dict[str, Any] = json.loads(file.read_text("utf-8"))
    except (OSError, ValueError) as error:
        raise EngineMissing(f"the model folder lacks a readable {file.name}: {error}") from error
    return content


class _Graph:
    """The nodes and constants of one encoder."""

    def __init__(self, weights: dict[str, NDArray[np.float32]], config: dict[str, Any]) -> None:
        """``weights`` have the names of transformers' ``BertModel``."""
        self._weights, self._config = weights, config
        self._nodes: list[Any] = []
        self._constants: list[Any] = []

    def model(self) -> Any:  # noqa: ANN401 - onnx carries no types
        """The whole graph as an ONNX model."""
        from onnx import TensorProto, helper

        states = self._embedding()
        for layer in range(self._config["num_hidden_layers"]):
            states = self._layer(states, f"encoder.layer.{layer}")
        self._nodes.append(helper.make_node("Identity", [states], [STATES]))
        shape = ["texts", "length"]
        given = [
            helper.make_tensor_value_info(n, TensorProto.INT64, shape) for n in (IDS, POSITIONS)
        ]
        width = self._config["hidden_size"]
        out = helper.make_tensor_value_info(STATES, TensorProto.FLOAT, [*shape, width])
        graph = helper.make_graph(self._nodes, "encoder", given, [out], self._constants)
        opsets = [helper.make_opsetid(domain, version) for domain, version in _OPSETS]
        return helper.make_model(graph, opset_imports=opsets, ir_version=_IR_VERSION)

    def _embedding(self) -> str:
        position = self._weights["embeddings.position_embeddings.weight"]
        position = (
            position + self._weights["embeddings.token_type_embeddings.weight"][0]
        )  # one segment
        words = self._node("Gather", self._weight("embeddings.word_embeddings.weight"), IDS)
        positions = self._node(
            "Gather", self._constant("position_and_segment", position), POSITIONS
        )
        return self._skip_norm(words, positions, "embeddings.LayerNorm")

    def _layer(self, states: str, name: str) -> str:
        attention, own = f"{name}.attention.output", f"{name}.attention.self"
        three = [f"{own}.{part}" for part in ("query", "key", "value")]
        weight = np.concatenate([self._weights[f"{part}.weight"].T for part in three], axis=1)
        bias = np.concatenate([self._weights[f"{part}.bias"] for part in three])
        inputs = self._constant(f"{own}.weight", weight), self._constant(f"{own}.bias", bias)
        heads = self._config["num_attention_heads"]
        mixed = self._fused("Attention", states, *inputs, num_heads=heads)
        states = self._skip_norm(
            self._product(mixed, f"{attention}.dense"),
            states,
            f"{attention}.LayerNorm",
            self._weight(f"{attention}.dense.bias"),
        )
        inner = self._product(states, f"{name}.intermediate.dense")
        inner = self._fused("BiasGelu", inner, self._weight(f"{name}.intermediate.dense.bias"))
        return self._skip_norm(
            self._product(inner, f"{name}.output.dense"),
            states,
            f"{name}.output.LayerNorm",
            self._weight(f"{name}.output.dense.bias"),
        )

    def _skip_norm(self, states: str, skipped: str, norm: str, *bias: str) -> str:
        scales = self._weight(f"{norm}.weight"), self._weight(f"{norm}.bias")
        epsilon = self._config["layer_norm_eps"]
        return self._fused(
            "SkipLayerNormalization", states, skipped, *scales, *bias, epsilon=epsilon
        )

    def _product(self, states: str, name: str) -> str:
        """Without the bias, which the next fused operator adds."""
        weight = self._weights[f"{name}.weight"].T
        return self._node("MatMul", states, self._constant(f"{name}.weight", weight))

    def _weight(self, name: str) -> str:
        return self._constant(name, self._weights[name])

    def _constant(self, name: str, values: NDArray[np.float32]) -> str:
        from onnx import numpy_helper

        self._constants.append(numpy_helper.from_array(np.ascontiguousarray(values), name))
        return name

    def _fused(self, operator: str, *inputs: str, **attributes: float) -> str:
        return self._node(operator, *inputs, domain=_FUSED, **attributes)

    def _node(self, operator: str, *inputs: str, domain: str = "", **attributes: float) -> str:
        from onnx import helper

        name = f"{operator}_{len(self._nodes)}"
        self._nodes.append(
            helper.make_node(operator, inputs, [name], name=name, domain=domain, **attributes)
        )
        return name
