"""What a forward pass was given, taken apart: tensors, numbers, and words for all else.

A compiler traces this, too: the numbers of tensors and sizes are not looked at, and numbers may be symbols.
"""

from __future__ import annotations

import dataclasses
import enum
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from .digest import described

# What is said of these says all. Of other objects only the class is named: words may name their addresses.
_TOLD = (str, bytes, complex, range, slice, torch.dtype, enum.Enum)


@dataclass
class Given:
    """By names as "img_shapes[0][1]", in the order of the arguments' names."""

    tensors: dict[str, Tensor] = field(default_factory=dict)
    whole: dict[str, int] = field(default_factory=dict)
    real: dict[str, float] = field(default_factory=dict)
    words: dict[str, str] = field(default_factory=dict)

    def add(self, name: str, value: Any) -> None:
        """What is None counts as what is not given."""
        if value is None:
            return
        if isinstance(value, Tensor):
            self.tensors[name] = value
        elif isinstance(value, bool):
            self.words[name] = str(value)
        elif isinstance(value, int):
            self.whole[name] = value
        elif isinstance(value, float):
            self.real[name] = value
        elif isinstance(value, (list, tuple)):
            self.words[name] = f"{len(value)} entries" if not value else "entries"
            for at, one in enumerate(value):
                self.add(f"{name}[{at}]", one)
        elif isinstance(value, dict):
            self.words[name] = "entries"
            for key in sorted(value, key=str):
                self.add(f"{name}[{key!r}]", value[key])
        else:
            self._add_object(name, value)

    def _add_object(self, name: str, value: Any) -> None:
        self.words[name] = type(value).__name__
        if isinstance(value, _TOLD):
            self.words[name] = repr(value)
        elif isinstance(value, (set, frozenset)):
            self.words[name] = str(sorted(map(repr, value)))
        elif hasattr(value, "__array__"):  # numpy's
            self._add_array(name, value)
        elif dataclasses.is_dataclass(value):
            for part in dataclasses.fields(value):
                self.add(f"{name}.{part.name}", getattr(value, part.name))

    def _add_array(self, name: str, value: Any) -> None:
        if torch.compiler.is_compiling():
            self.tensors[name] = torch.as_tensor(value)
            return
        array = value.__array__()
        if array.dtype.kind in "biufc":
            self.tensors[name] = torch.as_tensor(array.copy())  # torch knows no negative strides
        else:
            self.add(name, array.tolist())

    def flat(self) -> tuple[Any, ...]:
        """As an operator takes it."""
        names = [*self.tensors, *self.whole, *self.real, *self.words]
        numbers = (list(self.whole.values()), list(self.real.values()))
        return list(self.tensors.values()), names, *numbers, list(self.words.values())

    @classmethod
    def of(cls, tensors: list[Tensor], names: list[str], *others: list[Any]) -> Given:
        """What flat() gave."""
        left = iter(names)
        return cls(*({next(left): one for one in values} for values in (tensors, *others)))

    def facts(self) -> dict[str, str]:
        """What is known on the host, by name."""
        facts = {name: described(x) for name, x in self.tensors.items()}
        facts |= {name: str(number) for name, number in self.whole.items()}
        return facts | {name: repr(float(number)) for name, number in self.real.items()} | self.words


def taken_apart(arguments: dict[str, Any], order: list[str]) -> Given:
    """:param order: of names; others come after them"""
    given = Given()
    for name in (*order, *sorted(arguments.keys() - set(order))):
        given.add(name, arguments.get(name))
    return given


def tensors_of(given: dict[str, Any]) -> dict[str, Tensor]:
    """Those among arguments, and in lists of them, by name."""
    return {name: x for name, x in taken_apart(given, list(given)).tensors.items() if not x.is_meta}
