"""What policies cost on your pictures: the same prompts and seeds, exact and coded, and a page to look at.

torchrun --nproc-per-node 2 -m dit_torch.compare --pipeline FOLDER --prompts prompts.txt --out compare.html
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist

from .. import compare, init, launch


def main(arguments: Sequence[str] | None = None) -> None:
    options = parse(arguments)
    if options.apart:  # before the ranks meet; NCCL lets no two ranks of a node share a GPU
        rank = dist.get_rank() if dist.is_initialized() else launch().rank
        os.environ["NCCL_HOSTID"] = os.environ["TAPA_DEVICE_NODE"] = f"node-{rank}"
    init()
    program, transformers = load(options)
    found = compare(
        program,
        options.prompts,
        options.policies,
        steps=options.steps,
        seeds=range(options.seeds),
        transformers=transformers,
        page=options.out,
        **options.set,
    )
    if dist.get_rank() == 0:
        print(found)
        print(f"pictures: {options.out}")


def parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="dit_torch.compare", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    what = parser.add_mutually_exclusive_group(required=True)
    what.add_argument("--pipeline", metavar="FOLDER", help="of diffusers, as save_pretrained() writes it")
    what.add_argument(
        "--program",
        metavar="FILE.py",
        type=Path,
        help="your own: its load() returns a pipeline, or a call of a prompt and a seed, and transformers",
    )
    parser.add_argument(
        "--prompts", metavar="FILE", required=True, type=_prompts, help="one a line; # begins a comment"
    )
    parser.add_argument("--policies", type=_names, default="good,balanced,fast", help="default: %(default)s")
    parser.add_argument("--steps", type=_count, default=28, help="of a picture; default: %(default)s")
    parser.add_argument(
        "--seeds", type=_count, default=1, help="pictures of each prompt; default: %(default)s"
    )
    parser.add_argument("--out", type=Path, default=Path("compare.html"), help="default: %(default)s")
    parser.add_argument("--dtype", choices=("bfloat16", "float16", "float32"), default="bfloat16")
    parser.add_argument(
        "--set",
        metavar="NAME=VALUE",
        type=_setting,
        action="append",
        default=[],
        help="what the pipeline is called with, such as height=1024",
    )
    parser.add_argument(
        "--apart",
        action="store_true",
        help="each rank is a node of its own: policies code also what GPUs that reach each other send",
    )
    options = parser.parse_args(arguments)
    options.set = dict(options.set)
    return options


def load(options: argparse.Namespace) -> tuple[Any, Any]:
    """A pipeline and nothing, or a call and its transformers."""
    if options.pipeline is not None:
        from diffusers import DiffusionPipeline

        device = "cuda" if torch.cuda.is_available() else "cpu"
        dtype = getattr(torch, options.dtype)
        pipeline = DiffusionPipeline.from_pretrained(options.pipeline, torch_dtype=dtype).to(device)
        pipeline.set_progress_bar_config(disable=dist.get_rank() != 0)
        return pipeline, None
    spec = importlib.util.spec_from_file_location(options.program.stem, options.program)
    if spec is None or spec.loader is None or not options.program.is_file():
        raise SystemExit(f"--program = {options.program}: expected a file of Python")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    if not callable(getattr(module, "load", None)):
        raise SystemExit(f"--program = {options.program}: it has no load(); expected a function of that name")
    loaded = module.load()
    return loaded if isinstance(loaded, tuple) and len(loaded) == 2 else (loaded, None)


def _prompts(name: str) -> list[str]:
    try:
        lines = [line.strip() for line in Path(name).read_text(encoding="utf-8").splitlines()]
    except (OSError, UnicodeDecodeError) as error:
        raise argparse.ArgumentTypeError(f"{name}: {error}") from error
    prompts = [line for line in lines if line and not line.startswith("#")]
    if not prompts:
        raise argparse.ArgumentTypeError(f"{name}: no prompt in it; expected one a line")
    return prompts


def _names(text: str) -> list[str]:
    return [name for name in text.split(",") if name]


def _count(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text}: expected a number, at least 1")
    return int(text)


def _setting(text: str) -> tuple[str, Any]:
    name, equals, value = text.partition("=")
    if not name.isidentifier() or not equals:
        raise argparse.ArgumentTypeError(f"{text}: expected a name, = and a value")
    try:
        return name, json.loads(value)
    except json.JSONDecodeError:
        return name, value


if __name__ == "__main__":
    main()
    dist.destroy_process_group()
