"""What flux.py is given: its options, and, where no files are named, random weights and embeddings."""

from __future__ import annotations

import argparse
from typing import Any

import torch
import torch.distributed as dist
from diffusers import AutoencoderKL, FlowMatchEulerDiscreteScheduler, FluxPipeline, FluxTransformer2DModel
from safetensors.torch import load_file
from torch import Tensor

NO_TEXT_ENCODERS = dict.fromkeys(("text_encoder", "text_encoder_2", "tokenizer", "tokenizer_2"))
DEV_VAE: dict[str, Any] = {"block_out_channels": (128, 256, 512, 512), "latent_channels": 16}
TINY: dict[str, Any] = {"num_layers": 1, "num_single_layers": 1, "attention_head_dim": 16, "num_attention_heads": 4}
TINY |= {"axes_dims_rope": (4, 6, 6), "joint_attention_dim": 24, "pooled_projection_dim": 12, "in_channels": 16}
TINY_VAE: dict[str, Any] = {"block_out_channels": (8, 8, 8, 8), "norm_num_groups": 4, "latent_channels": 4}


def options(description: str | None) -> argparse.Namespace:
    """Of the command line. Ends the program where they do not go together."""
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--checkpoint", help="folder or hub name, such as black-forest-labs/FLUX.1-dev")
    parser.add_argument("--prompt")
    parser.add_argument("--embeddings")
    parser.add_argument("--tiny", action="store_true")
    parser.add_argument("--size", type=int, default=1024)
    parser.add_argument("--steps", type=int, default=28)
    parser.add_argument("--schedule", default="auto")
    parser.add_argument("--policy", default="exact")
    parser.add_argument("--out", default="flux.png")
    given = parser.parse_args()
    if given.prompt and (given.embeddings or not given.checkpoint):
        parser.error(f"--prompt = {given.prompt!r}: expected --checkpoint, whose text encoders read it, and no --embeddings")
    return given


def random_pipeline(tiny: bool, device: torch.device) -> FluxPipeline:
    """Of the sizes of FLUX.1-dev, the defaults of diffusers' class."""
    blocks = {"down_block_types": ("DownEncoderBlock2D",) * 4, "up_block_types": ("UpDecoderBlock2D",) * 4}
    torch.set_default_dtype(torch.bfloat16)
    with device:
        vae = AutoencoderKL(**blocks, **(TINY_VAE if tiny else DEV_VAE), scaling_factor=0.3611, shift_factor=0.1159)
        transformer = FluxTransformer2DModel(guidance_embeds=True, **(TINY if tiny else {}))
        pipe = FluxPipeline(FlowMatchEulerDiscreteScheduler(), vae, None, None, None, None, transformer)
    torch.set_default_dtype(torch.float32)
    _say("random weights: the picture will be noise; --checkpoint takes FLUX.1's")
    return pipe


def embeddings(file: str | None, pipe: FluxPipeline, device: torch.device) -> dict[str, Tensor]:
    """What text encoders would have made of a prompt: from a safetensors file; None: random."""
    if file:
        return {name: x.to(device, torch.bfloat16) for name, x in load_file(file).items()}
    config = pipe.transformer.config
    shapes = {"prompt_embeds": (1, 512, config.joint_attention_dim), "pooled_prompt_embeds": (1, config.pooled_projection_dim)}
    made = {name: torch.randn(shape, device=device, dtype=torch.bfloat16) for name, shape in shapes.items()}
    _say("random embeddings: --prompt with a checkpoint, or --embeddings FILE, makes them mean something")
    return made


def _say(words: str) -> None:
    """Once, not by each rank."""
    if dist.get_rank() == 0:
        print(words)
