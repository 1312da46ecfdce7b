"""Tiny random VAEs of each class, whose tiles are a few pixels, and what they are tried with."""

from __future__ import annotations

from typing import Any, NamedTuple

import diffusers
import torch
from torch import Tensor

import tiny


class Case(NamedTuple):
    """A VAE.

    :ivar config: of its class
    :ivar tiling: small tiles, for enable_vae()
    :ivar latents: shape of what is decoded
    :ivar samples: shape of what is encoded
    """

    cls: str
    config: dict[str, Any]
    tiling: dict[str, Any]
    latents: tuple[int, ...]
    samples: tuple[int, ...]

    def make(self) -> Any:
        torch.manual_seed(5)
        return tiny.randomise(getattr(diffusers, self.cls)(**self.config))

    def there(self) -> bool:
        """Whether this diffusers has it."""
        return hasattr(diffusers, self.cls)


def noise(shape: tuple[int, ...], seed: int = 3) -> Tensor:
    return tiny.noise(*shape, seed=seed)


def tiles(pixels: int, stride: int) -> dict[str, int]:
    """As most classes say it."""
    return {
        "tile_sample_min_height": pixels,
        "tile_sample_min_width": pixels,
        "tile_sample_stride_height": stride,
        "tile_sample_stride_width": stride,
    }


_IMAGE = {
    "block_out_channels": (8, 8),
    "down_block_types": ("DownEncoderBlock2D",) * 2,
    "up_block_types": ("UpDecoderBlock2D",) * 2,
    "norm_num_groups": 2,
    "layers_per_block": 1,
    "latent_channels": 4,
}
_WAN = {"base_dim": 4, "z_dim": 4, "dim_mult": [1, 1, 1, 1], "num_res_blocks": 1}
_SQUARE = {"tile_sample_min_size": 16, "tile_latent_min_size": 8}
_FRAMES = {"tile_sample_min_num_frames": 8, "tile_sample_stride_num_frames": 4}

CASES = {
    "kl": Case("AutoencoderKL", _IMAGE, _SQUARE, (2, 4, 12, 18), (1, 3, 24, 36)),
    "flux2": Case("AutoencoderKLFlux2", _IMAGE, _SQUARE, (1, 4, 12, 18), (1, 3, 24, 36)),
    "wan": Case("AutoencoderKLWan", _WAN, tiles(32, 24), (1, 4, 3, 6, 9), (1, 3, 9, 48, 72)),
    "wan22": Case(
        "AutoencoderKLWan",
        _WAN
        | {"patch_size": 2, "in_channels": 12, "out_channels": 12, "is_residual": True}
        | {"scale_factor_spatial": 16},
        tiles(64, 32),
        (1, 4, 2, 6, 9),
        (1, 3, 5, 96, 144),
    ),
    "qwenimage": Case("AutoencoderKLQwenImage", _WAN, tiles(32, 24), (1, 4, 1, 6, 9), (1, 3, 1, 48, 72)),
    "hunyuan": Case(
        "AutoencoderKLHunyuanVideo",
        {
            "latent_channels": 4,
            "block_out_channels": (8, 8, 8, 8),
            "layers_per_block": 1,
            "norm_num_groups": 4,
        },
        tiles(32, 24) | _FRAMES,
        (1, 4, 4, 6, 9),
        (1, 3, 13, 48, 72),
    ),
    "hunyuan15": Case(
        "AutoencoderKLHunyuanVideo15",
        {"latent_channels": 4, "block_out_channels": (16, 16, 16, 16, 16), "layers_per_block": 1},
        {
            "tile_sample_min_height": 64,
            "tile_sample_min_width": 64,
            "tile_latent_min_height": 4,
            "tile_latent_min_width": 4,
        },
        (1, 4, 1, 6, 6),
        (1, 3, 1, 96, 96),
    ),
    "ltx": Case(
        "AutoencoderKLLTXVideo",
        {
            "latent_channels": 8,
            "block_out_channels": (8, 8, 8, 8),
            "decoder_block_out_channels": (8, 8, 8, 8),
            "layers_per_block": (1, 1, 1, 1, 1),
            "decoder_layers_per_block": (1, 1, 1, 1, 1),
        },
        tiles(128, 64)
        | {"use_framewise_decoding": True, "use_framewise_encoding": True}
        | {"tile_sample_min_num_frames": 16, "tile_sample_stride_num_frames": 8},
        (1, 8, 3, 5, 5),
        (1, 3, 17, 160, 160),
    ),
    "magvit": Case(
        "AutoencoderKLMagvit",
        {
            "latent_channels": 4,
            "block_out_channels": [8, 8, 8, 8],
            "layers_per_block": 1,
            "norm_num_groups": 2,
        },
        tiles(32, 24),
        (1, 4, 3, 6, 9),
        (1, 3, 9, 48, 72),
    ),
    "cogvideox": Case(
        "AutoencoderKLCogVideoX",
        {
            "latent_channels": 4,
            "block_out_channels": (8, 8, 8, 8),
            "layers_per_block": 1,
            "norm_num_groups": 2,
        },
        {"tile_sample_min_height": 32, "tile_sample_min_width": 32},
        (1, 4, 4, 6, 9),
        (1, 3, 9, 48, 72),
    ),
    "mochi": Case(
        "AutoencoderKLMochi",
        {
            "latent_channels": 4,
            "encoder_block_out_channels": (32, 32, 32, 32),
            "decoder_block_out_channels": (32, 32, 32, 32),
            "layers_per_block": (1, 1, 1, 1, 1),
        },
        tiles(32, 24),
        (1, 4, 2, 6, 9),
        (1, 3, 7, 48, 72),
    ),
    "hunyuanimage": Case(
        "AutoencoderKLHunyuanImage",
        {
            "in_channels": 3,
            "out_channels": 3,
            "latent_channels": 4,
            "block_out_channels": (32, 32, 32),
            "layers_per_block": 1,
            "spatial_compression_ratio": 4,
            "sample_size": 16,
        },
        {},
        (1, 4, 6, 9),
        (1, 3, 16, 16),  # diffusers 0.42's own tiled_encode() fails
    ),
    "kvae": Case(
        "AutoencoderKLKVAE",
        {
            "channels": 32,
            "num_enc_blocks": 1,
            "num_dec_blocks": 1,
            "z_channels": 4,
            "ch_mult": (1, 1),
            "sample_size": 16,
        },
        _SQUARE,
        (1, 4, 12, 18),
        (1, 3, 24, 36),
    ),
    "ltx2": Case(
        "AutoencoderKLLTX2Video",
        {
            "latent_channels": 8,
            "block_out_channels": (8, 16, 32, 64),
            "decoder_block_out_channels": (16, 32, 64),
            "layers_per_block": (1, 1, 1, 1, 1),
            "decoder_layers_per_block": (1, 1, 1, 1),
            "spatial_compression_ratio": 32,
            "temporal_compression_ratio": 8,
        },
        tiles(128, 64),
        (1, 8, 2, 4, 6),
        (1, 3, 9, 128, 192),
    ),
    "qwenimage21": Case(
        "AutoencoderKLQwenImage21",
        {"base_dim": 4, "decoder_base_dim": 4, "z_dim": 4, "dim_mult": [1, 1, 1, 1, 1], "num_res_blocks": 1},
        tiles(64, 48),
        (1, 4, 1, 6, 9),
        (1, 4, 1, 96, 144),
    ),
    "dc": Case(
        "AutoencoderDC",
        {
            "latent_channels": 4,
            "attention_head_dim": 2,
            "encoder_block_types": ("ResBlock", "EfficientViTBlock"),
            "decoder_block_types": ("ResBlock", "EfficientViTBlock"),
            "encoder_block_out_channels": (8, 8),
            "decoder_block_out_channels": (8, 8),
            "encoder_layers_per_block": (1, 1),
            "decoder_layers_per_block": (1, 1),
            "encoder_qkv_multiscales": ((), (5,)),
            "decoder_qkv_multiscales": ((), (5,)),
        },
        tiles(16, 12),
        (1, 4, 12, 18),
        (1, 3, 24, 36),
    ),
}
