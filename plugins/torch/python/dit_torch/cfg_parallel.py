"""Guidance branches on halves of the ranks: one half computes the conditional branch, the other the other.

Of two calls the first half of the ranks computes the first and sends what comes out, while the others go on
to the second, with a result that is awaited; when the second is done, they send that.

What is sent, and in which order, depends on the calls alone (guidance.py). When a result is read, and by
whom, is each rank's own business: one half has it, and to the other it is on its way.

A call that is neither one of two nor of several samples is computed by both halves (cfg_parallel = True), or
by all ranks together (parallel = "auto").
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

import torch
from torch import Tensor, nn

from .caches import keeps_tokens
from .guidance import BRANCHES, Call, Calls, Role, Size, text_of
from .halves import First, Halves, Like
from .inputs import Inputs
from .parallel import Parallel
from .patch import Patch, no_graph_alone, signature_of
from .verify import tensors

# Arguments that have no row for each sample, whatever their sizes.
_OF_ALL = ("img_ids", "txt_ids")
# Lists of other things than tensors that have an entry for each sample.
_LISTS = ("img_shapes", "txt_seq_lens")
# Functions that call the model: it is compiled, they are not.
_around_graphs = functools.partial(torch.compiler.disable, recursive=False)


class GuidanceBranches:
    """Takes the place of a transformer's forward and cache_context until remove().

    :param parallel: its last way is that of a half of the ranks; where there is one of all ranks, too, that
        is for calls which halves cannot share; else both halves compute these
    :param splits: each half computes half of the samples of a call by itself
    """

    def __init__(
        self,
        model: nn.Module,
        parallel: Parallel,
        halves: Halves,
        inputs: Inputs | None,
        splits: bool,
    ) -> None:
        self.model, self.parallel, self.halves, self.inputs = model, parallel, halves, inputs
        self.splits, self.half = splits, parallel.ways[-1]
        self.whole = parallel.ways[0] if len(parallel.ways) > 1 else None
        self.calls = Calls()
        self.context: str | None = None
        self.role: Role | None = None  # of the call that is under way
        self.size: Size | None = None  # of its latents
        self.outputs: dict[Size, tuple[torch.Size, torch.dtype]] = {}  # of sizes that came in twos
        self.waiting: First | None = None
        self.reason = ""  # why calls are not shared
        self._several = ""  # what comes out, where it is not one tensor
        self._original = model.forward
        self._signature = signature_of(model)
        self._begins = model.register_forward_pre_hook(self._begin, with_kwargs=True)
        self._patches = [Patch(model, "forward", self._patched())]
        if hasattr(model, "cache_context"):
            self._patches.append(Patch(model, "cache_context", self._context(model.cache_context)))

    def forget(self) -> None:
        """After a failure: what is known of calls before."""
        self.role, self.waiting = None, None
        self.calls.forget()

    def remove(self) -> None:
        if self.waiting is not None and self.halves.whole.lives and not self.halves.whole.failed:
            with suppress(RuntimeError):  # a rank is gone, and so is what it would have sent
                self.waiting.settle()
        self._begins.remove()
        for patch in self._patches:
            patch.remove()

    def text(self) -> str:
        """For report()."""
        reason = self.reason or self._several
        return text_of(self.calls.counts, self.halves.whole.size, self.whole is not None, reason)

    @no_graph_alone
    def _begin(self, module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        if not torch.compiler.is_compiling():
            self._decide(dict(zip(self._signature.parameters, args, strict=False)) | kwargs)

    @torch.compiler.disable
    def _decide(self, given: dict[str, Any]) -> None:
        """Who computes the call: before its inputs are split."""
        x = given.get("hidden_states")
        if not isinstance(x, Tensor):
            raise TypeError(f"hidden_states = {x!r}: expected a tensor")
        self.size = Size(x.shape, x.dtype)
        # What goes from half to half in two calls is one tensor.
        call = Call(self.context if self.context in BRANCHES and not self._several else None, self.size)
        if self.whole is None:
            self.role = self.calls.next(call, self.splits)
            return
        self.reason = self._why_not_now(given)
        self.role = self.calls.next(call, self.splits, self.reason == "")
        self.parallel.use(self.whole if self.role is Role.ALONE else self.half)

    def _why_not_now(self, given: dict[str, Any]) -> str:
        if torch.is_grad_enabled():
            return "halves have no gradients"
        if keeps_tokens(self.model, given):
            return "a cache keeps what ranks have computed of their tokens"
        return ""

    def _context(self, original: Any) -> Any:
        @contextmanager
        def cache_context(name: str, *args: Any, **kwargs: Any) -> Iterator[None]:
            before, self.context = self.context, name
            try:
                with original(name, *args, **kwargs):
                    yield
            finally:
                self.context = before

        return cache_context

    def _patched(self) -> Any:
        def forward(*args: Any, **kwargs: Any) -> Any:
            given = self._signature.bind(*args, **kwargs)
            given.apply_defaults()
            arguments = dict(given.arguments)
            for name, parameter in self._signature.parameters.items():
                if parameter.kind is parameter.VAR_KEYWORD:
                    arguments |= arguments.pop(name)
            return self._call(arguments)

        return _around_graphs(forward)

    @_around_graphs
    def _call(self, arguments: dict[str, Any]) -> Any:
        try:
            return self._answer(arguments)
        except Exception:  # ranks may have come to different places: all of them begin anew
            self.calls.forget()
            raise

    @_around_graphs
    def _answer(self, arguments: dict[str, Any]) -> Any:
        """As forward() returns it."""
        assert self.role is not None
        as_tuple = not arguments["return_dict"]
        first, self.waiting = self.waiting, None
        if self.role is not Role.SECOND or first is not self.halves.whole.on_its_way:
            self.halves.settle()
        if self.role is Role.SECOND:
            assert first is not None
            return _returned(self._second(first, arguments), as_tuple)
        self._compare(arguments, f"{self.context}, {self.role.value}")
        if self.role is Role.FIRST:
            return _returned(self._first(arguments), as_tuple)
        if self.role is Role.SAMPLES:
            output = self._half_of_samples(arguments)
        else:
            output = self._run(arguments) if self.whole is not None else self._by_both(arguments)
        self._note(output)
        return output

    @torch.compiler.disable
    def _note(self, output: Any) -> None:
        """Where calls of this size come in twos the next ones give the like."""
        assert self.size is not None
        found = tensors(output)
        if len(found) != 1:
            self._several = f"{type(self.model).__name__} returns {len(found)} tensors"
        elif self.size in self.calls.pairs:
            self.outputs[self.size] = found[0].shape, found[0].dtype

    @_around_graphs
    def _compare(self, arguments: dict[str, Any], role: str) -> None:
        """Fails, or computes with NaN, where ranks were not given the same. Collective."""
        if self.inputs is not None:
            self.inputs.alike_in_half(role)
            arguments["hidden_states"] = self.inputs.compare(arguments["hidden_states"], role)

    @_around_graphs
    def _run(self, arguments: dict[str, Any]) -> Any:
        return self._original(**arguments)  # by name: decorators of diffusers look for some of them there

    @_around_graphs
    def _compute(self, arguments: dict[str, Any]) -> Tensor:
        """The one tensor of a call of two."""
        arguments["return_dict"] = False
        (output,) = self._run(arguments)
        return output

    @_around_graphs
    def _by_both(self, arguments: dict[str, Any]) -> Any:
        output = self._run(arguments)
        if self.half.exchanges.exact:
            self.halves.meet()
            return output
        # What they have sent before differs: one of them computes this branch else, and knows more of it.
        return _changed(output, lambda x: self.halves.gather(x)[int(self.calls.follows)])

    @_around_graphs
    def _first(self, arguments: dict[str, Any]) -> Tensor:
        assert self.size is not None
        output = self._compute(arguments) if self.halves.number == 0 else None
        like = Like(*self.outputs[self.size], arguments["hidden_states"].device)
        self.waiting = First(self.halves, like, output)
        return self.waiting.promise()

    @_around_graphs
    def _second(self, first: First, arguments: dict[str, Any]) -> Tensor:
        """The first half is here when it has computed the first call: only then the halves are compared."""
        role = f"{self.context}, {Role.SECOND.value}"
        if self.halves.number == 0:
            first.settle()
            self._compare(arguments, role)
            return self.halves.receive(first.like)
        alike = self.inputs is None or self.inputs.alike_in_half(role)
        output = self._compute(arguments) if alike else first.value()  # which is not used
        first.settle()
        if self.inputs is not None:
            output = self.inputs.compare(output, role)
        self.halves.send(output).wait()
        return output

    @_around_graphs
    def _half_of_samples(self, arguments: dict[str, Any]) -> Any:
        assert self.size is not None
        samples = self.size.shape[0]
        own = slice(0, samples // 2) if self.halves.number == 0 else slice(samples // 2, samples)
        for name, value in arguments.items():
            if name not in _OF_ALL:
                arguments[name] = _part(value, samples, own, name in _LISTS)
        return _changed(self._run(arguments), lambda x: self.halves.gather(x).flatten(0, 1))


@torch.compiler.disable
def _changed(output: Any, change: Callable[[Tensor], Tensor]) -> Any:
    """What a model returns, with other tensors."""
    if isinstance(output, dict):
        return type(output)(**{name: change(x) for name, x in output.items()})
    return tuple([change(x) for x in output])


def _returned(output: Tensor, as_tuple: bool) -> Any:
    if as_tuple:
        return (output,)
    from diffusers.models.modeling_outputs import Transformer2DModelOutput

    return Transformer2DModelOutput(sample=output)


@torch.compiler.disable
def _part(x: Any, samples: int, own: slice, of_samples: bool) -> Any:
    """Of a tensor, of each tensor of a list, or of a list with an entry for each sample."""
    if isinstance(x, Tensor):
        return x[own] if x.dim() > 0 and x.shape[0] == samples else x
    if isinstance(x, (list, tuple)):
        if any(isinstance(one, Tensor) for one in x):
            return type(x)(_part(one, samples, own, of_samples) for one in x)
        return x[own] if of_samples and len(x) == samples else x
    return x
