"""Which tokens lie one after the other in a dimension: the names of streams, as "text+image".

A stream that a plan splits is in `Parallel.tokens`: each rank has a part of it. The name "whole" stands for
tokens that every rank has all of; how many they are is what the others leave.
"""

from __future__ import annotations

import torch

from .parallel import Parallel

WHOLE = "whole"


def names_of(streams: str) -> list[str]:
    return streams.split("+")


def sizes_of_all(streams: str, total: int, parallel: Parallel, what: str) -> list[tuple[str, int]]:
    """How many of `total` tokens, of all ranks together, are of which stream."""
    return _sizes(streams, _known(streams, parallel, what), total, what)


def sizes_of_part(streams: str, rows: int, parallel: Parallel, what: str) -> list[tuple[str, int]]:
    """How many of this rank's `rows` are of which stream."""
    known = {name: parallel.place(count)[1] for name, count in _known(streams, parallel, what).items()}
    return _sizes(streams, known, rows, what)


def _known(streams: str, parallel: Parallel, what: str) -> dict[str, int]:
    """How many there are on all ranks together. `what` is in no comprehension: compilers of blocks, each of
    which has another one, make a constant of what is."""
    names = [name for name in names_of(streams) if name != WHOLE]
    absent = [name for name in names if name not in parallel.tokens]
    if absent:
        raise ValueError(
            f"{what}: no tokens of {absent[0]} are split yet; expected a Split of that stream before"
        )
    return {name: parallel.tokens[name] for name in names}


def _sizes(streams: str, known: dict[str, int], total: int, what: str) -> list[tuple[str, int]]:
    names = names_of(streams)
    rest = total - sum(known.values())
    # In a graph it may come from data, as a text without its padding.
    wrong = rest != 0 if WHOLE not in names else not torch.compiler.is_compiling() and rest < 0
    if wrong:
        raise ValueError(f"{what}: {total} tokens; expected those of {streams}, of which there are {known}")
    return [(name, known.get(name, rest)) for name in names]


def present(streams: str, parallel: Parallel) -> str:
    """Without those that this pass has no tokens of."""
    names, tokens = names_of(streams), parallel.tokens
    return "+".join(name for name in names if name == WHOLE or name not in tokens or tokens.get(name) != 0)
