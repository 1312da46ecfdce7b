"""Exchanges of an enabled transformer by shape: made when a shape is first seen, kept while they are used."""

from __future__ import annotations

import contextlib
import logging
import math
import re
import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import torch

from . import _library, reference
from .group import Group
from .layout import Layout

logger = logging.getLogger("dit_torch")
SAGE = "sage-int8"  # the policy of sage.py
FAST = 3e-4  # seconds of a layer's exchanges
MOST = 8  # shapes that are kept; a prompt's two guidance branches may be two


class Key(NamedTuple):
    """What an exchange is found by."""

    shape: tuple[int, int, int, int, int, int]  # batch, text, image, heads, kv_heads, head_dim
    image_first: bool
    text_replicated: bool
    dtype: torch.dtype
    device: torch.device
    unit: int  # exchanges of one shape that are under way at the same time have different ones
    has_value: bool = True


@dataclass
class Traffic:
    """What exchanges have sent from this rank."""

    levels: dict[str, dict[str, float]] = field(default_factory=dict)  # "node", "world": sent_bytes, share
    full_bytes: int = 0  # what exact transfers would have sent

    def add(self, facts: dict[str, Any]) -> None:
        """What the library tells of an exchange."""
        for level in facts["levels"]:
            self._add(level["name"], level)
        self.full_bytes += facts["full_bytes"]

    def join(self, other: Traffic) -> None:
        for name, level in other.levels.items():
            self._add(name, level)
        self.full_bytes += other.full_bytes

    def _add(self, name: str, level: dict[str, Any]) -> None:
        known = self.levels.setdefault(name, {"sent_bytes": 0, "share": 1.0})
        known["sent_bytes"] += level["sent_bytes"]
        known["share"] = level["share"]


def chooses_rows_by_value(policy: str) -> bool:
    """Whether a policy has rules of V-Major. What cannot be read has none: the library says so."""
    text = policy
    if policy.startswith("@"):
        with contextlib.suppress(OSError, UnicodeDecodeError):
            text = Path(policy[1:]).read_text(encoding="utf-8")
    return policy == "paper" or "v-major" in text


def text_of(trial: _library.Trial) -> str:
    """What a policy's trial found, in words."""
    times = (1e3 * trial.exact_seconds, 1e3 * trial.policy_seconds)
    return "a layer's exchanges take {:.2f} ms exact and {:.2f} ms with it".format(*times)


def _of_all(every: Sequence[list[str]]) -> list[str]:
    """What is in each of some lists, in the order of the first."""
    return [one for one in every[0] if all(one in known for known in every)]


def _layer_bytes(key: Key) -> int:
    """Of Q, K, V and the output, of all ranks."""
    batch, text, image, heads, kv_heads, head_dim = key.shape
    return 2 * batch * (text + image) * (heads + kv_heads) * head_dim * key.dtype.itemsize


@contextlib.contextmanager
def _without_memory(shape: str) -> Iterator[None]:
    """What is only measured fails nobody: where a rank has no memory for it all of them go on without."""
    try:
        yield
    except RuntimeError as error:
        if "memory" not in str(error).lower() and "cudaMalloc" not in str(error):
            raise
        logger.warning("exchanges of %s are not timed: %s", shape, error)


class Exchanges:
    """Making and freeing one is collective: all ranks see the same shapes in the same order."""

    def __init__(
        self,
        group: Group,
        owner: int,
        policy: str = "exact",
        layers: int = 1,
        steps: int = 1,
        branches: int = 1,
        side_stream: bool = False,
        adapt: bool = True,
        reference_bytes: int | None = None,
    ) -> None:
        self.group = group
        self.owner = owner  # whose they are: a number
        self.policy, self.layers, self.steps, self.branches = policy, layers, steps, branches
        self.by_value = chooses_rows_by_value(policy)
        self.side_stream = side_stream
        self.adapt = adapt  # a preset is left off where exact transfers are faster
        self.reference_bytes = reference_bytes  # that a policy may remember with at most, on any rank
        self.too_long: dict[str, str] = {}  # why exchanges are exact that would need more, by name
        self.trials: dict[str, _library.Trial] = {}  # by layout, type and device
        self.fast: dict[str, bool] = {}  # whether exact exchanges are short, by layout, type and device
        self.longest_fast, self.shortest_slow = -1, sys.maxsize  # bytes of a layer's that were timed
        self.made: dict[Key, str] = {}  # their names
        self._captured: set[Key] = set()  # whose memory CUDA graphs know: they stay
        self._recorded_for: set[Key] = set()  # likewise, until release()
        self.closed = 0  # how often all of them were freed
        self._recorded = False
        self._opened = group.opened  # when they were made
        self.at = (0, 0)  # step and branch
        self.freed = Traffic()

    @property
    def exact(self) -> bool:
        """Whether bits arrive as they leave."""
        return self.policy in ("exact", SAGE)

    @property
    def sage(self) -> bool:
        """Whether Q and K leave in 8 bits."""
        return self.policy == SAGE

    @property
    def never_lossy(self) -> bool:
        """Whatever the shape. Presets code what leaves a node; rules may be for links within one."""
        preset = re.fullmatch(r"[\w-]+", self.policy) is not None and not self.sage
        return self.policy == "exact" or (preset and self.group.one_node)

    @property
    def nothing_coded(self) -> bool:
        """Whether trials have left the policy off for all shapes that there are."""
        trials = [self.trials.get(self._shape(key)) for key in self.made]
        return bool(trials) and all(trial is not None and not trial.pays for trial in trials)

    def get(self, key: Key) -> str:
        """The name of the exchange of this shape."""
        if not (self.by_value or self.sage):  # then it makes no difference
            key = key._replace(has_value=True)
        found = self.made.pop(key, None)
        captured = key.device.type == "cuda" and torch.cuda.is_current_stream_capturing()
        if found is None:
            if captured:
                raise RuntimeError(
                    f"a stream is captured, and there is no exchange of {self._shape(key)} yet: expected a "
                    "forward pass of the same sizes before the capture, which makes it"
                )
            self._make_room(key)
            found = self._make(key)
        if captured:
            (self._recorded_for if self._recorded else self._captured).add(key)
        self.made[key] = found  # the last one: it was used last
        return found

    def layout_of(self, key: Key) -> Layout:
        return Layout(*key.shape, self.group.size, key.image_first, key.text_replicated)

    def sequence_bytes(self) -> int:
        """Of Q, K or V as this rank projects them, of the largest shape that is kept."""
        rank = self.group.rank
        sizes = (
            math.prod(self.layout_of(key).sequence_shape(rank)) * key.dtype.itemsize for key in self.made
        )
        return max(sizes, default=0)

    def check(self, device: torch.device) -> None:
        """Fails where the library does not understand the policy, or has no CUDA and the model is there.
        Collective; allocates nothing."""
        library = self.group.library
        if library is None:
            return
        any_shape = Key((1, 0, 1, 1, 1, 8), False, False, torch.float32, torch.device("cpu"), 0)
        if device.type == "cuda":
            on_device = self._attention(any_shape._replace(device=device))
            on_device.policy = None
            library.wire_bytes(self.group.name, on_device)
        if not self.exact:
            try:
                library.wire_bytes(self.group.name, self._attention(any_shape))
            except RuntimeError as error:
                raise RuntimeError(f"policy = {self.policy!r}: {error}") from error

    def _make_room(self, new: Key) -> None:
        """Frees the shape that was not used for longest, when there are many."""
        kept = {key.shape for key in self._captured | self._recorded_for}
        shapes = [shape for shape in dict.fromkeys(key.shape for key in self.made) if shape not in kept]
        if new.shape in shapes or len(shapes) < MOST:
            return
        for key in [key for key in self.made if key.shape == shapes[0]]:
            self._free(key)

    def _make(self, key: Key) -> str:
        layout = self.layout_of(key)
        dtype = key.dtype
        if dtype not in _library.ELEMENT_TYPES:
            raise TypeError(f"dtype = {dtype}: expected float32, bfloat16 or float16 in attention")
        shape = self._shape(key)
        name = f"{self.group.name}.{self.owner}/{shape}.{key.unit}{'' if key.has_value else '.no-value'}"
        library = self.group.library
        reference.make_exchange(name, layout, self.group)
        if library is not None:
            attention = self._attention(key)
            self.group.on_device |= key.device.type == "cuda"
            # V-Major chooses the rows of Q and of the output as it chooses V's: without V all of them travel.
            if (
                self.never_lossy
                or not key.has_value
                or self._is_off(shape, attention)
                or not self._within_budget(name, shape, attention)
            ):
                attention.policy = None
            library.make_exchange(name, self.group.name, attention)
            if not self.exact:
                library.begin_step(name, *self.at)
            if self._recorded:
                library.record(name)
        return name

    def _within_budget(self, name: str, shape: str, attention: _library.Attention) -> bool:
        """Whether what all shapes would remember is not too much on any rank. Collective with a budget."""
        library = self.group.library
        if self.reference_bytes is None or self.exact or library is None:
            return True
        held = sum(library.report(one)["wire_bytes"] for one in self.made.values())
        most = max(self.group.gather(held + library.wire_bytes(self.group.name, attention)))
        if most <= self.reference_bytes:
            self.too_long.pop(name, None)
            return True
        self.too_long[name] = f"{most} bytes to remember, of {self.reference_bytes} that there may be"
        if self.group.rank == 0:
            logger.warning("policy %s is off for %s: %s", self.policy, shape, self.too_long[name])
        return False

    @property
    def off(self) -> dict[str, str]:
        """Shapes, or exchanges of one, for which the policy is off, and why."""
        slow = {shape: text_of(trial) for shape, trial in self.trials.items() if not trial.pays}
        return slow | self.too_long

    def _shape(self, key: Key) -> str:
        return f"{self.layout_of(key)}.{str(key.dtype)[6:]}.{key.device.type}"

    def _attention(self, key: Key) -> _library.Attention:
        layout, device = self.layout_of(key), key.device
        if device.type not in _library.MEMORY_KINDS:
            raise ValueError(f"device = {device}: expected a CUDA device or the CPU")
        flags = _library.IMAGE_FIRST if layout.image_first else 0
        flags |= _library.TEXT_REPLICATED if layout.text_replicated else 0
        return _library.Attention(
            batch=layout.batch,
            text_tokens=layout.text,
            image_tokens=layout.image,
            heads=layout.heads,
            kv_heads=layout.kv_heads,
            head_dim=layout.head_dim,
            flags=flags,
            element_type=_library.ELEMENT_TYPES[key.dtype],
            memory_kind=_library.MEMORY_KINDS[device.type],
            device=device.index or 0,
            side_stream=int(self.side_stream and device.type != "cpu"),
            policy=None if self.exact else self.policy.encode(),
            layers=self.layers,
            steps=self.steps,
            branches=self.branches,
        )

    def are_fast(self, name: str) -> bool:
        """Whether exact exchanges of a layer, of the shape that this is the name of, take so little time that
        one of Q, K and V together is better than three that overlap projections. Collective."""
        return self.measure(next(key for key, made in self.made.items() if made == name))

    def measure(self, key: Key) -> bool:
        """The same, of a shape that there may be no exchange of. Collective where it is new."""
        shape = self._shape(key)
        if shape not in self.fast:
            # Longer ones than slow ones are slow, shorter than fast ones fast: servers see many lengths.
            short = _layer_bytes(key) <= self.longest_fast
            known = short or _layer_bytes(key) >= self.shortest_slow
            self.fast[shape] = short if known else self._timed(key)
        return self.fast[shape]

    def _timed(self, key: Key) -> bool:
        library, fast = self.group.library, self.group.one_node
        if library is None or key.device.type == "cpu":
            return fast
        with _without_memory(self._shape(key)):
            fast = library.exact_time(self.group.name, self._attention(key), FAST) < FAST
            if fast:
                self.longest_fast = _layer_bytes(key)
            else:
                self.shortest_slow = _layer_bytes(key)
        return fast

    def _is_off(self, shape: str, attention: _library.Attention) -> bool:
        """Whether exact transfers of this shape were found to be faster than the policy's. Collective."""
        library = self.group.library
        if self.exact or not self.adapt or library is None:
            return False
        if shape not in self.trials:
            self.trials[shape] = _library.Trial(pays=1)
            with _without_memory(shape):
                self.trials[shape] = trial = library.try_policy(self.group.name, attention)
                if not trial.pays and self.group.rank == 0:
                    logger.info("policy %s is off for %s: %s", self.policy, shape, text_of(trial))
        return not self.trials[shape].pays

    def _free(self, key: Key) -> None:
        name = self.made.pop(key)
        self._captured.discard(key)
        self._recorded_for.discard(key)
        self.too_long.pop(name, None)
        reference.free_exchange(name)
        if self.group.library is not None and not self.are_gone:
            self.freed.add(self._facts(key, name))
            self.group.library.free_exchange(name)

    def _facts(self, key: Key, name: str) -> dict[str, Any]:
        """What the library tells of an exchange. Of Q and K in 8 bits it knows no more than these."""
        assert self.group.library is not None
        facts = self.group.library.report(name)
        if self.sage:
            facts["full_bytes"] *= 1 if key.has_value else key.dtype.itemsize
            for level in facts["levels"]:
                level["share"] = (1 / key.dtype.itemsize + 1) / 2  # of Q, K, V and the output together
        return facts

    def facts(self) -> list[dict[str, Any]]:
        """Of all exchanges that there are."""
        made = {} if self.are_gone else self.made
        if self.group.library is None:
            return [{"exchange": name} for name in made.values()]
        return [self._facts(key, name) for key, name in made.items()]

    def begin_step(self, step: int, branch: int) -> None:
        """With a policy: where the starts that follow take place."""
        self.at = (step, branch)
        if self.group.library is not None:
            for name in self.made.values():
                self.group.library.begin_step(name, step, branch)

    def reset(self) -> None:
        """With a policy: forgets what was sent, for a new image. Collective."""
        if self.group.library is not None:
            for name in self.made.values():
                self.group.library.reset(name)

    def leave(self) -> None:
        """With a policy: others carry the next passes. What is remembered would be old when these come back,
        and takes memory meanwhile. Collective."""
        for key in [key for key in self.made if key not in self._captured | self._recorded_for]:
            self._free(key)
        self.reset()

    def change_run(self, steps: int, branches: int) -> bool:
        """With a policy: other numbers of them. What there is is made anew under the same names, so that
        compiled graphs stay good. Whether they are others. Collective, between forward passes."""
        if (steps, branches) == (self.steps, self.branches):
            return False
        there = list(self.made)
        self.close()
        self.steps, self.branches = steps, branches
        self._get_all(there)
        return True

    @property
    def are_gone(self) -> bool:
        """Whether the group was opened anew since."""
        return self._opened != self.group.opened

    def make_anew(self) -> None:
        """After a failure, which ranks had at different places: what all of them had, as one of them used it.
        The same exchanges, under the same names, without what is under way. Collective."""
        own = {name: key for key, name in self.made.items()}
        every = self.group.gather(
            (list(own), list(self.trials), list(self.fast), self.longest_fast, self.shortest_slow)
        )
        names, trials, fast, short, long = zip(*every, strict=True)
        self.trials = {shape: self.trials[shape] for shape in _of_all(trials)}
        self.fast = {shape: self.fast[shape] for shape in _of_all(fast)}
        self.longest_fast, self.shortest_slow = min(short), max(long)
        there = [own[name] for name in _of_all(names)]
        if self.group.on_device and not self.are_gone and self.exact:
            for key in self.made.keys() - set(there):
                self._free(key)
            self.made = {key: self.made[key] for key in there}
        else:
            self.close()
            self._get_all(there)

    def _get_all(self, there: list[Key]) -> None:
        self.at = (0, 0)
        self._opened = self.group.opened
        for key in reversed(there):  # what was used last comes first where there is not memory for all
            self.get(key)
        self.made = {key: self.made[key] for key in there}

    def close(self) -> None:
        """Collective."""
        self.closed += 1
        for key in list(self.made):
            self._free(key)

    def has(self, names: Iterable[str]) -> bool:
        return set(names) <= set(self.made.values())

    def phase(self, name: str) -> int:
        """Passes of one do the same in an exchange; -1: not to be captured."""
        return 0 if self.group.library is None else self.group.library.phase(name)

    def first_phase(self, name: str) -> int:
        """That of a pass that was the first to an exchange."""
        phase = self.phase(name)
        return phase if phase < 0 else phase % self.branches

    @torch.compiler.disable
    def begin_recording(self) -> None:
        """Of all that starts until end_recording(). What is captured is one."""
        self._recorded = True
        for name in self.made.values():
            if self.group.library is not None:
                self.group.library.record(name)

    def end_recording(self, failed: bool = False) -> dict[str, int]:
        """Numbers for note_replay(), of the exchanges that had something to do, in the order in which they
        are kept.

        :param failed: on all ranks: nothing of it is replayed. Collective then
        """
        self._recorded = False
        library = self.group.library
        if library is None:
            return {}
        used = {name: library.recorded(name, failed) for name in self.made.values()}
        if failed and not self.exact:
            at = self.at
            self.make_anew()
            self.begin_step(*at)
        return {name: number for name, number in used.items() if number >= 0}

    def note_replay(self, name: str, recording: int) -> None:
        if self.group.library is not None:
            self.group.library.replayed(name, recording)

    def release(self, names: set[str]) -> None:
        """No recorded graph knows their memory any more."""
        self._recorded_for = {key for key in self._recorded_for if self.made.get(key) not in names}
