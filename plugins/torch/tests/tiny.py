"""Tiny random transformers of each family, and inputs for them."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn


def randomise(model: nn.Module) -> nn.Module:
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


def _flux_config(heads: int) -> dict[str, Any]:
    return {
        "in_channels": 8,
        "num_layers": 2,
        "num_single_layers": 2,
        "attention_head_dim": 16,
        "num_attention_heads": heads,
        "joint_attention_dim": 24,
        "pooled_projection_dim": 12,
        "guidance_embeds": True,
        "axes_dims_rope": (4, 6, 6),
    }


def flux(heads: int, **config: Any) -> nn.Module:
    from diffusers import FluxTransformer2DModel

    return randomise(FluxTransformer2DModel(**_flux_config(heads) | config))


def flux_controlnet(heads: int, **config: Any) -> nn.Module:
    from diffusers import FluxControlNetModel

    return randomise(FluxControlNetModel(**_flux_config(heads) | config))


def _ids(height: int, width: int, axes: int) -> Tensor:
    ids = torch.zeros(height, width, axes)
    ids[..., 1] += torch.arange(height)[:, None]
    ids[..., 2] += torch.arange(width)[None, :]
    return ids.reshape(height * width, axes)


def flux_inputs(text: int = 7, batch: int = 1, seed: int = 0, width: int = 5) -> dict[str, Any]:
    generator = torch.Generator().manual_seed(seed)

    def noise(*shape: int) -> Tensor:
        return torch.randn(*shape, generator=generator)

    return {
        "hidden_states": noise(batch, 4 * width, 8),
        "encoder_hidden_states": noise(batch, text, 24),
        "pooled_projections": noise(batch, 12),
        "timestep": torch.full((batch,), 0.6),
        "img_ids": _ids(4, width, 3),
        "txt_ids": torch.zeros(text, 3),
        "guidance": torch.full((batch,), 3.5),
    }


def flux2(heads: int) -> nn.Module:
    from diffusers import Flux2Transformer2DModel

    return randomise(
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


def flux2_inputs(text: int = 7, batch: int = 1, seed: int = 0, width: int = 5) -> dict[str, Any]:
    generator = torch.Generator().manual_seed(seed)

    def noise(*shape: int) -> Tensor:
        return torch.randn(*shape, generator=generator)

    text_ids = torch.zeros(1, text, 4)
    text_ids[..., 3] = torch.arange(text)
    return {
        "hidden_states": noise(batch, 4 * width, 8),
        "encoder_hidden_states": noise(batch, text, 24),
        "timestep": torch.full((batch,), 0.6),
        "img_ids": _ids(4, width, 4)[None].expand(batch, -1, -1),
        "txt_ids": text_ids.expand(batch, -1, -1),
        "guidance": torch.full((batch,), 3.5),
    }


def noise(*shape: int, seed: int) -> Tensor:
    return _noise(seed)(*shape)


def _noise(seed: int) -> Callable[..., Tensor]:
    generator = torch.Generator().manual_seed(seed)
    return lambda *shape: torch.randn(*shape, generator=generator)


def qwenimage(heads: int, **config: Any) -> nn.Module:
    from diffusers import QwenImageTransformer2DModel

    return randomise(
        QwenImageTransformer2DModel(
            in_channels=8,
            out_channels=2,
            num_layers=2,
            num_attention_heads=heads,
            joint_attention_dim=24,
            **{"attention_head_dim": 16, "axes_dims_rope": (4, 6, 6), **config},
        )
    )


def qwenimage_inputs(text: int = 7, batch: int = 1, seed: int = 0, width: int = 5) -> dict[str, Any]:
    """With more than one sample the others' texts are shorter, and masked."""
    from diffusers import QwenImageTransformer2DModel

    noise = _noise(seed)
    mask = torch.ones(batch, text, dtype=torch.bool)
    mask[1:, text // 2 :] = False
    inputs = {
        "hidden_states": noise(batch, 4 * width, 8),
        "encoder_hidden_states": noise(batch, text, 24),
        "encoder_hidden_states_mask": mask if batch > 1 else None,
        "timestep": torch.full((batch,), 0.6),
        "img_shapes": [[(1, 4, width)]] * batch,
    }
    if "txt_seq_lens" in inspect.signature(QwenImageTransformer2DModel.forward).parameters:  # diffusers 0.36
        inputs["txt_seq_lens"] = [int(n) for n in mask.sum(dim=1)]
    return inputs


def sd3(heads: int, head_dim: int = 16, **config: Any) -> nn.Module:
    from diffusers import SD3Transformer2DModel

    return randomise(
        SD3Transformer2DModel(
            sample_size=10,
            in_channels=4,
            out_channels=4,
            num_layers=2,
            attention_head_dim=head_dim,
            num_attention_heads=heads,
            joint_attention_dim=24,
            caption_projection_dim=heads * head_dim,
            pooled_projection_dim=12,
            pos_embed_max_size=8,
            **config,
        )
    )


def sd35(heads: int) -> nn.Module:
    """As SD3.5-medium: the first of two blocks has a second attention."""
    return sd3(heads, qk_norm="rms_norm", dual_attention_layers=(0,))


def sd3_inputs(text: int = 7, batch: int = 1, seed: int = 0, width: int = 5) -> dict[str, Any]:
    noise = _noise(seed)
    return {
        "hidden_states": noise(batch, 4, 8, 2 * width),
        "encoder_hidden_states": noise(batch, text, 24),
        "pooled_projections": noise(batch, 12),
        "timestep": torch.full((batch,), 600.0),
    }


def wan(heads: int, **config: Any) -> nn.Module:
    from diffusers import WanTransformer3DModel

    return randomise(
        WanTransformer3DModel(
            num_attention_heads=heads,
            in_channels=4,
            out_channels=4,
            text_dim=24,
            freq_dim=16,
            ffn_dim=32,
            num_layers=2,
            **{"attention_head_dim": 16, "rope_max_seq_len": 16, **config},
        )
    )


def wan_inputs(text: int = 7, batch: int = 1, seed: int = 0, width: int = 3) -> dict[str, Any]:
    noise = _noise(seed)
    return {
        "hidden_states": noise(batch, 4, 3, 4, 2 * width),
        "timestep": torch.full((batch,), 600),
        "encoder_hidden_states": noise(batch, text, 24),
    }


def wan_5b_inputs(text: int = 7, batch: int = 1, seed: int = 0) -> dict[str, Any]:
    """As Wan 2.2-5B takes them: a timestep for each token, 0 in the first frame, which is given."""
    timestep = torch.full((batch, 18), 600)
    timestep[:, :6] = 0
    return wan_inputs(text, batch, seed) | {"timestep": timestep}


def wan_i2v(heads: int) -> nn.Module:
    """As Wan 2.1 image-to-video: keys and values of the image in cross-attention."""
    return wan(heads, image_dim=20, added_kv_proj_dim=heads * 16)


def wan_i2v_inputs(text: int = 512, batch: int = 1, seed: int = 0) -> dict[str, Any]:
    """Wan 2.1's cross-attention takes the last 512 tokens as the text."""
    return wan_inputs(512, batch, seed) | {"encoder_hidden_states_image": _noise(seed + 1)(batch, 5, 20)}


def ltx(heads: int) -> nn.Module:
    from diffusers import LTXVideoTransformer3DModel

    return randomise(
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


def ltx_inputs(text: int = 7, batch: int = 1, seed: int = 0, width: int = 5) -> dict[str, Any]:
    generator = torch.Generator().manual_seed(seed)
    mask = torch.ones(batch, text)
    mask[0, -2:] = 0
    return {
        "hidden_states": torch.randn(batch, 6 * width, 8, generator=generator),
        "encoder_hidden_states": torch.randn(batch, text, 24, generator=generator),
        "encoder_attention_mask": mask,
        "timestep": torch.full((batch,), 600.0),
        "num_frames": 2,
        "height": 3,
        "width": width,
    }


MODELS: dict[str, tuple[Callable[[int], nn.Module], Callable[..., dict[str, Any]]]] = {
    "ltx": (ltx, ltx_inputs),
    "flux": (flux, flux_inputs),
    "flux2": (flux2, flux2_inputs),
    "qwenimage": (qwenimage, qwenimage_inputs),
    "sd3": (sd3, sd3_inputs),
    "sd35": (sd35, sd3_inputs),
    "wan": (wan, wan_inputs),
    "wan-5b": (wan, wan_5b_inputs),
    "wan-i2v": (wan_i2v, wan_i2v_inputs),
}
