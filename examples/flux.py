#!/usr/bin/env python3
"""One image of FLUX.1 on several GPUs: torchrun --nproc-per-node 2 examples/flux.py [--checkpoint FOLDER --prompt TEXT]

Without a checkpoint weights are random, so the picture is noise, and the embeddings come from --embeddings FILE
(safetensors: prompt_embeds, pooled_prompt_embeds), or are random too. A checkpoint may come without text encoders."""

import argparse

import dit_torch
import torch
from diffusers import AutoencoderKL, FlowMatchEulerDiscreteScheduler, FluxPipeline, FluxTransformer2DModel
from safetensors.torch import load_file

parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument("--checkpoint", help="folder or hub name, such as black-forest-labs/FLUX.1-dev")
parser.add_argument("--prompt")
parser.add_argument("--embeddings")
parser.add_argument("--size", type=int, default=1024)
parser.add_argument("--steps", type=int, default=28)
parser.add_argument("--schedule", default="auto")
parser.add_argument("--policy", default="exact")
parser.add_argument("--out", default="flux.png")
options = parser.parse_args()

rank = dit_torch.init().rank
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
torch.manual_seed(0)
if options.checkpoint:
    pipe = FluxPipeline.from_pretrained(options.checkpoint, torch_dtype=torch.bfloat16).to(device)
else:
    torch.set_default_dtype(torch.bfloat16)
    with device:  # the sizes of FLUX.1-dev
        transformer = FluxTransformer2DModel(guidance_embeds=True)
        blocks = {
            "down_block_types": ("DownEncoderBlock2D",) * 4,
            "up_block_types": ("UpDecoderBlock2D",) * 4,
        }
        vae = AutoencoderKL(**blocks, block_out_channels=(128, 256, 512, 512), latent_channels=16)
    pipe = FluxPipeline(FlowMatchEulerDiscreteScheduler(), vae, None, None, None, None, transformer)
    torch.set_default_dtype(torch.float32)
    if rank == 0:
        print("random weights: the picture will be noise; --checkpoint takes FLUX.1's")

if options.embeddings:
    text = {name: x.to(device, torch.bfloat16) for name, x in load_file(options.embeddings).items()}
elif options.prompt and options.checkpoint:
    text = {"prompt": options.prompt}
else:
    config = pipe.transformer.config
    shapes = {
        "prompt_embeds": (1, 512, config.joint_attention_dim),
        "pooled_prompt_embeds": (1, config.pooled_projection_dim),
    }
    text = {name: torch.randn(shape, device=device, dtype=torch.bfloat16) for name, shape in shapes.items()}
    if rank == 0:
        print("random embeddings: --prompt with a checkpoint, or --embeddings FILE, makes them mean something")

dit_torch.enable(pipe.transformer, schedule=options.schedule, policy=options.policy)
start = torch.Generator(device).manual_seed(0)
pipe.set_progress_bar_config(disable=rank != 0)
image = pipe(**text, height=options.size, width=options.size, num_inference_steps=options.steps, generator=start).images[0]
if rank == 0:
    image.save(options.out)
    print(dit_torch.report(pipe.transformer))
dit_torch.disable(pipe.transformer)
