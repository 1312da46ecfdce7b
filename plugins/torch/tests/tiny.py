"""Tiny random transformers of each family, and inputs for them."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn


def _randomise(model: nn.Module) -> nn.Module:
    """Weights that make every part matter: norms and biases too."""
    generator = torch.Generator().manual_seed(7)
    for name, parameter in sorted(model.named_parameters()):
        if parameter.dim() > 1:
            scale = 1.0 / parameter.shape[-1] ** 0.5
            values = scale * torch.randn(parameter.shape, generator=generator)
        elif "norm" in name and name.endswith("weight"):
            values = 1.0 + 0.2 * torch.randn(parameter.shape, generator=generator)
        else:
            values = 0.1 * torch.randn(parameter.shape, generator=generator)
        parameter.data.copy_(values)
    return model.eval()


def flux(heads: int) -> nn.Module:
    from diffusers import FluxTransformer2DModel

    return _randomise(
        FluxTransformer2DModel(
            in_channels=8,
            num_layers=2,
            num_single_layers=2,
            attention_head_dim=16,
            num_attention_heads=heads,
            joint_attention_dim=24,
            pooled_projection_dim=12,
            guidance_embeds=True,
            axes_dims_rope=(4, 6, 6),
        )
    )


def _ids(height: int, width: int, axes: int) -> Tensor:
    ids = torch.zeros(height, width, axes)
    ids[..., 1] += torch.arange(height)[:, None]
    ids[..., 2] += torch.arange(width)[None, :]
    return ids.reshape(height * width, axes)


def flux_inputs(text: int = 7, batch: int = 1, seed: int = 0) -> dict[str, Any]:
    generator = torch.Generator().manual_seed(seed)

    def noise(*shape: int) -> Tensor:
        return torch.randn(*shape, generator=generator)

    return {
        "hidden_states": noise(batch, 20, 8),
        "encoder_hidden_states": noise(batch, text, 24),
        "pooled_projections": noise(batch, 12),
        "timestep": torch.full((batch,), 0.6),
        "img_ids": _ids(4, 5, 3),
        "txt_ids": torch.zeros(text, 3),
        "guidance": torch.full((batch,), 3.5),
    }


def flux2(heads: int) -> nn.Module:
    from diffusers import Flux2Transformer2DModel

    return _randomise(
        Flux2Transformer2DModel(
            in_channels=8,
            num_layers=2,
            num_single_layers=2,
            attention_head_dim=16,
            num_attention_heads=heads,
            joint_attention_dim=24,
            timestep_guidance_channels=16,
            axes_dims_rope=(4, 4, 4, 4),
        )
    )


def flux2_inputs(text: int = 7, batch: int = 1, seed: int = 0) -> dict[str, Any]:
    generator = torch.Generator().manual_seed(seed)

    def noise(*shape: int) -> Tensor:
        return torch.randn(*shape, generator=generator)

    text_ids = torch.zeros(1, text, 4)
    text_ids[..., 3] = torch.arange(text)
    return {
        "hidden_states": noise(batch, 20, 8),
        "encoder_hidden_states": noise(batch, text, 24),
        "timestep": torch.full((batch,), 0.6),
        "img_ids": _ids(4, 5, 4)[None].expand(batch, -1, -1),
        "txt_ids": text_ids.expand(batch, -1, -1),
        "guidance": torch.full((batch,), 3.5),
    }


def ltx(heads: int) -> nn.Module:
    from diffusers import LTXVideoTransformer3DModel

    return _randomise(
        LTXVideoTransformer3DModel(
            in_channels=8,
            out_channels=8,
            num_attention_heads=heads,
            attention_head_dim=16,
            cross_attention_dim=16 * heads,
            num_layers=2,
            caption_channels=24,
        )
    )


def ltx_inputs(text: int = 7, batch: int = 1, seed: int = 0) -> dict[str, Any]:
    generator = torch.Generator().manual_seed(seed)
    mask = torch.ones(batch, text)
    mask[0, -2:] = 0
    return {
        "hidden_states": torch.randn(batch, 30, 8, generator=generator),
        "encoder_hidden_states": torch.randn(batch, text, 24, generator=generator),
        "encoder_attention_mask": mask,
        "timestep": torch.full((batch,), 600.0),
        "num_frames": 2,
        "height": 3,
        "width": 5,
    }


MODELS = {"ltx": (ltx, ltx_inputs), "flux": (flux, flux_inputs), "flux2": (flux2, flux2_inputs)}
