"""Adapters as PEFT reads them: a folder of adapter_config.json and adapter_model.safetensors."""

from __future__ import annotations

import json
from pathlib import Path

import jax
import numpy as np

from spicejax.models import exported
from spicejax.models.config import TransformerConfig
from spicejax.models.hf import ADAPTER, NAMES, on_host
from spicejax.models.lora import MATRICES, SUFFIX, LoraConfig, Params, flatten

WEIGHTS = "adapter_model.safetensors"


def save(path: str | Path, cfg: TransformerConfig, lora: LoraConfig, adapters: Params, *, base: str | None) -> None:
    """Write adapters for a base model into the folder `path`, made where it is absent, in float32.

    Args:
      adapters: the tree of `lora.split`. Where it is spread over hosts every process calls this; process 0 writes.
      base: what `peft` loads the base model from: a folder or a name on the Hub; None where it must be given to it.
    """
    arrays = {name: on_host(leaf) for name, leaf in flatten(adapters).items()}
    if jax.process_index():
        return
    folder = Path(path).expanduser()
    folder.mkdir(parents=True, exist_ok=True)
    tensors: dict[str, np.ndarray] = {}
    for target in lora.targets:
        part, _ = MATRICES[target]
        key = f"layers/{part}/{target}"
        a, b = arrays[f"{key}{SUFFIX}/a"], arrays[f"{key}{SUFFIX}/b"]
        for layer in range(cfg.num_layers):
            name = f"base_model.model.{NAMES[key].format(layer).removesuffix('.weight')}"
            # HF's [outputs, inputs]: A [rank, inputs], B [outputs, rank]
            tensors[f"{name}.lora_A.weight"] = np.ascontiguousarray(a[layer].reshape(-1, lora.rank).T, np.float32)
            tensors[f"{name}.lora_B.weight"] = np.ascontiguousarray(b[layer].reshape(lora.rank, -1).T, np.float32)
    exported.save(tensors, folder / WEIGHTS)
    config = {
        "peft_type": "LORA",
        "task_type": "CAUSAL_LM",
        "base_model_name_or_path": base,
        "r": lora.rank,
        "lora_alpha": lora.alpha,
        "target_modules": [f"{target}_proj" for target in lora.targets],
        "lora_dropout": 0.0,
        "bias": "none",
        "fan_in_fan_out": False,
        "inference_mode": True,
    }
    (folder / ADAPTER).write_text(json.dumps(config, indent=2) + "\n", encoding="utf-8")
