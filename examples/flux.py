#!/usr/bin/env python3
"""One image of FLUX.1 on several GPUs: torchrun --nproc-per-node 2 examples/flux.py [--checkpoint FOLDER --prompt TEXT]

Without a checkpoint weights are random, so the picture is noise. Without a prompt embeddings come from --embeddings FILE
(safetensors: prompt_embeds, pooled_prompt_embeds), or are random too; no text encoder is loaded then. --tiny is a model
of two blocks, for a trial on CPUs."""

import dit_torch
import flux_inputs  # beside this file: options, random weights and embeddings
import torch
from diffusers import FluxPipeline

options = flux_inputs.options(__doc__)
rank = dit_torch.init().rank  # torch.distributed, and this rank's GPU
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
torch.manual_seed(0)  # the same weights and embeddings on all ranks

if options.checkpoint:
    left_out = {} if options.prompt else flux_inputs.NO_TEXT_ENCODERS
    pipe = FluxPipeline.from_pretrained(options.checkpoint, torch_dtype=torch.bfloat16, **left_out).to(device)
else:
    pipe = flux_inputs.random_pipeline(options.tiny, device)
text = {"prompt": options.prompt} if options.prompt else flux_inputs.embeddings(options.embeddings, pipe, device)

dit_torch.enable(pipe.transformer, schedule=options.schedule, policy=options.policy, steps=options.steps)
start = torch.Generator(device).manual_seed(0)  # the same noise on all ranks
pipe.set_progress_bar_config(disable=rank != 0)
image = pipe(**text, height=options.size, width=options.size, num_inference_steps=options.steps, generator=start).images[0]
if rank == 0:  # all ranks have the picture
    image.save(options.out)
    print(dit_torch.report(pipe.transformer))
dit_torch.disable(pipe.transformer)
