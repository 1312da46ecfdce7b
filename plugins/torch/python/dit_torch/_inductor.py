"""What torch.compile's Inductor has to know about the operators: their memory and their order.

What is sent is read until its finish, on a stream beside the graph's. Inductor does not see that: it puts
other values into the memory of a tensor once the last operator that takes it was called, which is its start.

Results lie, on a GPU, in memory that peers write into. Inductor puts other values into the memory of those
that nobody needs any more; the operators copy such a value away before they fill the memory again: that is
safe, but the copy costs, and mode="reduce-overhead" refuses a graph's output that lies in memory of others.

What is started is to travel while the next tensors are computed. Passes of Inductor's put operators into
another order, "for locality" and "for peak memory": a start comes right before the next one then, behind the
projections between. Graphs with a start keep the order that they were traced in.
"""

from __future__ import annotations

import functools
import importlib
from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch.utils import _pytree as pytree


@functools.cache
def keep_apart() -> bool:
    """From now on nothing else is put into the memory of results and of what is under way. False where the
    operators are not there, or there is no Inductor. Imports it: for those who compile."""
    try:
        from torch._inductor import ir, lowering
        from torch._inductor.dependencies import StarDep
        from torch._inductor.virtualized import V

        every = (torch.ops.dit, torch.ops.dit_sized, torch.ops.dit_native)
        results = [torch.ops.dit.exchange.default]
        for ops in every:
            results += [op.default for op in (ops.finish, ops.gather, ops.scatter_qkv)]
        starts = [ops.start.default for ops in every]
        finishes = [ops.finish.default for ops in every]
    except (ImportError, AttributeError):
        return False

    def lowered_by(handler: Callable[..., Any], *args: Any, **kwargs: Any) -> tuple[Any, Any]:
        """What the handler returns, and the operator's call."""
        known = len(V.graph.buffers)
        lowered = handler(*args, **kwargs)
        return lowered, next(b for b in V.graph.buffers[known:] if isinstance(b, ir.FallbackKernel))

    def kept_result(handler: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        lowered, call = lowered_by(handler, *args, **kwargs)
        for result in pytree.tree_leaves(lowered):
            if isinstance(result, ir.TensorBox):
                V.graph.never_reuse_buffers.add(result.get_name())
        if call.op_overload in finishes:
            sources, kept = getattr(V.graph, "dit_sources", {}).get(call.inputs[0].get_name(), ((), ()))
            reads_too(call, sources)
            V.graph.never_reuse_buffers.difference_update(kept)
        return lowered

    def kept_sources(handler: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        lowered, call = lowered_by(handler, *args, **kwargs)
        sources = [source.get_name() for source in call.inputs]
        kept = [source for source in sources if source not in V.graph.never_reuse_buffers]
        V.graph.never_reuse_buffers.update(kept)  # for a finish in another graph, which knows nothing of them
        known = getattr(V.graph, "dit_sources", {})
        V.graph.dit_sources = {**known, lowered.get_name(): (sources, kept)}  # by tokens
        return lowered

    def reads_too(call: Any, sources: Iterable[str]) -> None:
        """The finish of a start reads its sources for Inductor: they stay till then, and go after it."""
        dependencies = [StarDep(source) for source in sources]
        reads = call.get_read_writes
        call.get_read_writes = lambda: functools.reduce(
            lambda all, one: all.with_read(one), dependencies, reads()
        )

    def has_start(graph: torch.fx.Graph) -> bool:
        return any(node.target in starts for node in graph.nodes)

    for op in results:
        lowering.lowerings[op] = functools.partial(kept_result, lowering.fallback_handler(op))
    for op in starts:
        lowering.lowerings[op] = functools.partial(kept_sources, lowering.fallback_handler(op))
    _leave_out("fx_passes.post_grad", "reorder_for_locality", has_start)
    _leave_out("memory", "reorder_for_peak_memory", lambda _: hasattr(V.graph, "dit_sources"))
    return True


def _leave_out(module: str, name: str, where: Callable[[Any], bool]) -> None:
    """One of Inductor's passes does nothing to some graphs. Where this torch has no such pass that is so."""
    try:
        home = importlib.import_module(f"torch._inductor.{module}")
        original = getattr(home, name)
    except (ImportError, AttributeError):
        return

    @functools.wraps(original)
    def unless(of: Any, *args: Any, **kwargs: Any) -> Any:
        return of if where(of) else original(of, *args, **kwargs)

    setattr(home, name, unless)
