"""Guidance branches on halves of the ranks: one half computes the conditional branch, the other the other.

Diffusers' pipelines compute the two branches of classifier-free guidance in one of two ways:

* in one call, with a batch of twice the size: each half of the ranks takes half of the samples;
* in two calls, in a `cache_context` called "cond" or "uncond" each. The first half of the ranks computes the
  first call while the others go on to the second, with a result that is awaited; when the second is done, all
  get both. Where no second one follows, the result of the first is sent when it is read.

That there will be two calls is only known once two came: the first two of a size are computed by all ranks.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from ._library import call
from .awaited import Awaited
from .group import Group, is_taken, kept_group
from .patch import Patch, signature_of

# Arguments that have a row, or an entry, for each sample.
_OF_SAMPLES = (
    "hidden_states",
    "encoder_hidden_states",
    "encoder_hidden_states_mask",
    "encoder_attention_mask",
    "encoder_hidden_states_image",
    "pooled_projections",
    "timestep",
    "guidance",
    "additional_t_cond",
    "img_shapes",
    "controlnet_block_samples",
    "controlnet_single_block_samples",
    "block_controlnet_hidden_states",
)
_BRANCHES = ("cond", "uncond")
# Functions that call the model: it is compiled, they are not.
_around_graphs = functools.partial(torch.compiler.disable, recursive=False)


class Halves:
    """The first and the second half of a group's ranks, and the pairs with one rank of each. Collective."""

    def __init__(self, whole: Group) -> None:
        if whole.size % 2 != 0:
            raise ValueError(f"cfg_parallel = True with {whole.size} ranks: expected an even number of ranks")
        self.whole, size = whole, whole.size // 2
        self.number, place = divmod(whole.rank, size)
        self.places = (place, place + size)  # of the pair's ranks in the group
        halves = [whole.ranks[:size], whole.ranks[size:]]
        self.half = kept_group(halves, "half")
        pairs = [list(pair) for pair in zip(*halves, strict=True)]
        whole.make_beside("pair", pairs)
        # Where one half is there already the ranks of the other make theirs alone.
        alone = any(whole.gather(is_taken(halves[self.number])))
        self.parts = None if alone else halves
        self.groups = [whole]  # that fail together

    @torch.compiler.disable  # in a graph it would go where its result is not used: on one of two ranks
    def gather(self, x: Tensor) -> Tensor:
        """x of the first half and x of the second, [2, ...]."""
        try:
            return self._gather(x)
        except BaseException as error:  # also where a result is read, outside of a forward pass
            for group in self.groups:
                group.fail(error)
            raise

    @torch.compiler.disable
    def meet(self) -> None:
        """So that what fails on one half fails on both."""
        self.whole.gather_beside("pair", torch.zeros(1), 2)

    def _gather(self, x: Tensor) -> Tensor:
        if not x.is_cuda or not self.whole.is_open:  # as in plan.gather; results may be read behind disable()
            return self.whole.gather_beside("pair", x, 2)
        both = x.new_empty((2, *x.shape))
        rows = [int(place in self.places) for place in range(self.whole.size)]
        arguments = (both, torch.stack((x, x)), rows, rows, self.whole.name)
        call(torch.ops.dit.all_to_all, self.whole.name, *arguments)
        return both


class Size(NamedTuple):
    """Of the latents, before tokens are split: alike on all ranks."""

    shape: torch.Size
    dtype: torch.dtype


class Pair(NamedTuple):
    """Two calls that came one after the other, as all that come after them are expected to."""

    first: str  # name of the first branch
    shape: torch.Size  # of what comes out
    dtype: torch.dtype


class First:
    """A first call whose second is awaited."""

    @torch.compiler.disable
    def __init__(self, halves: Halves, pair: Pair, size: Size, output: Tensor | None, device: Any) -> None:
        self.halves, self.pair, self.size = halves, pair, size
        self.output = output  # None on the half that did not compute it, until it is there
        self.settled = False
        self.promise = Awaited(pair.shape, pair.dtype, device, self.value)

    @torch.compiler.disable
    def value(self) -> Tensor:
        """Collective where the second call did not come: all ranks read alike."""
        if not self.settled:
            mine = self.output
            if mine is None:
                mine = torch.empty(self.pair.shape, dtype=self.pair.dtype, device=self.promise.device)
            self.exchange(mine)
        assert self.output is not None
        return self.output

    @torch.compiler.disable
    def exchange(self, mine: Tensor) -> Tensor:
        """What the halves computed, the first's first. Collective."""
        both = self.halves.gather(mine)
        self.settled, self.output = True, both[0] if self.output is None else self.output
        return both


class GuidanceBranches:
    """Takes the place of a transformer's forward and cache_context until remove()."""

    def __init__(self, model: nn.Module, halves: Halves) -> None:
        self.model, self.halves = model, halves
        self.context: str | None = None
        self.size: Size | None = None  # of the call that is under way
        self.pairs: dict[Size, Pair] = {}
        self.last: tuple[str | None, Size | None] = (None, None)  # branch and size of the call before
        self.waiting: First | None = None
        self._original = model.forward
        self._signature = signature_of(model)
        self._note = model.register_forward_pre_hook(self._note_size, with_kwargs=True)
        self._patches = [Patch(model, "forward", self._patched(model.forward))]
        if hasattr(model, "cache_context"):
            self._patches.append(Patch(model, "cache_context", self._context(model.cache_context)))

    def forget(self) -> None:
        """After a failure: what is known of calls before."""
        self.size, self.waiting, self.last = None, None, (None, None)
        self.pairs.clear()

    def remove(self) -> None:
        self._note.remove()
        for patch in self._patches:
            patch.remove()

    def _note_size(self, module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        x = kwargs["hidden_states"] if "hidden_states" in kwargs else args[0]
        self.size = Size(x.shape, x.dtype)

    def _context(self, original: Any) -> Any:
        @contextmanager
        @functools.wraps(original)
        def cache_context(name: str, *args: Any, **kwargs: Any) -> Iterator[None]:
            before, self.context = self.context, name
            try:
                with original(name, *args, **kwargs):
                    yield
            finally:
                self.context = before

        return cache_context

    def _patched(self, original: Any) -> Any:
        @functools.wraps(original)
        def forward(*args: Any, **kwargs: Any) -> Any:
            given = self._signature.bind(*args, **kwargs)
            given.apply_defaults()
            as_tuple = not given.arguments["return_dict"]
            given.arguments["return_dict"] = False
            output = self._call(given.arguments)
            if as_tuple:
                return (output,)
            from diffusers.models.modeling_outputs import Transformer2DModelOutput

            return Transformer2DModelOutput(sample=output)

        return _around_graphs(forward)

    @_around_graphs
    def _call(self, arguments: dict[str, Any]) -> Tensor:
        assert self.size is not None
        branch = self.context if self.context in _BRANCHES else None
        before, self.last = self.last, (branch, self.size)
        first, self.waiting = self.waiting, None
        if first is not None and not first.settled:
            if (branch, self.size) == (_other(first.pair.first), first.size):
                return self._second(first, arguments)
            first.value()
        if first is not None:
            self.pairs.pop(first.size, None)  # no guidance any more
        pair = self.pairs.get(self.size)
        if pair is not None and pair.first == branch:
            return self._first(pair, arguments)
        output = self._unpaired(arguments)
        if branch is not None and before[0] is not None and before == (_other(branch), self.size):
            self.pairs[self.size] = Pair(before[0], output.shape, output.dtype)
        return output

    @_around_graphs
    def _compute(self, arguments: dict[str, Any]) -> Tensor:
        given = inspect.BoundArguments(self._signature, arguments)  # type: ignore[arg-type]
        outputs = self._original(*given.args, **given.kwargs)
        if len(outputs) != 1:
            raise ValueError(
                f"cfg_parallel = True: {type(self.model).__name__} returns {len(outputs)} tensors; expected "
                "a model that returns one"
            )
        return outputs[0]

    @_around_graphs
    def _first(self, pair: Pair, arguments: dict[str, Any]) -> Tensor:
        assert self.size is not None
        output = self._compute(arguments) if self.halves.number == 0 else None
        device = arguments["hidden_states"].device
        self.waiting = First(self.halves, pair, self.size, output, device)
        return self.waiting.promise

    @_around_graphs
    def _second(self, first: First, arguments: dict[str, Any]) -> Tensor:
        if self.halves.number == 0:
            assert first.output is not None
            return first.exchange(first.output)[1]
        output = self._compute(arguments)
        first.exchange(output)
        return output

    @_around_graphs
    def _unpaired(self, arguments: dict[str, Any]) -> Tensor:
        """One call by itself: half of its samples on each half of the ranks, or all on both."""
        assert self.size is not None
        samples = self.size.shape[0]
        if samples % 2 != 0:
            output = self._compute(arguments)
            self.halves.meet()
            return output
        own = slice(0, samples // 2) if self.halves.number == 0 else slice(samples // 2, samples)
        for name in _OF_SAMPLES:
            if name in arguments:
                arguments[name] = _part(arguments[name], samples, own)
        return self.halves.gather(self._compute(arguments)).flatten(0, 1)


def _other(branch: str) -> str:
    return _BRANCHES[1 - _BRANCHES.index(branch)]


@torch.compiler.disable
def _part(x: Any, samples: int, own: slice) -> Any:
    """Of a tensor, of each tensor of a list, or of a list with an entry for each sample."""
    if isinstance(x, Tensor):
        return x[own] if x.dim() > 0 and x.shape[0] == samples else x
    if isinstance(x, (list, tuple)):
        if any(isinstance(one, Tensor) for one in x):
            return type(x)(_part(one, samples, own) for one in x)
        return x[own] if len(x) == samples else x
    return x
