"""Groups of ranks: a torch.distributed process group, and gloo groups of the same ranks for control."""

from __future__ import annotations

import atexit
import contextlib
import datetime
import logging
import pickle
import time
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, TypeVar, cast

import torch
import torch.distributed as dist
from torch import Tensor

from ._library import Library, library
from .alarm import Abandoned, Alarm, take_ended, wait_for
from .bootstrap import Callbacks, node
from .process_groups import NO_GROUP, gathered, kept_group, lives, ranks_of
from .processes import Process, this_process, who_ended

if TYPE_CHECKING:
    from .halves import First

logger = logging.getLogger("dit_torch")
Result = TypeVar("Result")


# How often groups of these ranks have failed: gloo groups that are kept are of no use then. Agreed when they
# meet.
_failures: dict[str, int] = {}


def meet(parts: list[list[int]], seconds: float) -> None:
    """Returns when all ranks of the parts have called it. Who does not come is named. After a failure ranks
    come at other times: those that waited for the one that failed noticed later."""
    which, own = str(parts), dist.get_rank()
    store = torch.distributed.distributed_c10d._get_default_store()
    count = f"dit_torch/{which}/{own}"
    number = store.add(count, 1)  # in the store: a world that begins anew counts anew
    keys = {rank: f"dit_torch/{which}/{number}/{rank}" for part in parts for rank in part}
    store.set(keys[own], str(_failures.get(which, 0)))
    try:
        store.wait(list(keys.values()), datetime.timedelta(seconds=seconds))
    except RuntimeError as error:
        store.delete_key(keys[own])  # who comes later does not find us
        store.add(count, -1)
        late = [str(rank) for rank, key in keys.items() if rank != own and not store.check([key])]
        if not late:
            raise
        raise RuntimeError(
            f"rank {', '.join(late)} did not come within {seconds:g} seconds: expected all ranks to call "
            "dit_torch alike"
        ) from error
    _failures[which] = max(int(store.get(key)) for key in keys.values())


class Group:
    """Ranks that share transformers. Making one is collective over the group's ranks, or over those of
    `parts`: groups that are made together, this one among them.

    :ivar process_group: whom the caller named; None: all ranks
    :ivar control: gloo, for small agreements from Python
    :ivar name: the same on all ranks and in every run, so that compiled graphs that name it can be kept
    :ivar whole: it has all ranks of torch.distributed
    :ivar one_node: whether all ranks are on one node, and their GPUs reach each other
    :ivar library: libdit_torch.so; None: torch.distributed alone carries the exchanges
    :ivar is_open: the library carries exchanges of these ranks
    :ivar failed: a rank has left a forward pass, or did not come: before the next one they recover()
    :ivar on_device: something is, or was, exchanged between GPUs
    :ivar recoveries: how often they did
    :ivar opened: how often the library was opened for them: exchanges that were made before are gone
    :ivar within: groups of parts of its ranks, which begin anew with it
    :ivar on_its_way: what a half of the ranks has sent to the other, which may not have received it
    """

    def __init__(
        self,
        process_group: dist.ProcessGroup | None = None,
        timeout_seconds: float = 300.0,
        parts: list[list[int]] | None = None,
    ) -> None:
        self.ranks = ranks_of(process_group)
        self.seconds = timeout_seconds
        self._parts = parts or [self.ranks]
        self.process_group = process_group
        self.rank: int = dist.get_rank(process_group)
        self.size = len(self.ranks)
        self.whole = self.size == dist.get_world_size()
        self.name = f"w{self.size}" if self.whole else "r" + "-".join(str(r) for r in self.ranks)
        if parts is not None:  # the same ranks may be a group by themselves, too
            self.name += ".of." + "-".join(str(r) for part in parts for r in part)
        self._bootstrap: dist.ProcessGroup | None = None
        self._processes: list[Process] = []  # by rank, once they are known
        self.library: Library | None = None
        self.is_open = False
        self.failed = False
        self.on_device = False
        self.opened = 0
        self.recoveries = 0
        self.within: list[Group] = []
        self.on_its_way: First | None = None
        self._callbacks: Callbacks | None = None
        self._beside: dict[str, tuple[list[list[int]], dist.ProcessGroup]] = {}
        self._meet()
        try:
            found = self.together(library)
            self.agree({"libdit_torch.so": "found" if found else "not found"})
            self._node = node()
            every = self.gather((self._node, this_process(dist.get_rank())))
            self._processes = [process for _, process in every]
            self._open(found)
            self.one_node = len({where for where, _ in every}) == 1
            if found is not None:
                self.one_node = found.one_node(self.name)
        except Exception:
            self._count_failure()
            self._destroy([self.control, self._bootstrap])
            raise

    def _meet(self) -> None:
        meet(self._parts, 3 * self.seconds)
        self.alarm = Alarm(self.name, _failures[str(self._parts)])
        self.control = self._gloo("control", self.seconds)

    def _open(self, found: Library | None) -> None:
        if found is not None:
            # A group for the library's thread alone; the library keeps the time limit itself.
            self._bootstrap = self._gloo("bootstrap", 30 * 24 * 3600.0)
            self._callbacks = Callbacks(
                self._bootstrap, self.rank, self._node, self._processes, lambda: self.alarm.look()
            )
            found.open(self.name, self._callbacks.struct, self.seconds)
        self.library, self.is_open = found, found is not None
        self.opened += 1

    def fail(self, error: BaseException | None) -> None:
        """This rank comes to nothing more that the others wait for: they are told, and fail, too."""
        if not self.failed and self.lives:
            if isinstance(error, Exception):
                self._finish_passes()
            words = self.alarm.raise_for(self.ranks[self.rank], error)
            if self.on_device and self.library is not None:
                self.library.give_up(self.name, words)
        self.failed = True

    def _finish_passes(self) -> None:
        """Until the GPU has done what it has been given, a while at most: passes that were well are completed
        on all ranks."""
        if not self.on_device or torch.cuda.is_current_stream_capturing():
            return
        end = time.monotonic() + self.seconds
        done = torch.cuda.current_stream().record_event()
        while not done.query() and time.monotonic() < end:
            time.sleep(0.0005)

    def check(self) -> None:
        """Raises where a rank has failed, as far as that is known now: of GPUs it is later than the host's
        calls."""
        if not self.on_device or self.library is None or not self.is_open:
            return
        try:
            self.alarm.look(so_far=True)
            self.library.check(self.name)
        except RuntimeError as error:
            self.fail(error)
            raise

    def begin_anew(self) -> None:
        """Where a rank has failed, which others may not have noticed: they came to no pass. Collective."""
        with contextlib.suppress(Abandoned):
            self.alarm.look()
            if not self.failed:
                self.gather(None)  # while a rank comes that may fail before
                return
        self.recover()

    def recover(self) -> None:
        """After a failure, which each rank has had, in this group or in one within it: what they left under
        way is given up. Collective."""
        self.failed = True
        self._count_failure()
        broken = self._callbacks is not None and self._callbacks.broken
        if not self.on_device:  # what there is on GPUs stays, for graphs that were captured with it
            self._close_library()
        self._destroy([self.control, *(group for _, group in self._beside.values())])
        self._meet()
        for purpose, (parts, _) in self._beside.items():
            self.make_beside(purpose, parts)
        if not self.on_device or any(self.gather(broken)) or not self._restart():
            self._close_library()
            self._open(self.library)
        self.failed = False
        self.recoveries += 1
        self.within = [part for part in self.within if part.lives]
        for part in self.within:  # which of them have failed ranks do not know alike
            part.recover()

    def _restart(self) -> bool:
        """Whether all exchanges on GPUs are as new. Collective."""
        assert self.library is not None
        words = ""
        try:
            self.library.restart(self.name)
        except RuntimeError as error:
            words = str(error)
        return not any(self.gather(words))

    def make_beside(self, purpose: str, parts: list[list[int]]) -> None:
        """A group of gloo of some ranks each, for `gather_beside`. Collective."""
        self._beside[purpose] = parts, self.kept(parts, purpose, self.seconds, backend="gloo")

    def gather_beside(self, purpose: str, x: Tensor, ranks: int) -> Tensor:
        """x of the ranks of one of those groups, of one shape, by rank: [ranks, ...]. Collective."""
        with self.named():
            return gathered(x, ranks, self._beside[purpose][1], self.alarm.look)

    def pass_beside(self, purpose: str, x: Tensor, source: int) -> dist.Work:
        """x of rank `source` (of all) to the others of one of those groups; wait_beside() waits for it."""
        with self.named():
            return dist.broadcast(x, source, group=self._beside[purpose][1], async_op=True)

    def wait_beside(self, purpose: str, work: dist.Work, *memory: Tensor) -> None:
        """Until it is done. `memory`: what it uses."""
        with self.named():
            wait_for(work, self.alarm.look, self._beside[purpose][1], *memory)

    def _gloo(self, purpose: str, seconds: float) -> dist.ProcessGroup:
        timeout = datetime.timedelta(seconds=seconds)
        if self.whole:
            return dist.new_group(self.ranks, timeout=timeout, backend="gloo")
        return self.kept(self._parts, purpose, seconds, backend="gloo")

    def kept(self, parts: list[list[int]], purpose: str, seconds: float, **options: Any) -> dist.ProcessGroup:
        """As kept_group, with a time limit; another one after a failure. Collective as that."""
        use = f"{purpose} {seconds} {_failures[str(self._parts)]}"
        return kept_group(parts, use, timeout=datetime.timedelta(seconds=seconds), **options)

    def gather(self, value: Any) -> list[Any]:
        """Everybody's value, by rank. Collective."""
        own = torch.frombuffer(bytearray(pickle.dumps(value)), dtype=torch.uint8)
        with self.named():
            lengths = gathered(torch.tensor([own.numel()]), self.size, self.control, self.alarm.look).view(-1)
            padded = own.new_zeros(int(lengths.max()))
            padded[: own.numel()] = own
            every = gathered(padded, self.size, self.control, self.alarm.look)
        return [
            pickle.loads(one[:length].numpy().tobytes())
            for one, length in zip(every, lengths.tolist(), strict=True)
        ]

    def gather_tensors(self, x: Tensor) -> Tensor:
        """Everybody's x, all of one shape, by rank: [ranks, ...]. On hosts within the group's time limit, on
        GPUs by the program's group. Collective."""
        with self.named():
            if x.is_cuda:
                return gathered(x, self.size, self.process_group)
            return gathered(x, self.size, self.control, self.alarm.look)

    def all_to_all(self, to: Tensor, x: Tensor, to_splits: list[int], splits: list[int]) -> None:
        """As torch.distributed's all_to_all_single; carried as gather_tensors does. Collective."""
        with self.named():
            if x.is_cuda:
                dist.all_to_all_single(to, x, to_splits, splits, group=self.process_group)
            else:
                work = dist.all_to_all_single(to, x, to_splits, splits, group=self.control, async_op=True)
                wait_for(work, self.alarm.look, self.control, to, x)

    def sum_tensors(self, x: Tensor) -> Tensor:
        """The sum of everybody's x, all of one shape, the same bits on all ranks. Carried as gather_tensors
        does. Collective."""
        total = x.clone(memory_format=torch.contiguous_format)
        with self.named():
            if x.is_cuda:
                dist.all_reduce(total, group=self.process_group)
            else:
                work = dist.all_reduce(total, group=self.control, async_op=True)
                wait_for(work, self.alarm.look, self.control, total)
        return total

    @contextlib.contextmanager
    def named(self) -> Iterator[None]:
        """An error says whose process has ended."""
        try:
            yield
        except Abandoned:
            self.failed = True
            raise
        except RuntimeError as error:
            problem = RuntimeError(
                "ranks did not all come to an agreement within the time limit, or one of them failed, or "
                "something (a forward that was patched, a hook, a cache) decides differently on them: "
                f"{error}{who_ended(self._processes)}"
            )
            self.fail(problem)
            raise problem from error

    def agree(self, values: dict[str, object]) -> None:
        """Fails on all ranks unless they all give the same values. Collective."""
        every = self.gather({name: str(value) for name, value in values.items()})
        for name in dict.fromkeys(name for one in every for name in one):
            values = [one.get(name) for one in every]
            if any(value != values[0] for value in values):
                words = ", ".join(f"rank {r}: {value}" for r, value in zip(self.ranks, values, strict=True))
                raise ValueError(f"{name} differs between ranks: {words}; expected the same on all of them")

    def agree_on_error(self, error: Exception | None) -> None:
        """Fails on all ranks where one of them has an error: that one's is raised there. Collective."""
        every = self.gather(None if error is None else f"{type(error).__name__}: {error}")
        if error is not None:
            raise error
        for rank, words in zip(self.ranks, every, strict=True):
            if words is not None:
                raise RuntimeError(f"rank {rank} failed: {words}")

    def together(self, function: Callable[[], Result]) -> Result:
        """What it returns on this rank; where it fails on one of them, it fails on all. Collective."""
        result, problem = None, None
        try:
            result = function()
        except Exception as error:
            problem = error
        self.agree_on_error(problem)
        return cast("Result", result)

    @property
    def lives(self) -> bool:
        """False once torch.distributed has ended, or begun anew."""
        return lives(self.control)

    def close(self) -> None:
        """Collective. What cannot be closed, as a rank or torch.distributed is gone, is given up."""
        try:
            if self.on_its_way is not None and self.lives and not self.failed:
                with contextlib.suppress(RuntimeError):
                    self.on_its_way.settle()  # of a transformer that is gone
            self._close_library()
        finally:
            self._count_failure()
            self._destroy([self.control])
            self.control = NO_GROUP  # its sockets and threads do not wait for a collection of garbage

    def _close_library(self) -> None:
        self.is_open = False
        try:
            if self.library is not None:
                self.library.close(self.name)
        except RuntimeError as error:
            expected = self.failed or not self.lives
            self.failed = True
            logger.log(logging.DEBUG if expected else logging.WARNING, "given up: %s", error)
        finally:
            if self._callbacks is not None:
                self._callbacks.give_up()
            self._destroy([self._bootstrap])
            self._callbacks = self._bootstrap = None

    def _count_failure(self) -> None:
        if self.failed:
            _failures[str(self._parts)] = _failures.get(str(self._parts), 0) + 1

    def _destroy(self, groups: list[dist.ProcessGroup | None]) -> None:
        """Of some ranks they are kept, but after a failure, when others take their place."""
        _ended.clear()
        _ended.extend(take_ended())
        for group in groups:
            if group is not None and (self.whole or self.failed) and lives(group):
                dist.destroy_process_group(group)
                _ended.append(group)


# Until the next ones end. With torch 2.5 who drops the last reference to a group waits for gloo's thread, and
# lets no other thread run Python, which that thread may want to for the tensors of the last collective.
_ended: list[dist.ProcessGroup] = []


@atexit.register
def _drop_ended() -> None:
    if _ended:
        time.sleep(0.01)
        _ended.clear()  # torch 2.11 and 2.15 abort where one is left to the very end


_open: dict[str, tuple[Group, int]] = {}  # with how many users, by the ranks, and those of other parts


def take(
    process_group: dist.ProcessGroup | None, timeout_seconds: float, parts: list[list[int]] | None = None
) -> Group:
    """The group of these ranks, made when it is first taken. Collective as Group is; `give` gives it back."""
    key = str(parts or [ranks_of(process_group)])
    group, users = _open.get(key, (None, 0))
    if group is not None and not group.lives:
        group.close()
        group, users = None, 0
    if group is not None:
        group.begin_anew()
    group = group or Group(process_group, timeout_seconds, parts)
    _open[key] = (group, users + 1)
    return group


def give(group: Group) -> None:
    """The last one closes it. Collective."""
    key = str(group._parts)
    known, users = _open.get(key, (None, 0))
    if known is not group:
        return  # of a torch.distributed that has ended
    if users > 1:
        _open[key] = (group, users - 1)
        return
    del _open[key]
    group.close()
