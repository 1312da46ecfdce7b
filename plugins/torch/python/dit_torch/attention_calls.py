"""Our exchange around the attention call of diffusers' own code, or of anybody's, in the modules that a plan
names.

Their code calls diffusers' dispatch_attention_fn or torch's scaled_dot_product_attention. In the files whose
classes call them those names stand for functions of ours while a transformer is enabled. They ask which of
its modules is running; for all others nothing changes.
"""

from __future__ import annotations

import functools
import itertools
import sys
import threading
import types
from collections.abc import Callable, Iterator
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from .attention import attention_dispatch
from .entries import Alone, Attention, OwnWay, Plan
from .exchange import KEY, QUERY, VALUE, Exchange
from .heads import own_mask, shared_heads, whole_mask, without_padding
from .layer_number import LayerNumber
from .layout import Layout
from .many_streams import MOST_STREAMS, ManyStreams
from .own_attention import check_heads
from .parallel import Parallel
from .patch import Patch, signature_of
from .plan import gather_all, modules_of
from .processors.family import processors_of
from .sequence import WHOLE, names_of, present, sizes_of_part

Kernel = Callable[[Tensor, Tensor, Tensor, Any, bool, bool], Tensor]  # q, k, v, mask, is_causal, enable_gqa


class _Here(threading.local):
    """What runs in this thread."""

    seam: Seam | None = None


class _Traced:
    """What a compiler traces, which sees no threads."""

    def __init__(self) -> None:
        self.seam: Seam | None = None  # there from the start: else the first graph is for when it is not


_here, _traced = _Here(), _Traced()


def _running() -> Seam | None:
    if torch.compiler.is_compiling():
        return _traced.seam
    return _here.seam or _traced.seam  # the latter where a graph is broken within a module


class Seam:
    """The attention of one module, over tokens of all ranks.

    :param entry: which tokens
    :param where: the module's name, for errors
    """

    def __init__(self, parallel: Parallel, layer: int, entry: Attention, where: str) -> None:
        self.parallel = parallel
        self.layer = LayerNumber(layer)
        self.entry = entry
        self.where = where
        self.calls = 0  # in this run of the module

    def attend(
        self, q: Tensor, k: Tensor, v: Tensor, mask: Any, is_causal: bool, gqa: bool, kernel: Kernel
    ) -> Tensor:
        """Tensors are [batch, rows, heads, head_dim]."""
        self.calls += 1
        if self.calls <= self.entry.skip:
            return kernel(q, k, v, mask, is_causal, gqa)
        self._check(q, k, v)
        parallel = self.parallel
        queries = present(self.entry.queries, parallel)
        keys = queries if self.entry.keys is None else present(self.entry.keys, parallel)
        if self.entry.outer_mask and mask is not None:
            mask = whole_mask(mask, queries, parallel)
        elif self.entry.part_mask and mask is not None:
            if mask.dim() > 1 and mask.shape[-2] != 1:
                raise ValueError(
                    f"{self.where}: a mask {tuple(mask.shape)} of each query; expected one for all queries"
                )
            mask = gather_all(mask, mask.dim() - 1, keys, parallel)
        elif isinstance(mask, Tensor):
            mask = without_padding(mask, k.shape[1], keys, parallel)
        if len(names_of(queries)) <= MOST_STREAMS:
            return self._attend(q, k, v, queries, keys, mask, is_causal, gqa, kernel)
        if keys != queries or is_causal:
            raise ValueError(f"{self.where}: attention over {queries}; expected keys alike, and no is_causal")
        many = ManyStreams(queries, q.shape[1], parallel, self.where)
        q, k, v = many.gathered(q), many.gathered(k), many.gathered(v)
        o = self._attend(q, k, v, many.streams, many.streams, many.mask(mask), False, gqa, kernel)
        return many.own(o)

    def _attend(
        self,
        q: Tensor,
        k: Tensor,
        v: Tensor,
        queries: str,
        keys: str,
        mask: Any,
        is_causal: bool,
        gqa: bool,
        kernel: Kernel,
    ) -> Tensor:
        across = queries != keys
        if across and k.shape[2] != q.shape[2]:  # heads of Q and of K go their ways apart
            sharing = q.shape[2] // k.shape[2]
            k, v = (x.repeat_interleave(sharing, dim=2) for x in (k, v))
        layout = self._layout(queries, q.shape[1], q.shape[2], k.shape[2])
        of_keys = layout if not across else self._layout(keys, k.shape[1], k.shape[2], k.shape[2])
        layer = self.parallel.layer(self.layer)
        if across:
            others = self._exchange(k, of_keys, keys)
            exchange = self._exchange(q, layout, queries, has_value=False)
            value = others.start(VALUE, v, layer)
            key = others.start(KEY, k, layer, after=value.token)
            query = exchange.start(QUERY, q, layer, after=key.token)
            v, k = others.finish(value, layer), others.finish(key, layer)
            q = exchange.finish(query, layer)
        else:
            exchange = self._exchange(q, layout, queries)
            q, k, v = exchange.scatter_qkv(q, k, v, layer)
        k, v, gqa = shared_heads(k, v, layout, self.parallel.group.rank, gqa)
        if mask is not None or is_causal:
            mask, is_causal = own_mask(
                mask, is_causal, layout, of_keys, self.parallel.group.rank, q, self.where
            )
        return exchange.gather(kernel(q, k, v, mask, is_causal, gqa).to(q.dtype), layer)

    def _check(self, q: Tensor, k: Tensor, v: Tensor) -> None:
        if q.shape[3] != v.shape[3] or k.shape != v.shape:
            raise ValueError(
                f"{self.where}: Q, K and V have the shapes {tuple(q.shape)}, {tuple(k.shape)}, "
                f"{tuple(v.shape)}; expected K and V alike, and heads of one size"
            )
        if self.parallel.sage:
            raise ValueError(
                f"policy = 'sage-int8': {self.where} attends by diffusers' code; expected dit_torch's"
            )
        if self.calls > self.entry.skip + 1 and not self.parallel.exchanges.exact:
            raise ValueError(
                f"policy = {self.parallel.exchanges.policy!r}: expected 'exact', as {self.where} attends "
                "more than once in a pass, and what it sent before cannot be distinguished"
            )

    def _layout(self, streams: str, rows: int, heads: int, kv_heads: int) -> Layout:
        """Of tokens that this rank has `rows` of."""
        sizes = sizes_of_part(streams, rows, self.parallel, self.where)
        tokens = dict(sizes) | {name: self.parallel.tokens[name] for name, _ in sizes if name != WHOLE}
        image_first, text, image = _order(streams)
        of_text = 0 if text is None else tokens[text]
        ranks = self.parallel.group.size
        if text == WHOLE and torch.compiler.is_compiling():  # kernels ask, of a number that comes from data
            torch._check(of_text + tokens[image] > 0)
            torch._check(of_text + tokens[image] != 1)
        return Layout(1, of_text, tokens[image], heads, kv_heads, 1, ranks, image_first, text == WHOLE)

    def _exchange(self, x: Tensor, layout: Layout, streams: str, has_value: bool = True) -> Exchange:
        _, text, image = _order(streams)
        return self.parallel.joint(
            x,
            text=layout.text if text == WHOLE else text,
            image=image,
            image_first=layout.image_first,
            text_replicated=layout.text_replicated,
            kv_heads=layout.kv_heads,
            has_value=has_value,
        )


def _order(streams: str) -> tuple[bool, str | None, str]:
    """Which of one or two streams is an exchange's image, and comes first, and its text if there is one.
    Tokens that are whole are its text; a single stream is its image."""
    names = names_of(streams)
    if len(names) == 1 and names != [WHOLE]:
        return False, None, names[0]
    if len(names) != 2 or names[0] == names[1]:
        raise ValueError(
            f"plan: attention over {streams!r}; expected a stream, or several, of which one may be {WHOLE!r}"
        )
    if names[1] == WHOLE:
        return True, names[1], names[0]
    return False, names[0], names[1]


def _dispatch(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attn_mask: Any = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: float | None = None,
    enable_gqa: bool = False,
    *rest: Any,
    **named: Any,
) -> Tensor:
    """In place of diffusers' dispatch_attention_fn."""
    function, seam = attention_dispatch.dispatch_attention_fn, _running()
    if seam is None:
        return function(query, key, value, attn_mask, dropout_p, is_causal, scale, enable_gqa, *rest, **named)
    if isinstance(attn_mask, Tensor) and attn_mask.dim() == 2 and attn_mask.shape[0] == query.shape[0]:
        attn_mask = attn_mask[:, None, None, :]  # as the kernel takes it: of each sample's keys

    def kernel(q: Tensor, k: Tensor, v: Tensor, mask: Any, is_causal: bool, gqa: bool) -> Tensor:
        return function(q, k, v, mask, dropout_p, is_causal, scale, gqa, *rest, **named)

    return seam.attend(query, key, value, attn_mask, is_causal, enable_gqa, kernel)


def _scaled_dot_product(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attn_mask: Tensor | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> Tensor:
    """In place of torch's scaled_dot_product_attention."""
    seam = _running()
    named: dict[str, Any] = {"enable_gqa": True} if enable_gqa else {}  # older torch has no such argument
    if seam is None:
        return F.scaled_dot_product_attention(
            query, key, value, attn_mask, dropout_p, is_causal, scale=scale, **named
        )
    if query.dim() != 4:
        raise ValueError(f"{seam.where}: attention of {query.dim()} dimensions; expected 4")

    def kernel(q: Tensor, k: Tensor, v: Tensor, mask: Any, is_causal: bool, gqa: bool) -> Tensor:
        shared: dict[str, Any] = {"enable_gqa": True} if gqa else {}
        q, k, v = (x.transpose(1, 2) for x in (q, k, v))
        o = F.scaled_dot_product_attention(q, k, v, mask, dropout_p, is_causal, scale=scale, **shared)
        return o.transpose(1, 2)

    q, k, v = (_rows_first(x) for x in (query, key, value))
    return seam.attend(q, k, v, attn_mask, is_causal, enable_gqa, kernel).transpose(1, 2)


def _rows_first(x: Tensor) -> Tensor:
    x = x.transpose(1, 2)
    return x if x.stride(-1) == 1 else x.contiguous()


class _Functional(types.ModuleType):
    """torch.nn.functional, with our function in it."""

    def __init__(self) -> None:
        super().__init__(F.__name__)
        self.__dict__.update(vars(F))
        self.__dict__["scaled_dot_product_attention"] = _scaled_dot_product


_functional = _Functional()
_users: dict[tuple[str, str], int] = {}  # of names in files' modules that are ours


def _ours(value: Any) -> Any:
    """What a name stands for while a transformer is enabled; None: it stays."""
    if value is F or value is _functional:
        return _functional
    if value is F.scaled_dot_product_attention or value is _scaled_dot_product:
        return _scaled_dot_product
    theirs = getattr(attention_dispatch, "dispatch_attention_fn", _dispatch)
    return _dispatch if value is theirs or value is _dispatch else None


def _theirs(value: Any) -> Any:
    if value is _functional:
        return F
    dot_product = value is _scaled_dot_product
    return F.scaled_dot_product_attention if dot_product else attention_dispatch.dispatch_attention_fn


class _Names:
    """Ours in the files that the classes of some objects are from; remove() gives theirs back."""

    def __init__(self, objects: list[Any]) -> None:
        files = {cls.__module__ for one in objects for cls in type(one).__mro__}
        own = attention_dispatch.__name__ if attention_dispatch is not None else ""
        self.names: list[tuple[str, str]] = []
        for file in sorted(files - {own}):
            if file.split(".")[0] in ("torch", "builtins", "dit_torch"):
                continue
            for name, value in list(vars(sys.modules[file]).items()):
                ours = _ours(value)
                if ours is not None and not name.startswith("__"):  # a compiler's
                    setattr(sys.modules[file], name, ours)
                    self.names.append((file, name))
        for one in self.names:
            _users[one] = _users.get(one, 0) + 1

    def remove(self) -> None:
        for file, name in self.names:
            _users[file, name] -= 1
            if _users[file, name] == 0 and _ours(vars(sys.modules[file])[name]) is not None:
                setattr(sys.modules[file], name, _theirs(vars(sys.modules[file])[name]))
        self.names = []


def _around(module: nn.Module, seam: Seam) -> Callable[..., Any]:
    """A module's forward, whose attention is this seam's."""
    original = module.forward
    # Of a module whose graph is broken no part is compiled: graphs of parts would not see what runs here.
    alone = torch.compiler.disable(original)
    cached = "_diffusers_hook" in module.__dict__  # a cache of diffusers' may leave attention out

    def forward(*args: Any, **kwargs: Any) -> Any:
        compiling = torch.compiler.is_compiling()
        here, call = (_traced, original) if compiling else (_here, alone)
        before, here.seam = here.seam, seam
        seam.calls = 0
        try:
            output = call(*args, **kwargs)
        finally:
            here.seam = before
        if seam.calls <= seam.entry.skip and not cached:
            raise RuntimeError(
                f"{seam.where} has attended without diffusers' dispatch_attention_fn or torch's "
                "scaled_dot_product_attention, so only over tokens of this rank: expected one of them"
            )
        return output

    return forward


def _needs(entry: Alone, where: str, names: list[str]) -> Callable[..., None]:
    """Pre-hook of cross-attention: without keys of its own a module attends to its queries."""

    def hook(module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        given = (dict(zip(names, args, strict=False)) | kwargs).get(entry.needs)
        if given is None or (isinstance(given, tuple) and given[0] is None):
            what = "None" if entry.needs in names else f"no argument of {type(module).__name__}.forward"
            raise ValueError(f"{where}: {entry.needs} is {what}; expected what cross-attention goes to")

    return hook


def _named(transformer: nn.Module, plan: Plan) -> Iterator[tuple[Attention | Alone | OwnWay, str, nn.Module]]:
    """Modules that a plan's entries name, with their names."""
    names = {id(module): name for name, module in transformer.named_modules()}
    for entry in plan:
        if isinstance(entry, (Attention, Alone, OwnWay)):
            for module in modules_of(transformer, entry.module):
                yield entry, names[id(module)], module


def check(transformer: nn.Module, plan: Plan) -> None:
    """Fails where attention is that the plan does not name: it would be over tokens of one rank."""
    named = [where for _, where, _ in _named(transformer, plan)]
    for where, module in transformer.named_modules():
        if _attends(module) and not any(where == one or where.startswith(f"{one}.") for one in named):
            raise ValueError(
                f"plan: {type(transformer).__name__} has attention in {where} ({type(module).__name__}), "
                "which no entry names; expected Attention for what is over tokens of all ranks, or Alone"
            )


def _attends(module: nn.Module) -> bool:
    if getattr(module, "processor", None) is not None or isinstance(module, nn.MultiheadAttention):
        return True
    return any(
        _calls_attention(cls) for cls in type(module).__mro__ if cls.__module__.split(".")[0] != "torch"
    )


@functools.cache
def _calls_attention(cls: type) -> bool:
    names = {"scaled_dot_product_attention", "dispatch_attention_fn"}
    codes = [one.__code__ for one in vars(cls).values() if isinstance(one, types.FunctionType)]
    return any(names & set(code.co_names) for code in codes)


def own_ways(transformer: nn.Module, plan: Plan) -> dict[str, OwnWay]:
    """By the modules' names."""
    return {where: entry for entry, where, _ in _named(transformer, plan) if isinstance(entry, OwnWay)}


def layers_of(transformer: nn.Module, plan: Plan) -> int:
    """How many attention modules exchange."""
    seams = sum(isinstance(entry, Attention) for entry, _, _ in _named(transformer, plan))
    return _first_layer(transformer, plan) + seams


def _first_layer(transformer: nn.Module, plan: Plan) -> int:
    """The number of the first one that is no processor of ours: those have the numbers of their places."""
    return len(processors_of(transformer)) if own_ways(transformer, plan) else 0


def apply(transformer: nn.Module, plan: Plan, parallel: Parallel) -> list[Any]:
    """What is returned takes it all back by remove()."""
    named = list(_named(transformer, plan))
    for entry, where, module in named:
        if isinstance(entry, OwnWay):
            check_heads(int(getattr(module, entry.heads)), parallel.group.size, where)
    exchanging = [module for entry, _, module in named if isinstance(entry, Attention)]
    processors = [getattr(module, "processor", None) for module in exchanging]
    made: list[Any] = [_Names([*exchanging, *filter(None, processors)])]
    layers = itertools.count(_first_layer(transformer, plan))
    for entry, where, module in named:
        if isinstance(entry, Attention):
            seam = Seam(parallel, next(layers), entry, where)
            made.append(Patch(module, "forward", _around(module, seam)))
        elif isinstance(entry, Alone) and entry.needs is not None:
            hook = _needs(entry, where, list(signature_of(module).parameters))
            made.append(module.register_forward_pre_hook(hook, with_kwargs=True))
    return made
