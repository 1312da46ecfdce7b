"""Functions of ours in the place of a module's."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from torch import nn


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
