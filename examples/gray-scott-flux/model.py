"""A FLUX transformer of about ten million parameters for Gray-Scott fields: made, written, read, sampled from."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

import prompts
import torch
from diffusers import FluxTransformer2DModel
from safetensors.torch import load_file, save_file
from torch import Tensor

PATCH = 4
CONFIG: dict[str, Any] = {
    "patch_size": 1,
    "in_channels": 2 * PATCH * PATCH,
    "num_layers": 2,
    "num_single_layers": 5,
    "attention_head_dim": 64,
    "num_attention_heads": 4,
    "joint_attention_dim": prompts.WIDTH,
    "pooled_projection_dim": prompts.WIDTH,
    "guidance_embeds": False,
    "axes_dims_rope": [8, 28, 28],
}


@dataclasses.dataclass
class Scales:
    """Physical units to model units: zero mean and a deviation of one, of u and of v."""

    mean: list[float]
    deviation: list[float]

    def to_model(self, fields: Tensor) -> Tensor:
        mean, deviation = (fields.new_tensor(x)[:, None, None] for x in (self.mean, self.deviation))
        return (fields - mean) / deviation


def pack(fields: Tensor) -> Tensor:
    """[count, 2, size, size] -> [count, tokens, 2 * PATCH * PATCH], rows of patches first, as FLUX packs latents."""
    patches = fields.unflatten(3, (-1, PATCH)).unflatten(2, (-1, PATCH))  # [count, 2, rows, PATCH, columns, PATCH]
    return patches.permute(0, 2, 4, 1, 3, 5).flatten(3).flatten(1, 2)


def unpack(tokens: Tensor) -> Tensor:
    side = round(tokens.shape[1] ** 0.5)
    patches = tokens.unflatten(1, (side, side)).unflatten(3, (2, PATCH, PATCH))
    return patches.permute(0, 3, 1, 4, 2, 5).flatten(4).flatten(2, 3)


def positions(side: int, device: torch.device) -> Tensor:
    """[side * side, 3]: 0, row, column of each image token."""
    ids = torch.zeros(side, side, 3, device=device)
    ids[..., 1] = torch.arange(side, device=device)[:, None]
    ids[..., 2] = torch.arange(side, device=device)
    return ids.flatten(0, 1)


def call(model: torch.nn.Module, x: Tensor, time: Tensor, prompt: tuple[Tensor, Tensor]) -> Tensor:
    """The direction from data to noise at packed fields x, noisy to the degree of `time` in 0 ... 1."""
    dtype = next(model.parameters()).dtype
    tokens, pooled = (part.to(dtype) for part in prompt)
    return model(
        hidden_states=x.to(dtype),
        encoder_hidden_states=tokens,
        pooled_projections=pooled,
        timestep=time,
        img_ids=positions(round(x.shape[1] ** 0.5), x.device),
        txt_ids=torch.zeros(tokens.shape[1], 3, device=x.device),
        return_dict=False,
    )[0].float()


@torch.no_grad()
def sample(model: torch.nn.Module, noise: Tensor, prompt: tuple[Tensor, Tensor], steps: int) -> Tensor:
    """Fields in model units from noise [count, 2, size, size], by Euler steps of equal length."""
    x = pack(noise)
    for step in range(steps):
        time = torch.full((len(x),), 1 - step / steps, device=x.device)
        x = x - call(model, x, time, prompt) / steps
    return unpack(x)


def save(folder: Path, weights: dict[str, Tensor], scales: Scales, facts: dict[str, Any]) -> None:
    """config.json and model.safetensors, in bf16."""
    folder.mkdir(parents=True, exist_ok=True)
    kept = {name: value.detach().to("cpu", torch.bfloat16).contiguous() for name, value in weights.items()}
    save_file(kept, folder / "model.safetensors", {"format": "pt"})
    described = {"transformer": CONFIG, "scales": dataclasses.asdict(scales), "training": facts}
    (folder / "config.json").write_text(json.dumps(described, indent=1) + "\n")


def read(folder: Path) -> dict[str, Tensor]:
    return load_file(folder / "model.safetensors")


def load(folder: Path, device: torch.device, dtype: torch.dtype) -> tuple[torch.nn.Module, dict[str, Any]]:
    """The transformer and what config.json says."""
    described = json.loads((folder / "config.json").read_text())
    model = FluxTransformer2DModel(**described["transformer"])
    model.load_state_dict({name: value.float() for name, value in read(folder).items()})
    return model.to(device, dtype).eval().requires_grad_(False), described
