"""Diffusion transformers of diffusers on several GPUs: exact and faster, or over slow links and much faster.

import dit_torch
dit_torch.init()                       # torch.distributed, from torchrun, mpirun or Slurm
dit_torch.enable(pipe.transformer)
image = pipe(prompt).images[0]         # on all ranks alike
print(dit_torch.report(pipe.transformer))
"""

from .compare import compare
from .enable import disable, enable, give_up, new_image, set_steps, sum_gradients
from .install import install, uninstall
from .launch import init, launch
from .report import Report, report
from .share import share
from .times import Times
from .trace import Trace, trace
from .vae import disable_vae, enable_vae

__all__ = [
    "Report",
    "Times",
    "Trace",
    "compare",
    "disable",
    "disable_vae",
    "enable",
    "enable_vae",
    "give_up",
    "init",
    "install",
    "launch",
    "new_image",
    "report",
    "set_steps",
    "share",
    "sum_gradients",
    "trace",
    "uninstall",
]
