"""Guidance branches on halves of the ranks: one half computes the conditional branch, the other the other.

Diffusers' pipelines compute the two branches of classifier-free guidance in one of two ways:

* in one call, with a batch of twice the size: each half of the ranks takes half of the samples;
* in two calls, in a `cache_context` called "cond" or "uncond" each. The first half of the ranks computes the
  first call and sends what comes out, while the others go on to the second, with a result that is awaited;
  when the second is done, they send that.

What is sent, and in which order, depends on the calls alone. When a result is read, and by whom, is each
rank's own business: one half has it, and to the other it is on its way.

That there will be two calls is only known once two came: the first two of a size are computed by all ranks.
"""

from __future__ import annotations

import contextlib
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
from .inputs import Inputs
from .patch import Patch, signature_of
from .verdict import is_captured

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
        self._beside: torch.cuda.Stream | None = None
        self.groups = [whole]  # that fail together

    @contextmanager
    def _failing(self) -> Iterator[None]:
        """Also where a result is read, outside of a forward pass, the others are told of an error."""
        try:
            yield
        except BaseException as error:
            for group in self.groups:
                group.fail(error)
            raise

    @torch.compiler.disable  # in a graph it would go where its result is not used: on one of two ranks
    def gather(self, x: Tensor) -> Tensor:
        """x of the first half and x of the second, [2, ...]."""
        with self._failing():
            return self._gather(x)

    @torch.compiler.disable
    def meet(self) -> None:
        """So that what fails on one half fails on both."""
        self.whole.gather_beside("pair", torch.zeros(1), 2)

    def _gather(self, x: Tensor) -> Tensor:
        if not self._by_library(x):
            return self.whole.gather_beside("pair", x, 2)
        both = x.new_empty((2, *x.shape))
        rows = [int(place in self.places) for place in range(self.whole.size)]
        self._all_to_all(both, torch.stack((x, x)), rows, rows)
        return both

    @torch.compiler.disable
    def send(self, x: Tensor) -> Sent:
        """To the other half, which receives as often. What others do is not waited for; x may be changed."""
        if not self._by_library(x):
            own = x.detach().clone(memory_format=torch.contiguous_format)
            return Sent(own, self.whole.pass_beside("pair", own, self.whole.ranks[self.whole.rank]), self)
        # Beside what this rank computes: where the other half takes it late, only what is sent next waits.
        stream = torch.cuda.current_stream(x.device)
        if not is_captured():
            self._beside = self._beside or torch.cuda.Stream(x.device)
            self._beside.wait_stream(stream)
            stream = self._beside
        with torch.cuda.stream(stream):
            own = x.detach().clone(memory_format=torch.contiguous_format)
            x.record_stream(stream)
            rows = [int(place == self.places[1 - self.number]) for place in range(self.whole.size)]
            self._all_to_all(own.new_empty((0, *own.shape)), own.unsqueeze(0), [0] * len(rows), rows)
        return Sent(own, stream.record_event(), self)

    @torch.compiler.disable
    def receive(self, shape: Any, dtype: torch.dtype, device: Any) -> Tensor:
        """What the other half sent."""
        x = torch.empty(shape, dtype=dtype, device=device)
        if not self._by_library(x):
            with self._failing():
                self.whole.wait_beside("pair", self.whole.pass_beside("pair", x, self._other), x)
            return x
        rows = [int(place == self.places[1 - self.number]) for place in range(self.whole.size)]
        self._all_to_all(x.unsqueeze(0), x.new_empty((0, *x.shape)), rows, [0] * len(rows))
        return x

    @property
    def _other(self) -> int:
        return self.whole.ranks[self.places[1 - self.number]]

    def _by_library(self, x: Tensor) -> bool:
        return x.is_cuda and self.whole.is_open  # as in plan.gather

    def _all_to_all(self, *arguments: Any) -> None:
        call(torch.ops.dit.all_to_all, self.whole.name, *arguments, self.whole.name)


class Sent:
    """What was sent, and is on its way."""

    def __init__(self, x: Tensor, end: Any, halves: Halves) -> None:
        self.x, self.end, self.halves = x, end, halves

    @torch.compiler.disable
    def wait(self) -> None:
        """Before anything else is sent."""
        if isinstance(self.end, torch.cuda.Event):
            self.end.wait()
            return
        with self.halves._failing():
            self.halves.whole.wait_beside("pair", self.end, self.x)


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
        """:param output: None on the half that does not compute it"""
        self.halves, self.pair, self.size, self.device = halves, pair, size, device
        self.sent = None if output is None else halves.send(output)
        self.output = output

    @torch.compiler.disable
    def promise(self) -> Tensor:
        """The output, for those who asked for it."""
        if self.output is not None:
            return self.output
        return Awaited(self.pair.shape, self.pair.dtype, self.device, self.value)

    @torch.compiler.disable
    def value(self) -> Tensor:
        if self.output is None:
            self.output = self.halves.receive(self.pair.shape, self.pair.dtype, self.device)
        return self.output

    @torch.compiler.disable
    def settle(self) -> None:
        """Before the next exchange of the halves: what was sent has been received."""
        self.value()
        if self.sent is not None:
            self.sent.wait()
            self.sent = None


class GuidanceBranches:
    """Takes the place of a transformer's forward and cache_context until remove()."""

    def __init__(self, model: nn.Module, halves: Halves, inputs: Inputs | None, splits: bool) -> None:
        """:param splits: each half computes half of the samples of a call by itself"""
        self.model, self.halves, self.inputs, self.splits = model, halves, inputs, splits
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
        if self.waiting is not None and self.halves.whole.lives and not self.halves.whole.failed:
            with contextlib.suppress(RuntimeError):  # a rank is gone, and so is what it would have sent
                self.waiting.settle()
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
        try:
            return self._answer(arguments)
        except Exception:  # ranks may have come to different places: all of them begin anew
            self.pairs.clear()
            self.last = (None, None)
            raise

    @_around_graphs
    def _answer(self, arguments: dict[str, Any]) -> Tensor:
        assert self.size is not None
        branch = self.context if self.context in _BRANCHES else None
        before, self.last = self.last, (branch, self.size)
        first, self.waiting = self.waiting, None
        pair = self.pairs.get(self.size)
        if first is not None and (branch, self.size) == (_other(first.pair.first), first.size):
            return self._second(first, arguments)
        if first is not None:
            first.settle()
            self.pairs.pop(first.size, None)  # no guidance any more
            pair = self.pairs.get(self.size)
        as_first = pair is not None and pair.first == branch
        self._compare(arguments, f"{self.context}, {'first of two' if as_first else 'by itself'}")
        if as_first:
            return self._first(pair, arguments)
        output = self._unpaired(arguments)
        if branch is not None and before[0] is not None and before == (_other(branch), self.size):
            self.pairs[self.size] = Pair(before[0], output.shape, output.dtype)
        return output

    @_around_graphs
    def _compare(self, arguments: dict[str, Any], role: str) -> None:
        """Fails, or computes with NaN, where ranks were not given the same. Collective."""
        if self.inputs is not None:
            self.inputs.alike_in_half(role)
            arguments["hidden_states"] = self.inputs.compare(arguments["hidden_states"], role)

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
        return self.waiting.promise()

    @_around_graphs
    def _second(self, first: First, arguments: dict[str, Any]) -> Tensor:
        """The first half is here when it has computed the first call: only then the halves are compared."""
        role = f"{self.context}, second of two"
        if self.halves.number == 0:
            first.settle()
            self._compare(arguments, role)
            return self.halves.receive(first.pair.shape, first.pair.dtype, first.device)
        alike = self.inputs is None or self.inputs.alike_in_half(role)
        output = self._compute(arguments) if alike else first.value()  # which is not used
        first.settle()
        if self.inputs is not None:
            output = self.inputs.compare(output, role)
        self.halves.send(output).wait()
        return output

    @_around_graphs
    def _unpaired(self, arguments: dict[str, Any]) -> Tensor:
        """One call by itself: half of its samples on each half of the ranks, or all on both."""
        assert self.size is not None
        samples = self.size.shape[0]
        if samples % 2 != 0 or not self.splits:
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
