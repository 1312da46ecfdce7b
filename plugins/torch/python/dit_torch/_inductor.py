"""What torch.compile's Inductor has to know about the operators' results.

On a GPU they lie in memory that peers write into. Inductor puts other values into the memory of results that
nobody needs any more; the operators copy such a value away before they fill the memory again: that is safe,
but the copy costs, and mode="reduce-overhead" refuses a graph's output that lies in memory of others.
"""

from __future__ import annotations

import functools
from typing import Any

import torch
from torch.utils import _pytree as pytree


@functools.cache
def keep_results_apart() -> bool:
    """From now on nothing but results is put into their memory. False where this torch has no such thing, or
    the operators are not there. Imports Inductor: for those who compile."""
    try:
        from torch._inductor import ir, lowering
        from torch._inductor.virtualized import V

        operators = torch.ops.dit
        results = [operators.finish, operators.exchange, operators.gather, operators.scatter_qkv]
        handlers = {op.default: lowering.fallback_handler(op.default) for op in results}
    except (ImportError, AttributeError):
        return False

    def lower(handler: Any, *args: Any, **kwargs: Any) -> Any:
        lowered = handler(*args, **kwargs)
        for result in pytree.tree_leaves(lowered):
            if isinstance(result, ir.TensorBox):
                V.graph.never_reuse_buffers.add(result.get_name())
        return lowered

    for op, handler in handlers.items():
        lowering.lowerings[op] = functools.partial(lower, handler)
    return True
