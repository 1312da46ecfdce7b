"""The ways to run a transformer on several GPUs that are raced: copies of the model that share its weights."""

from __future__ import annotations

import contextlib
import copy
import dataclasses
from collections.abc import Callable, Iterator
from typing import Any

import guidance
import peers
import sd3
import torch
import torch.distributed as dist
from cases import Case, Inputs
from torch import Tensor, nn


@dataclasses.dataclass
class Way:
    """A model prepared for one way, and what has to be in place while it runs."""

    model: nn.Module
    around: Callable[[], contextlib.AbstractContextManager[None]] = contextlib.nullcontext
    step: Callable[[nn.Module, Inputs], Tensor] = guidance.step

    def forward(self, inputs: Inputs) -> Tensor:
        """One pass, or the passes of a guided step."""
        with torch.no_grad(), self.around():
            return self.step(self.model, inputs)

    def captured(self, inputs: Inputs) -> Callable[[], Tensor]:
        """The same as a CUDA graph: no work of the host is left but one launch."""
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, capture_error_mode="thread_local"):
            output = self.forward(inputs)

        def replay() -> Tensor:
            graph.replay()
            return output

        return replay


def share(model: nn.Module) -> nn.Module:
    """A copy with its own modules, hooks and processors over the same weights."""
    tensors = [*model.parameters(), *model.buffers()]
    return copy.deepcopy(model, {id(tensor): tensor for tensor in tensors})


def set_kernel(model: nn.Module, device: torch.device, dispatcher: bool) -> None:
    """The same attention kernel for all: cuDNN's, in torch's own function and in diffusers' dispatcher."""
    if device.type != "cuda":
        return
    torch.backends.cuda.enable_flash_sdp(False)
    torch.backends.cuda.enable_mem_efficient_sdp(False)
    torch.backends.cuda.enable_math_sdp(False)
    torch.backends.cuda.enable_cudnn_sdp(True)
    if dispatcher:
        model.set_attention_backend("_native_cudnn")  # type: ignore[operator]


@contextlib.contextmanager
def _exchange(function: Callable[..., Tensor] | None) -> Iterator[None]:
    """diffusers' attention over several ranks is `function` inside."""
    from diffusers.models import attention_dispatch

    original = attention_dispatch._templated_context_parallel_attention
    if function is not None:
        attention_dispatch._templated_context_parallel_attention = function
    try:
        yield
    finally:
        attention_dispatch._templated_context_parallel_attention = original


def _diffusers(model: nn.Module, function: Callable[..., Tensor] | None) -> Way:
    from diffusers import ContextParallelConfig

    model.enable_parallelism(config=ContextParallelConfig(ulysses_degree=dist.get_world_size()))  # type: ignore[operator]
    return Way(model, lambda: _exchange(function))


def _branches(model: nn.Module, device: torch.device) -> Way:
    """In each half of the ranks Q, K and V in one exchange, where it has several ranks."""
    from diffusers import ContextParallelConfig

    halves = guidance.Halves(device)
    if halves.ranks == 1:
        return Way(model, step=halves.step)
    config = ContextParallelConfig(ulysses_degree=halves.ranks, mesh=halves.mesh)
    model.enable_parallelism(config=config)  # type: ignore[operator]
    return Way(model, lambda: _exchange(peers.packed_attention), halves.step)


def _cache_dit(model: nn.Module, case: Case, asynchronous: bool) -> Way:
    import cache_dit
    from cache_dit import ParallelismConfig

    config = ParallelismConfig(
        ulysses_size=dist.get_world_size(),
        ulysses_async=asynchronous,
        attention_backend="_sdpa_cudnn" if torch.cuda.is_available() else "native",
    )
    cache_dit.enable_cache(model, parallelism_config=config)
    return Way(model)


_OPTIONS: dict[str, dict[str, Any]] = {
    "uncompared": {"compare": False},  # inputs of a pass are not compared between ranks
    "branches": {"cfg_parallel": True},
    "auto": {"parallel": "auto"},
    "graphs": {"graphs": True},
}


def _ours(model: nn.Module, words: list[str], more: dict[str, Any]) -> Way:
    """dit_torch with the schedule, the policy and the options that the way's name gives."""
    import dit_torch

    options: dict[str, Any] = dict(zip(("schedule", "policy"), words, strict=False))
    for word in words[2:]:
        options |= _OPTIONS[word]
    dit_torch.enable(model, **{**options, **more})
    return Way(model)


# Ways that patch diffusers' classes for the whole process: they run after the others.
PATCHING = ("cache-dit", "cache-dit-async")
# Exact ways, in the order of the tables' columns.
EXACT = ("one", "bound", "diffusers", "packed", "branches", "ours", *PATCHING)
PEERS = ("diffusers", "packed", "branches", *PATCHING)


def prepare(name: str, model: nn.Module, case: Case, device: torch.device, **more: Any) -> Way:
    """Ways: one (a GPU alone), bound (no exchange, so a wrong result), diffusers, packed (Q, K and V in one
    exchange), branches (a branch of guidance on each half of the ranks, packed within it), cache-dit,
    cache-dit-async, ours, ours:SCHEDULE, ours:SCHEDULE:POLICY, ours:SCHEDULE:POLICY:OPTION with one of _OPTIONS.

    :param more: further arguments of dit_torch.enable
    """
    model = share(model)
    set_kernel(model, device, dispatcher=name not in PATCHING)  # cache-dit has a dispatcher of its own
    words = name.split(":")
    if words[0] == "ours":
        return _ours(model, words[1:], more)
    if name == "one":
        return Way(model)
    if name == "branches":
        return _branches(model, device)
    if name in PATCHING:
        return _cache_dit(model, case, name.endswith("async"))
    if case.transformer == "SD3Transformer2DModel":
        if name not in ("bound", "packed"):
            raise NotImplementedError("diffusers has no plan for SD3")
        return Way(sd3.parallelize(model, exchange=name == "packed"))
    functions = {
        "diffusers": None,
        "packed": peers.packed_attention,
        "bound": peers.attention_without_exchange,
    }
    return _diffusers(model, functions[name])


def reported(name: str, way: Way) -> dict[str, Any]:
    """What dit_torch tells of a way of ours: levels, bytes, memory."""
    if not name.startswith("ours"):
        return {}
    import dit_torch

    told = dit_torch.report(way.model)
    words = ("parallel", "schedule", "policy", "levels", "full_bytes", "exchange_bytes", "parameter_bytes", "peak_bytes", "off")
    return {"report": {word: getattr(told, word) for word in words}}


def compile_blocks(way: Way, case: Case, whole: bool = True) -> None:
    """Regional compilation, as diffusers' users do it; with `whole`, no breaks of the graph."""
    way.model._repeated_blocks = list(case.repeated)  # type: ignore[assignment]
    way.model.compile_repeated_blocks(fullgraph=whole, dynamic=False)  # type: ignore[operator]
