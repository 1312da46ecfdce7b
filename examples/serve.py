#!/usr/bin/env python3
"""A server of pictures of FLUX.1 on several GPUs: torchrun --nproc-per-node 2 examples/serve.py [--checkpoint FOLDER --port 8000]
For programs on the same machine: it knows no passwords.

POST /picture with a JSON object: prompt, and if wanted height, width, steps, seed, guidance (over 1: true guidance), lora (the name of
an adapter), output ("latent": numbers as .npy; else a PNG) and id. DELETE /picture/ID gives a request up. Requests wait in one line.

Every rank carries out every request. One that fails, on whatever rank, is answered with an error in words (500), and the next one is
carried out: dit_torch makes a pass that fails on one rank fail on all of them, so all that is left to do is to catch the error, and to
tell of those that come between passes."""

from __future__ import annotations

import argparse
import io
import json
import queue
import threading
import zlib
from dataclasses import dataclass, field
from datetime import timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import dit_torch
import numpy as np
import torch
import torch.distributed as dist

DEFAULTS = {"height": 64, "width": 64, "steps": 4, "seed": 0, "guidance": 1.0, "lora": None, "output": "png", "id": ""}


class Cancelled(Exception):
    """By whoever asked for the picture."""


@dataclass
class Job:
    request: dict[str, Any]
    done: threading.Event = field(default_factory=threading.Event)
    cancelled: bool = False
    status: int = 500
    answer: bytes = b""

    def end(self, status: int, answer: bytes) -> None:
        self.status, self.answer = status, answer
        self.done.set()


class Server:
    """On each rank: a pipeline whose transformer is enabled. On rank 0 there is the line of jobs, too."""

    def __init__(self, pipe: Any) -> None:
        self.pipe = pipe
        self.jobs: queue.Queue[Job | None] = queue.Queue()
        self.known: dict[str, Job] = {}
        self.job: Job | None = None  # that is carried out
        self.control = dist.new_group(backend="gloo", timeout=timedelta(days=365))  # until the next request
        # Rank 0 alone leaves the pass: the others are told.
        self.hook = pipe.transformer.register_forward_pre_hook(self._cancel)

    def _cancel(self, *_: Any) -> None:
        if self.job is not None and self.job.cancelled:
            raise Cancelled("the request was cancelled")

    def submit(self, request: dict[str, Any]) -> Job:
        unknown = request.keys() - DEFAULTS.keys() - {"prompt"}
        if unknown or not isinstance(request.get("prompt"), str):
            raise ValueError(f"{sorted(unknown) or 'prompt'}: expected a prompt, and some of {', '.join(DEFAULTS)}")
        job = Job(DEFAULTS | request)
        self.known[job.request["id"]] = job
        self.jobs.put(job)
        return job

    def cancel(self, name: str) -> bool:
        job = self.known.get(name)
        if job is None or job.done.is_set():
            return False
        job.cancelled = True
        return True

    def run(self) -> None:
        """Carries out requests, until there is None in line on rank 0. On all ranks."""
        while True:
            told: list[Any] = [None]
            if dist.get_rank() == 0:
                self.job = self.jobs.get()
                told = [None if self.job is None else self.job.request]
            dist.broadcast_object_list(told, src=0, group=self.control)
            if told[0] is None:
                return
            answer, words = self._try(told[0])
            every: list[Any] = [None] * dist.get_world_size()
            dist.all_gather_object(every, words, group=self.control)
            # The others' words are about the one that failed first.
            failed = [one for one in every if one and "failed in its forward pass" not in one] or list(filter(None, every))
            if failed:
                dit_torch.give_up(self.pipe.transformer)  # also where it went well: all begin anew
            if self.job is not None:
                self.known.pop(self.job.request["id"], None)
                self.job.end(*((500, failed[0].encode()) if failed else (200, answer)))
                self.job = None

    def _try(self, request: dict[str, Any]) -> tuple[bytes, str]:
        try:
            answer = self.compute(request)
            if torch.cuda.is_available():
                torch.cuda.synchronize()
            dit_torch.report(self.pipe.transformer)  # raises where a GPU did not complete a pass
        except Exception as error:  # who asked is told, and the other ranks
            dit_torch.give_up(self.pipe.transformer, error)
            return b"", f"{type(error).__name__}: {error}"
        return answer, ""

    def compute(self, request: dict[str, Any]) -> bytes:
        transformer = self.pipe.transformer
        if request["lora"] is not None:
            transformer.set_adapter(request["lora"])
            transformer.enable_adapters()
        elif getattr(transformer, "peft_config", None):
            transformer.disable_adapters()
        device = next(transformer.parameters()).device
        guided = {}
        if request["guidance"] > 1:
            nothing = " ".join("nothing" for _ in request["prompt"].split())  # of the same length
            guided = {"true_cfg_scale": request["guidance"], **self.text(nothing, "negative_")}
        image = self.pipe(
            **self.text(request["prompt"], ""),
            **guided,
            height=request["height"],
            width=request["width"],
            num_inference_steps=request["steps"],
            generator=torch.Generator(device).manual_seed(request["seed"]),  # the same noise on all ranks
            output_type="latent" if request["output"] == "latent" else "pil",
        ).images[0]
        file = io.BytesIO()
        if request["output"] == "latent":
            np.save(file, image.float().cpu().numpy())
        else:
            image.save(file, "png")
        return file.getvalue()

    def text(self, prompt: str, kind: str) -> dict[str, Any]:
        """For the pipeline: the prompt, or, without text encoders, embeddings of as many tokens as it has words."""
        if self.pipe.text_encoder is not None:
            return {f"{kind}prompt": prompt}
        model = self.pipe.transformer
        config, generator = model.config, torch.Generator().manual_seed(zlib.crc32(prompt.encode()))
        shapes = {
            f"{kind}prompt_embeds": (1, len(prompt.split()) or 1, config.joint_attention_dim),
            f"{kind}pooled_prompt_embeds": (1, config.pooled_projection_dim),
        }
        return {name: torch.randn(shape, generator=generator).to(model.device, model.dtype) for name, shape in shapes.items()}


def handler_of(server: Server) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            try:
                job = server.submit(json.loads(self.rfile.read(int(self.headers["Content-Length"] or 0))))
            except (ValueError, AttributeError, TypeError) as error:
                return self.give(400, str(error).encode())
            job.done.wait()
            self.give(job.status, job.answer)

        def do_DELETE(self) -> None:
            self.give(200 if server.cancel(self.path.rpartition("/")[2]) else 404, b"")

        def give(self, status: int, answer: bytes) -> None:
            self.send_response(status)
            self.send_header("Content-Length", str(len(answer)))
            self.end_headers()
            self.wfile.write(answer)

        def log_message(self, *_: Any) -> None: ...

    return Handler


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--checkpoint", help="folder or hub name, such as black-forest-labs/FLUX.1-dev; none: tiny random weights")
    parser.add_argument("--fp8", action="store_true", help="the transformer's weights take half the memory; pictures change")
    parser.add_argument("--lora", action="append", default=[], metavar="NAME=PATH")
    parser.add_argument("--port", type=int, default=8000)
    options = parser.parse_args()
    import flux_inputs  # beside this file: random weights
    from diffusers import FluxPipeline

    rank = dit_torch.init().rank
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    torch.manual_seed(0)  # the same random weights on all ranks
    if options.checkpoint:
        pipe = FluxPipeline.from_pretrained(options.checkpoint, torch_dtype=torch.bfloat16)
    else:
        pipe = flux_inputs.random_pipeline(True, device)
    for name, _, path in (one.partition("=") for one in options.lora):
        pipe.load_lora_weights(path, adapter_name=name)
    if options.fp8:
        pipe.transformer.enable_layerwise_casting(storage_dtype=torch.float8_e4m3fn, compute_dtype=torch.bfloat16)
    pipe.to(device)
    pipe.set_progress_bar_config(disable=True)
    dit_torch.enable(pipe.transformer)
    server = Server(pipe)
    if rank == 0:
        http = ThreadingHTTPServer(("localhost", options.port), handler_of(server))
        print(f"listening on port {http.server_port}", flush=True)
        threading.Thread(target=http.serve_forever, daemon=True).start()
    server.run()


if __name__ == "__main__":
    main()
