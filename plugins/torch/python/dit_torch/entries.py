"""What a plan is made of: data, an entry for each thing that is to happen at a module.

A path goes from the transformer to a module, "" is the transformer itself; it may have one "*" for all of a
ModuleList, and "-1" for the last one.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, get_args

from .parallel import Parallel


@dataclass(frozen=True)
class Split:
    """An argument of a module (or, if `name` is a number, that output) is split on dimension `dim`."""

    module: str  # path from the transformer, "" itself; may have one "*" for all of a ModuleList
    name: str | int
    dim: int
    dims: int | None = None  # dimensions that the tensor must have; else it stays whole
    stream: str | None = None  # under which its size is noted
    one_for_all: bool = False  # a single entry is for all tokens, and stays whole
    of: str | None = None  # a table of these tokens, as "whole+image" (see sequence.py); a single entry stays
    least: int = 0  # tokens that every rank has to get
    at: int | None = None  # of a tuple, that one alone
    optional: bool = False  # not every version of diffusers has the argument

    def __str__(self) -> str:
        what = f"output {self.name}" if isinstance(self.name, int) else self.name
        return f"split {what} of {self.module or 'the transformer'} on dimension {self.dim}"


@dataclass(frozen=True)
class Gather:
    """Output `index` of a module is put together on dimension `dim`."""

    module: str
    dim: int
    index: int | str = 0  # or the key of a mapping
    stream: str = "image"  # or more, as "whole+image" (see sequence.py)

    def __str__(self) -> str:
        return f"gather output {self.index} of {self.module} on dimension {self.dim}"


@dataclass(frozen=True)
class Join:
    """An argument of a module is put together on dimension `dim`: what the module does needs all tokens."""

    module: str
    name: str
    dim: int
    stream: str = "image"
    dims: int | None = None  # dimensions that the tensor must have; else it is whole

    def __str__(self) -> str:
        return f"join {self.name} of {self.module} on dimension {self.dim}"


@dataclass(frozen=True)
class Count:
    """An argument that says for how many tokens, from the first on, something holds: becomes this rank's.
    Some of a list's modules may have no such argument."""

    module: str
    name: str
    stream: str = "image"

    def __str__(self) -> str:
        return f"count {self.name} of {self.module} by rank"


@dataclass(frozen=True)
class Refuse:
    """An argument that a module must not be given."""

    module: str
    name: str
    why: str

    def __str__(self) -> str:
        return f"refuse {self.name} of {self.module or 'the transformer'}"


@dataclass(frozen=True)
class Needs:
    """An argument that a module must be given."""

    module: str
    name: str
    why: str

    def __str__(self) -> str:
        return f"{self.module or 'the transformer'} needs {self.name}"


@dataclass(frozen=True)
class Attention:
    """A module's attention is over tokens of all ranks: what it attends travels."""

    module: str
    queries: str = "image"  # which tokens, in order, as "text+image" (see sequence.py)
    keys: str | None = None  # where they are others
    skip: int = 0  # calls of attention that come before, over what is whole on every rank
    outer_mask: bool = False  # the module makes its mask from its tokens: true where query and key both are
    part_mask: bool = False  # the module makes its mask of this rank's keys, for all queries

    def __str__(self) -> str:
        return f"exchange {self.queries} in {self.module}"


@dataclass(frozen=True)
class Alone:
    """A module's attention needs no exchange: its keys are whole on every rank."""

    module: str
    needs: str | None = None  # the argument that they come from: without it, it would attend to its queries

    def __str__(self) -> str:
        return f"no exchange in {self.module}"


@dataclass(frozen=True)
class OwnWay:
    """A module's processor attends in a way of its own, in each head by itself: it gets all tokens in this
    rank's heads. What travels is what layers of the module give, [batch, tokens, heads * head_dim]."""

    module: str
    inputs: tuple[tuple[str, ...], ...]  # layers, each of what the one before gives: Q's, K's and V's
    output: str  # whose input is what it attended
    heads: str = "heads"  # attribute of the module: how many there are; to the processor, this rank's

    def __str__(self) -> str:
        return f"exchange {', '.join(layers[-1] for layers in self.inputs)} in {self.module}"


@dataclass(frozen=True)
class Change:
    """An argument of a module (or, if `name` is a number, that output), changed by a function."""

    module: str
    name: str | int
    how: Callable[[Any, Parallel], Any]

    def __str__(self) -> str:
        return f"change {self.name} of {self.module} by {self.how.__name__}"


Argument = Split | Join | Count | Refuse | Needs | Change
Entry = Argument | Gather | Attention | Alone | OwnWay
Plan = tuple[Entry, ...]


def whole(module: str, dim: int = 1, name: str = "hidden_states", output: int | str = 0) -> Plan:
    """What a module does needs all image tokens: every rank computes all of them there."""
    return (Join(module, name, dim), Split(module, output, dim))


def checked(plan: Any) -> Plan:
    """Somebody's own."""
    for entry in plan if isinstance(plan, (list, tuple)) else (plan,):
        if not isinstance(entry, get_args(Entry)):
            expected = ", ".join(cls.__name__ for cls in get_args(Entry))
            raise TypeError(f"plan: {entry!r} is a {type(entry).__name__}; expected a list of {expected}")
    return tuple(plan)


def text_of(entry: Entry) -> str:
    """The same on all ranks: not where a function is."""
    return str(entry) if isinstance(entry, Change) else repr(entry)
