#!/usr/bin/env python3
"""One image of FLUX.1 on several GPUs: torchrun --nproc-per-node 2 examples/flux.py [--checkpoint FOLDER --prompt TEXT]

Without a checkpoint weights are random, so the picture is noise. Without a prompt embeddings come from --embeddings FILE
(safetensors: prompt_embeds, pooled_prompt_embeds), or are random too; no text encoder is loaded then. --tiny is a model
of two blocks, for a trial on CPUs."""

import argparse
from typing import Any

import dit_torch
import torch
from diffusers import AutoencoderKL, FlowMatchEulerDiscreteScheduler, FluxPipeline, FluxTransformer2DModel
from safetensors.torch import load_file

ENCODERS = ("text_encoder", "text_encoder_2", "tokenizer", "tokenizer_2")
DEV_VAE: dict[str, Any] = {"block_out_channels": (128, 256, 512, 512), "latent_channels": 16}
TINY: dict[str, Any] = {"num_layers": 1, "num_single_layers": 1, "attention_head_dim": 16, "num_attention_heads": 4}
TINY |= {"axes_dims_rope": (4, 6, 6), "joint_attention_dim": 24, "pooled_projection_dim": 12, "in_channels": 16}
TINY_VAE: dict[str, Any] = {"block_out_channels": (8, 8, 8, 8), "norm_num_groups": 4, "latent_channels": 4}


def random_pipeline(tiny: bool) -> FluxPipeline:
    """Of the sizes of FLUX.1-dev, the defaults of diffusers' class."""
    blocks = {"down_block_types": ("DownEncoderBlock2D",) * 4, "up_block_types": ("UpDecoderBlock2D",) * 4}
    vae = AutoencoderKL(**blocks, **(TINY_VAE if tiny else DEV_VAE), scaling_factor=0.3611, shift_factor=0.1159)
    transformer = FluxTransformer2DModel(guidance_embeds=True, **(TINY if tiny else {}))
    return FluxPipeline(FlowMatchEulerDiscreteScheduler(), vae, None, None, None, None, transformer)


parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument("--checkpoint", help="folder or hub name, such as black-forest-labs/FLUX.1-dev")
parser.add_argument("--prompt")
parser.add_argument("--embeddings")
parser.add_argument("--tiny", action="store_true")
parser.add_argument("--size", type=int, default=1024)
parser.add_argument("--steps", type=int, default=28)
parser.add_argument("--schedule", default="auto")
parser.add_argument("--policy", default="exact")
parser.add_argument("--out", default="flux.png")
options = parser.parse_args()
if options.prompt and (options.embeddings or not options.checkpoint):
    parser.error(f"--prompt = {options.prompt!r}: expected --checkpoint, whose text encoders read it, and no --embeddings")

rank = dit_torch.init().rank
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
torch.manual_seed(0)  # the same weights and embeddings on all ranks
if options.checkpoint:
    left_out = {} if options.prompt else dict.fromkeys(ENCODERS)
    pipe = FluxPipeline.from_pretrained(options.checkpoint, torch_dtype=torch.bfloat16, **left_out).to(device)
else:
    torch.set_default_dtype(torch.bfloat16)
    with device:
        pipe = random_pipeline(options.tiny)
    torch.set_default_dtype(torch.float32)
    if rank == 0:
        print("random weights: the picture will be noise; --checkpoint takes FLUX.1's")

if options.prompt:
    text = {"prompt": options.prompt}
elif options.embeddings:
    text = {name: x.to(device, torch.bfloat16) for name, x in load_file(options.embeddings).items()}
else:
    config = pipe.transformer.config
    shapes = {"prompt_embeds": (1, 512, config.joint_attention_dim), "pooled_prompt_embeds": (1, config.pooled_projection_dim)}
    text = {name: torch.randn(shape, device=device, dtype=torch.bfloat16) for name, shape in shapes.items()}
    if rank == 0:
        print("random embeddings: --prompt with a checkpoint, or --embeddings FILE, makes them mean something")

dit_torch.enable(pipe.transformer, schedule=options.schedule, policy=options.policy, steps=options.steps)
start = torch.Generator(device).manual_seed(0)
pipe.set_progress_bar_config(disable=rank != 0)
image = pipe(**text, height=options.size, width=options.size, num_inference_steps=options.steps, generator=start).images[0]
if rank == 0:
    image.save(options.out)
    print(dit_torch.report(pipe.transformer))
dit_torch.disable(pipe.transformer)
