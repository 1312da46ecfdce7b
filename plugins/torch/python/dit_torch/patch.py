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
    """A function of ours on one module, until remove(). It is a plain one: of these a compiler compares the
    code, of all other objects the identity, and would make a graph for each module."""

    def __init__(self, module: nn.Module, name: str, function: Callable[..., Any]) -> None:
        self.module, self.name, self.function = module, name, function
        self.before = getattr(module, name)
        self.own = name in vars(module)  # not the class's, but somebody's who came before

        @no_graph_alone
        @functools.wraps(self.before, updated=())
        def ours(*args: Any, **kwargs: Any) -> Any:
            return self.function(*args, **kwargs)

        self.ours = ours
        setattr(module, name, ours)

    def remove(self) -> None:
        if vars(self.module).get(self.name) is not self.ours:
            self.function = self.before  # somebody who came after us holds ours
        elif self.own:
            setattr(self.module, self.name, self.before)
        else:
            delattr(self.module, self.name)  # the class's shows again
