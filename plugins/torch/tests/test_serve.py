"""A server as the judge: examples/serve.py answers as one rank would, or with an error in words."""

from __future__ import annotations

import importlib.util
import io
import json
import os
import random
import subprocess
import sys
import threading
import urllib.error
import urllib.request
from datetime import timedelta
from http.server import ThreadingHTTPServer
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import torch.distributed as dist
from torch import nn

import dit_torch
import ranks
import tiny

EXAMPLE = Path(__file__).parents[3] / "examples" / "serve.py"


def _serve() -> Any:
    spec = importlib.util.spec_from_file_location("serve", EXAMPLE)
    assert spec is not None and spec.loader is not None
    module = sys.modules["serve"] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def _pipe() -> Any:
    diffusers = pytest.importorskip("diffusers")
    peft = pytest.importorskip("peft")
    model = tiny.flux(3, in_channels=16)
    targets = ["to_q", "to_k", "to_v", "proj_out"]
    for seed, name in enumerate(("bold", "faint")):
        model.add_adapter(peft.LoraConfig(r=4, target_modules=targets, init_lora_weights=False), name)
        generator = torch.Generator().manual_seed(seed)
        for key, weight in model.named_parameters():
            if f".{name}." in key:
                weight.data.copy_(0.3 * torch.randn(weight.shape, generator=generator))
    torch.manual_seed(0)
    vae = diffusers.AutoencoderKL(
        block_out_channels=(4,), latent_channels=4, norm_num_groups=1, use_quant_conv=False
    )
    scheduler = diffusers.FlowMatchEulerDiscreteScheduler()
    pipe = diffusers.FluxPipeline(scheduler, vae, None, None, None, None, model.eval())
    pipe.set_progress_bar_config(disable=True)
    return pipe


FAULTS = ("memory of rank 0", "after a pass of rank 1", "memory of rank 1", "cancelled", "of no size")


def _requests(count: int) -> list[dict[str, Any]]:
    """Of all kinds, in some order; each eighth meets with a fault."""
    chance = random.Random(1)
    requests = []
    for number in range(count):
        request: dict[str, Any] = {
            "prompt": " ".join(["word"] * chance.randint(1, 9)),
            "height": chance.choice((6, 8, 10)),
            "width": chance.choice((4, 6)),
            "steps": chance.randint(1, 3),
            "seed": chance.randint(0, 5),
            "guidance": chance.choice((1.0, 1.0, 3.0)),
            "lora": chance.choice((None, None, "bold", "faint")),
            "output": "latent",
            "id": str(number),
        }
        if number % 8 == 3:
            request["id"] += " " + FAULTS[number // 8 % len(FAULTS)]
            request["steps"] = 3
        requests.append(request | ({"height": "tall"} if "of no size" in request["id"] else {}))
    return requests


class _Faults:
    """What befalls requests, by their names: before a module of the second pass, or behind that pass."""

    def __init__(self, server: Any, where: nn.Module) -> None:
        self.server, self.passes, self.last = server, 0, ""
        where.register_forward_pre_hook(self._strike)
        self.step, server.pipe.scheduler.step = server.pipe.scheduler.step, self._step

    def begin(self, request: dict[str, Any]) -> None:
        self.passes, self.last = 0, request["id"]

    def _step(self, *given: Any, **named: Any) -> Any:
        if self.passes == 2 and f"after a pass of rank {dist.get_rank()}" in self.last:
            raise torch.OutOfMemoryError("none is left on this rank")
        return self.step(*given, **named)

    def _strike(self, *_: Any) -> None:
        self.passes += 1
        if self.passes != 2:
            return
        if f"memory of rank {dist.get_rank()}" in self.last:
            raise torch.OutOfMemoryError("none is left on this rank")
        if "cancelled" in self.last and dist.get_rank() == 0:
            assert self.server.cancel(self.last)


def _asked(port: int, request: dict[str, Any]) -> tuple[int, bytes]:
    call = urllib.request.Request(f"http://127.0.0.1:{port}/picture", json.dumps(request).encode())
    try:
        with urllib.request.urlopen(call, timeout=250) as answer:
            return answer.status, answer.read()
    except urllib.error.HTTPError as error:
        return error.code, error.read()


def _served(count: int, options: dict[str, Any]) -> list[tuple[int, bytes, bytes | None]]:
    """Answers, and what one rank gives; on rank 0."""
    serve = _serve()
    pipe = _pipe()
    server = serve.Server(pipe)
    alone: list[bytes | None] = []
    if dist.get_rank() == 0:
        for request in _requests(count):
            fails = any(fault in request["id"] for fault in FAULTS)
            alone.append(None if fails else server.compute(serve.DEFAULTS | request))
    dist.barrier()
    pipe.transformer.set_adapter("bold")  # as on the ranks that have served nothing yet
    pipe.transformer.enable_adapters()
    dit_torch.enable(pipe.transformer, **options)
    faults = _Faults(server, pipe.transformer.transformer_blocks[1])
    compute = server.compute

    def begin(request: dict[str, Any]) -> bytes:
        faults.begin(request)
        return compute(request)

    server.compute = begin
    answers: list[tuple[int, bytes]] = []
    if dist.get_rank() == 0:
        http = ThreadingHTTPServer(("127.0.0.1", 0), serve.handler_of(server))
        threading.Thread(target=http.serve_forever, daemon=True).start()
        asking = threading.Thread(target=_ask_all, args=(http.server_port, count, answers, server))
        asking.start()
    server.run()
    dit_torch.disable(pipe.transformer)
    return [(*one, other) for one, other in zip(answers, alone, strict=True)]


def _ask_all(port: int, count: int, answers: list[tuple[int, bytes]], server: Any) -> None:
    """Two at once, always."""
    requests = _requests(count)
    answers += [(0, b"")] * count

    def ask(first: int) -> None:
        for number in range(first, count, 2):
            answers[number] = _asked(port, requests[number])

    both = [threading.Thread(target=ask, args=(first,)) for first in range(2)]
    for one in both:
        one.start()
    for one in both:
        one.join()
    server.jobs.put(None)


def _idle() -> bytes:
    """Nobody asks for longer than torch.distributed waits for anything."""
    torch.distributed.distributed_c10d.default_pg_timeout = timedelta(seconds=1)
    serve = _serve()
    server = serve.Server(_pipe())
    dit_torch.enable(server.pipe.transformer)
    jobs = []

    def ask() -> None:
        jobs.append(server.submit(_requests(1)[0]))
        server.jobs.put(None)

    if dist.get_rank() == 0:
        threading.Timer(3.0, ask).start()
    server.run()
    dit_torch.disable(server.pipe.transformer)
    return jobs[0].answer if jobs else b""


def test_a_server_that_nobody_asks_waits() -> None:
    answer, _ = ranks.run(2, _idle, timeout=100)
    assert np.isfinite(np.load(io.BytesIO(answer))).all()


LONG = bool(os.environ.get("DIT_TORCH_TEST_LONG"))


@pytest.mark.parametrize("options", [{}, {"cfg_parallel": True}, {"parallel": "auto"}])
def test_each_answer_is_one_ranks_or_an_error_in_words(options: dict[str, Any]) -> None:
    count = 200 if LONG else 36
    told = ranks.run(2, _served, count, options, timeout=3000 if LONG else 150)[0]
    for request, (status, answer, alone) in zip(_requests(count), told, strict=True):
        if alone is None:
            expected = ("OutOfMemoryError: none is left", "Cancelled: the request was cancelled", "Error")
            assert status == 500 and any(words in answer.decode() for words in expected), (request, answer)
            continue
        assert status == 200, (request, answer)
        one, every = np.load(io.BytesIO(alone)), np.load(io.BytesIO(answer))
        np.testing.assert_allclose(every, one, rtol=0, atol=5e-5, err_msg=str(request))


def test_the_program_answers_with_weights_in_fp8() -> None:
    launch = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": ""}
    command = [*launch, str(EXAMPLE), "--fp8", "--port", "0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment) as process:
        try:
            assert process.stdout is not None
            said = next((line for line in process.stdout if line.startswith("listening on port")), "")
            assert said, "the program ended"
            status, answer = _asked(int(said.split()[-1]), {"prompt": "a harbour", "steps": 1})
            assert status == 200 and answer.startswith(b"\x89PNG"), answer
        finally:
            process.terminate()
