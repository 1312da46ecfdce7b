"""Forward passes as CUDA graphs: enable(graphs=True).

The host launches a pass kernel by kernel, and where GPUs are fast that takes longer than what they do. As a
graph a pass is one launch. What depends on the host stays outside of it: comparing inputs, the step of a
policy, splitting inputs at the transformer itself.

The first pass of its sizes goes by itself, the second is captured, and those that follow replay that. Under
a policy so does each phase of an image, in which exchanges code alike. What a graph was captured of must
still be there when it is replayed: weights, adapters and modules are looked at before each pass.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils import _pytree as pytree

from .exchanges import Exchanges
from .parallel import Parallel
from .patch import Patch, no_graph_alone
from .replayable import SIMPLE, fact, hooked, state_of, surroundings, why_not

logger = logging.getLogger("dit_torch")
MOST = 4  # sizes whose graphs are kept: of both branches of guidance, and of two pictures
_MOST_REASONS = 256  # sizes that are known not to be captured
Phases = tuple[int, ...]  # of the exchanges of a pass, in their order


@dataclass
class _Graph:
    executable: torch.cuda.CUDAGraph
    output: Any
    recordings: list[int]  # of the exchanges


@dataclass
class _Sizes:
    """Passes whose arguments are alike but for the numbers in their tensors."""

    given: list[Any]  # what graphs read: tensors of their own, and all else
    exchanges: list[str] | None = None  # that a pass uses; None: there was none yet
    seen: set[Phases] = field(default_factory=set)  # that have gone by themselves
    graphs: dict[Phases, _Graph] = field(default_factory=dict)


@dataclass
class _Pass:
    """One that is a graph's, or is to be one soon."""

    key: Hashable
    sizes: _Sizes
    phases: Phases | None  # None: of the first one they are known behind it
    before: dict[str, int]  # then: those of the exchanges that there were
    args: Any
    kwargs: Any


@dataclass
class Counts:
    """What report() tells."""

    passes: int = 0
    captured: int = 0
    replayed: int = 0
    why_not: str = ""  # the last one was not, nor will others like it be

    def __str__(self) -> str:
        words = f"{self.replayed} of {self.passes} passes replayed, {self.captured} captured"
        return f"{words}; not the last one: {self.why_not}" if self.why_not else words


class Graphs:
    """Around forward() of a transformer, from surround() to remove()."""

    def __init__(self, model: nn.Module, parallel: Parallel) -> None:
        self.model, self.parallel = model, parallel
        self.counts = Counts()
        self._sizes: dict[Hashable, _Sizes] = {}  # the last one was used last
        self._not_captured: dict[Hashable, str] = {}  # why
        self.settle: Callable[[], None] = lambda: None  # raises where ranks are known to differ
        self._state: list[Any] = []
        self._states, self._unsettled = 0, 0  # how often it has changed, and in how many passes in a row
        self._hooked = ""  # why no pass is captured, as long as the state is this one
        self._closed: list[int] = []
        self._whole: Hashable = None  # what the transformer was given, before inputs are split
        self._pool: Any = None
        self._handles: list[Any] = []

    def watch(self) -> None:
        """From here on what graphs are captured of is looked at, before all else of a pass."""
        hook = self.model.register_forward_pre_hook(self._look, with_kwargs=True)
        self._handles.append(hook)

    def surround(self) -> None:
        """Before others that do more around forward() than what is to be captured."""
        self._handles.append(Patch(self.model, "forward", self._around(self.model.forward)))

    def remove(self) -> None:
        for handle in reversed(self._handles):
            handle.remove()
        self._handles.clear()
        self.forget()

    def facts(self) -> dict[str, str]:
        """A rank that captures alone would wait for the others."""
        return {"how often weights, modules or caches have changed (graphs = True)": str(self._states)}

    def begin_anew(self) -> None:
        """After a failure, on all ranks."""
        self.forget()
        self._states = 0

    def forget(self) -> None:
        """All graphs."""
        for key in list(self._sizes):
            self._drop(key)

    @no_graph_alone
    def _look(self, model: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        if not torch.compiler.is_compiling():
            self._look_at(args, kwargs)

    @torch.compiler.disable
    def _look_at(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        self._unsettled = self._unsettled + 1 if self._changed() else 0
        leaves, form = pytree.tree_flatten((args, kwargs))
        self._whole = (str(form), *map(fact, leaves))

    def _changed(self, own: Hashable = None) -> bool:
        """Whether graphs would be of something else, and are forgotten; the sizes `own` have none yet."""
        state = state_of(self.model)
        if state == self._state:
            return False
        self._not_captured.clear()
        for key in [key for key in self._sizes if key != own]:
            self._drop(key)
        self._state, self._states = state, self._states + 1
        self._hooked = hooked(self.model)
        return True

    def _around(self, original: Any) -> Any:
        def forward(*args: Any, **kwargs: Any) -> Any:
            if torch.compiler.is_compiling():
                return original(*args, **kwargs)
            return self._forward(original, args, kwargs)

        return no_graph_alone(forward)

    @no_graph_alone  # what it calls may be compiled
    def _forward(self, original: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        this = self._begin(args, kwargs)
        if this is None:
            return original(*args, **kwargs)
        if this.phases is None or this.phases not in this.sizes.seen:
            self._exchanges.begin_recording()
            try:
                output = original(*this.args, **this.kwargs)
            except BaseException:
                self._exchanges.end_recording()
                raise
            self._note(this)
            return output
        if this.phases in this.sizes.graphs:
            self._note_replay(this)
        elif not self._capture(original, this):
            return original(*this.args, **this.kwargs)
        return self._replay(this)

    @property
    def _exchanges(self) -> Exchanges:
        return self.parallel.exchanges

    @torch.compiler.disable
    def _begin(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> _Pass | None:
        """A pass, with arguments of ours; None: it is neither to be captured nor replayed."""
        self.counts.passes += 1
        closed = [way.exchanges.closed for way in self.parallel.ways]
        if closed != self._closed:
            self.forget()
            self._closed = closed
        leaves, form = pytree.tree_flatten((args, kwargs))
        key = (self.parallel.group.name, self._whole, surroundings(), str(form), *map(fact, leaves))
        self.counts.why_not = self._hooked or self._not_captured.get(key) or why_not(leaves)
        if self._unsettled > 2:
            self.counts.why_not = self.counts.why_not or "weights, modules or adapters change in each pass"
        if self.counts.why_not:
            return None
        sizes = self._sizes_of(key, leaves)
        phases, before = None, {}
        if sizes.exchanges is None:
            before = {name: self._exchanges.phase(name) for name in self._exchanges.made.values()}
        else:
            phases = tuple(self._exchanges.phase(name) for name in sizes.exchanges)
            if -1 in phases:
                self._give_up(key, f"the host takes part in policy {self._exchanges.policy}")
                return None
        for own, x in zip(sizes.given, leaves, strict=True):
            if isinstance(x, Tensor):
                own.copy_(x)
        return _Pass(key, sizes, phases, before, *pytree.tree_unflatten(sizes.given, form))

    def _sizes_of(self, key: Hashable, leaves: list[Any]) -> _Sizes:
        sizes = self._sizes.pop(key, None)
        gone = sizes is not None and not self._exchanges.has(sizes.exchanges or ())
        if sizes is None or gone:
            while len(self._sizes) >= MOST:
                self._drop(next(iter(self._sizes)))
            sizes = _Sizes([_like(x) for x in leaves])
        self._sizes[key] = sizes
        return sizes

    @torch.compiler.disable
    def _note(self, this: _Pass) -> None:
        """Of a pass that has gone by itself, and may have made what its modules keep."""
        self._changed(None if this.sizes.graphs else this.key)
        used = self._exchanges.end_recording()
        if this.phases is None:
            this.sizes.exchanges = list(used)
            this.phases = tuple(this.before.get(name, self._exchanges.first_phase(name)) for name in used)
        this.sizes.seen.add(this.phases)

    @no_graph_alone
    def _capture(self, original: Any, this: _Pass) -> bool:
        """On all ranks or, with the reason noted, on none. Collective."""
        self.settle()
        graph, output, words = torch.cuda.CUDAGraph(), None, ""
        stream = torch.cuda.current_stream()
        self._pool = self._pool or torch.cuda.graph_pool_handle()
        self._exchanges.begin_recording()
        try:
            with torch.cuda.graph(graph, pool=self._pool, capture_error_mode="thread_local"):
                try:
                    output = original(*this.args, **this.kwargs)
                except BaseException as error:
                    words = _first_line(error)  # what comes of it at the end says less
                    raise
        except BaseException as error:
            words = words or _first_line(error)
            _mend(stream, self._pool)
            self._pool = None
            if not isinstance(error, Exception):
                self._exchanges.end_recording()
                raise
        if not self._keep(this, graph, output, words):
            del graph, output
            torch.cuda.empty_cache()
            return False
        return True

    @torch.compiler.disable
    def _keep(self, this: _Pass, graph: torch.cuda.CUDAGraph, output: Any, words: str) -> bool:
        left = [x for x in pytree.tree_leaves(output) if not isinstance(x, (Tensor, *SIMPLE))]
        if left and not words:
            words = f"the output has a {type(left[0]).__name__}"
        why = next(filter(None, self.parallel.group.gather(words)), "")
        used = self._exchanges.end_recording(failed=why != "")
        if why:
            self._give_up(this.key, why)
            return False
        assert this.phases is not None and this.sizes.exchanges is not None
        recordings = [used.get(name, -1) for name in this.sizes.exchanges]
        this.sizes.graphs[this.phases] = _Graph(graph, output, recordings)
        self.counts.captured += 1
        return True

    @torch.compiler.disable
    def _note_replay(self, this: _Pass) -> None:
        """What was captured counts as its first one."""
        assert this.phases is not None and this.sizes.exchanges is not None
        recordings = this.sizes.graphs[this.phases].recordings
        for name, recording in zip(this.sizes.exchanges, recordings, strict=True):
            if recording >= 0:
                self._exchanges.note_replay(name, recording)

    @torch.compiler.disable
    def _replay(self, this: _Pass) -> Any:
        assert this.phases is not None
        graph = this.sizes.graphs[this.phases]
        graph.executable.replay()
        self.counts.replayed += 1
        return pytree.tree_map(lambda x: x.clone() if isinstance(x, Tensor) else x, graph.output)

    def _give_up(self, key: Hashable, why: str) -> None:
        if len(self._not_captured) >= _MOST_REASONS:
            self._not_captured.clear()
        self._not_captured[key] = self.counts.why_not = why
        self._drop(key)
        if self.parallel.group.rank == 0:
            logger.warning("passes of these sizes are not captured in CUDA graphs: %s", why)

    def _drop(self, key: Hashable) -> None:
        dropped = self._sizes.pop(key)
        if dropped.graphs:
            torch.cuda.synchronize()  # one of them may be replayed now
            if not any(sizes.graphs for sizes in self._sizes.values()):
                self._pool = None  # it ends with its last graph
        used = {name for sizes in self._sizes.values() if sizes.graphs for name in sizes.exchanges or ()}
        for way in self.parallel.ways:
            way.exchanges.release(set(dropped.exchanges or ()) - used)


def _first_line(error: BaseException) -> str:
    return f"{type(error).__name__}: {error}".splitlines()[0]


def _mend(stream: torch.cuda.Stream, pool: Any) -> None:
    """A capture that has failed leaves torch on its stream, the allocator within the pool, and the generator
    of random numbers as if it went on: until another one has ended well."""
    torch.cuda.set_stream(stream)
    for end in (torch._C._cuda_endAllocateToPool, torch._C._cuda_releasePool):
        with contextlib.suppress(RuntimeError):  # versions of torch that have done so
            end(stream.device_index, pool)
    with torch.cuda.graph(torch.cuda.CUDAGraph(), capture_error_mode="thread_local"):
        torch.empty(1, device=stream.device).zero_()


def _like(x: Any) -> Any:
    if not isinstance(x, Tensor):
        return x
    with torch.inference_mode(False):  # or it could be written to in inference mode only
        return torch.empty(x.shape, dtype=x.dtype, device=x.device)
