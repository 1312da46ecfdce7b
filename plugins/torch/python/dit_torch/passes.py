"""Forward passes of an enabled transformer that fail, on all ranks or on some of them only.

A rank that leaves a pass by an error tells the others at once: they are in that pass, too, or come to it,
and leave it by an error that names the rank. So each of them has failed once, and the next pass begins anew
on all of them, with nothing under way, whatever the first failure was: no memory, a time limit, an interrupt.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import nn

from .group import Group
from .parallel import Parallel
from .patch import Patch, no_graph_alone


class Passes:
    """Around forward() of a transformer, until remove().

    :param groups: whose ranks wait for each other in a pass; the first one has all of them
    """

    def __init__(self, parallel: Parallel, groups: list[Group]) -> None:
        self.parallel, self.groups = parallel, groups
        self._forget: list[Callable[[], None]] = []
        self._under_way = False
        self._goes_back = False  # a backward pass has come to the transformer, and has not ended
        self._recoveries = [group.recoveries for group in groups]
        self._handles: list[Any] = []

    def remembers(self, forget: Callable[[], None]) -> None:
        """Who knows something of passes before is asked to forget it where they have failed."""
        self._forget.append(forget)

    def surround(self, model: nn.Module) -> None:
        """After all others that change what forward() does."""
        self._handles.append(Patch(model, "forward", self._past_hooks(model, model.forward)))
        # What __call__ is for torch: hooks and forward(). torch's own hook for failures sees Exceptions only.
        for name in ("_call_impl", "_compiled_call_impl"):
            if getattr(model, name) is not None:
                self._handles.append(Patch(model, name, self._around(getattr(model, name))))

    def remove(self) -> None:
        for handle in reversed(self._handles):
            handle.remove()
        self._handles.clear()

    def begin(self) -> None:
        """Before all else of a pass. Collective after a failure."""
        goes_on = torch._C._current_graph_task_id() >= 0  # it computes this pass again
        if self._under_way or (self._goes_back and not goes_on):
            self.fail(None)  # by something that was not seen here
        if any(group.failed for group in self.groups):
            self.groups[0].recover()
        recoveries = [group.recoveries for group in self.groups]
        if recoveries != self._recoveries:  # also after failures of another model of these ranks
            for forget in self._forget:
                forget()
            for way in self.parallel.ways:
                way.exchanges.make_anew()
            self._recoveries = recoveries
        self._begun()

    def _begun(self) -> None:
        for group in self.groups:
            group.alarm.passes += 1
        self._under_way = True

    @torch.compiler.disable
    def fail(self, error: BaseException | None) -> None:
        """This rank has left a pass, or the way back: the others are told."""
        if not (self._under_way or self._goes_back):
            return
        self._under_way = self._goes_back = False
        for group in self.groups:
            group.fail(error)

    @torch.compiler.disable
    def give_up(self, error: BaseException | None) -> None:
        """The pass that others are in, or come to: this rank comes to none."""
        if not self._under_way:
            self._begun()
        self.fail(error)

    def go_back(self) -> None:
        """A backward pass, whose errors nobody shows us: where it does not end the next pass says so."""
        self._goes_back = True
        torch.autograd.Variable._execution_engine.queue_callback(self._came_back)

    def _came_back(self) -> None:
        self._goes_back = False

    def _past_hooks(self, model: nn.Module, original: Any) -> Any:
        def forward(*args: Any, **kwargs: Any) -> Any:
            if self._handles and not self._under_way and not torch.compiler.is_compiling():
                return model(*args, **kwargs)  # the model's hooks split and compare
            return original(*args, **kwargs)

        return no_graph_alone(forward)  # what it calls is compiled

    def _around(self, original: Any) -> Any:
        def call(*args: Any, **kwargs: Any) -> Any:
            if torch.compiler.is_compiling():  # in a graph of the program's
                return original(*args, **kwargs)
            try:
                output = original(*args, **kwargs)
                self._end()
            except BaseException as error:
                self.give_up(error)  # before it has begun, where a hook that comes before ours fails
                raise
            return output

        return no_graph_alone(call)

    @torch.compiler.disable
    def _end(self) -> None:
        for group in self.groups:
            group.check()
        self._under_way = False
