"""A module's functions: what they take, and ours in their place."""

from __future__ import annotations

import contextlib
import functools
import inspect
from collections.abc import Callable
from typing import Any, TypeVar

from torch import nn

Function = TypeVar("Function", bound=Callable[..., Any])


def no_graph_alone(function: Function) -> Function:
    """A compiler that comes to it in a graph traces it. Where it would begin with it, as with hooks of a
    module, it is left as it is: else each hook would be a graph of its own."""
    with contextlib.suppress(ImportError):  # a torch that has it elsewhere: one graph more
        from torch._dynamo.eval_frame import skip_code

        skip_code(function.__code__)
    return function


def signature_of(module: nn.Module) -> inspect.Signature:
    """Of forward, as the module's class has it, or the one that it derives from: what others put in its place
    may say (*args, **kwargs)."""
    forwards = [vars(cls)["forward"] for cls in type(module).__mro__ if "forward" in vars(cls)]
    found = [list(inspect.signature(forward).parameters.values())[1:] for forward in forwards]
    named = [one for one in found if all(parameter.kind is not parameter.VAR_POSITIONAL for parameter in one)]
    return inspect.Signature((named or found)[0])


class Patch:
    """A function of ours on one module, until remove()."""

    def __init__(self, module: nn.Module, name: str, function: Callable[..., Any]) -> None:
        self.module, self.name = module, name
        self.before = getattr(module, name)
        self.own = name in vars(module)  # not the class's, but somebody's who came before
        self.ours = functools.partial(function)
        setattr(module, name, self.ours)

    def remove(self) -> None:
        if vars(self.module).get(self.name) is not self.ours:
            # Somebody who came after us holds it: it becomes what was there before.
            self.ours.__setstate__((self.before, (), {}, None))  # type: ignore[attr-defined]
        elif self.own:
            setattr(self.module, self.name, self.before)
        else:
            delattr(self.module, self.name)  # the class's shows again
