"""Groups of ranks: a torch.distributed process group, and gloo groups of the same ranks for control."""

from __future__ import annotations

import datetime
import os
import zlib
from dataclasses import dataclass

import torch
import torch.distributed as dist

from ._library import library
from .bootstrap import Callbacks, node


@dataclass(frozen=True)
class Launch:
    """What a launcher tells about this process."""

    launcher: str
    rank: int
    size: int
    local_rank: int
    local_size: int


# launcher, then the variables for rank, size, local rank, local size
_LAUNCHERS = (
    ("torchrun", "RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE"),
    (
        "mpirun",
        "OMPI_COMM_WORLD_RANK",
        "OMPI_COMM_WORLD_SIZE",
        "OMPI_COMM_WORLD_LOCAL_RANK",
        "OMPI_COMM_WORLD_LOCAL_SIZE",
    ),
    ("Slurm", "SLURM_PROCID", "SLURM_NTASKS", "SLURM_LOCALID", "SLURM_NTASKS_PER_NODE"),
    ("mpiexec", "PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID", "MPI_LOCALNRANKS"),
)


def launch(environment: dict[str, str] | None = None) -> Launch:
    """Reads rank and size from what torchrun, mpirun, Slurm or MPICH's mpiexec set; else one process."""
    env = dict(os.environ) if environment is None else environment
    for name, rank, size, local_rank, local_size in _LAUNCHERS:
        if rank in env and size in env:
            ranks = int(env[size])
            return Launch(
                name,
                int(env[rank]),
                ranks,
                int(env.get(local_rank, "0")),
                int(env.get(local_size, "0").split("(")[0] or 0),
            )
    return Launch("none", 0, 1, 0, 1)


def _rendezvous(this: Launch, env: dict[str, str]) -> tuple[str, int]:
    """Address and port that all processes of the job derive alike, where the launcher gives none."""
    job = env.get("PMIX_NAMESPACE") or env.get("OMPI_MCA_ess_base_jobid") or env.get("SLURM_JOB_ID")
    step = env.get("SLURM_STEP_ID", "")
    port = 20000 + zlib.crc32(f"{job}.{step}".encode()) % 10000
    if this.size == 1 or this.local_size == this.size:
        return "127.0.0.1", port
    if "SLURM_LAUNCH_NODE_IPADDR" in env and env.get("SLURM_NNODES", "1") == "1":
        return "127.0.0.1", port
    raise ValueError(
        f"MASTER_ADDR is not set: with {this.launcher} on several nodes, set it to the host name of rank 0's "
        "node (and MASTER_PORT to a free port there)"
    )


def init(backend: str | None = None, timeout_seconds: float = 1800.0) -> Launch:
    """Initialises torch.distributed, if nobody has, from what torchrun, mpirun or Slurm set, and makes the
    GPU with the number of the local rank current. Returns what the launcher says about this process.

    :param backend: of torch.distributed; None: "nccl" where there are GPUs, else "gloo"
    """
    this = launch()
    if torch.cuda.is_available():
        torch.cuda.set_device(this.local_rank % torch.cuda.device_count())
    if not dist.is_initialized():
        if backend is None:
            backend = "nccl" if torch.cuda.is_available() else "gloo"
        env = dict(os.environ)
        if "MASTER_ADDR" not in env:
            address, port = _rendezvous(this, env)
            os.environ["MASTER_ADDR"] = address
            os.environ.setdefault("MASTER_PORT", str(port))
        elif "MASTER_PORT" not in env:
            raise ValueError(
                f"MASTER_PORT is not set, but MASTER_ADDR is {env['MASTER_ADDR']}: expected both"
            )
        dist.init_process_group(
            backend,
            rank=this.rank,
            world_size=this.size,
            timeout=datetime.timedelta(seconds=timeout_seconds),
        )
    return this


class Group:
    """Ranks that share transformers. Making one is collective over the group's ranks.

    :ivar process_group: whom the caller named; None: all ranks
    :ivar control: gloo, for small agreements from Python
    :ivar name: the same on all ranks and in every run, so that compiled graphs that name it can be kept
    :ivar one_node: whether all ranks are on one node
    :ivar library: libdit_torch.so; None: torch.distributed alone carries the exchanges
    """

    def __init__(
        self, process_group: dist.ProcessGroup | None = None, timeout_seconds: float = 300.0
    ) -> None:
        if not dist.is_initialized():
            raise RuntimeError(
                "torch.distributed is not initialised: call dit_torch.init() or "
                "torch.distributed.init_process_group() first, and start with torchrun, mpirun or srun"
            )
        self.process_group = process_group
        self.rank: int = dist.get_rank(process_group)
        self.size: int = dist.get_world_size(process_group)
        if self.rank < 0:
            raise ValueError("group: this process is not a member; expected a group that it belongs to")
        self.ranks: list[int] = dist.get_process_group_ranks(process_group or dist.group.WORLD)
        self._whole = self.size == dist.get_world_size()
        self.name = f"w{self.size}" if self._whole else "r" + "-".join(str(r) for r in self.ranks)
        self.control = self._gloo(datetime.timedelta(seconds=timeout_seconds))
        nodes: list[object] = [None] * self.size
        dist.all_gather_object(nodes, node(), group=self.control)
        self.one_node = len(set(nodes)) == 1
        self.library = library()
        self.agree("libdit_torch.so", "found" if self.library else "not found")
        self._bootstrap: dist.ProcessGroup | None = None
        if self.library is not None:
            # A group for the library's thread alone; the library keeps the time limit itself.
            self._bootstrap = self._gloo(datetime.timedelta(days=30))
            self._callbacks = Callbacks(self._bootstrap, self.rank, self.size)
            self.library.open(self.name, self._callbacks.struct, timeout_seconds)

    def _gloo(self, timeout: datetime.timedelta) -> dist.ProcessGroup:
        return dist.new_group(
            self.ranks, timeout=timeout, backend="gloo", use_local_synchronization=not self._whole
        )

    def agree(self, what: str, value: object) -> None:
        """Fails on all ranks unless they all give the same value. Collective."""
        values: list[object] = [None] * self.size
        dist.all_gather_object(values, value, group=self.control)
        if any(other != values[0] for other in values):
            told = ", ".join(f"rank {rank}: {other}" for rank, other in enumerate(values))
            raise ValueError(f"{what} differs between ranks: {told}; expected the same on all of them")

    def close(self) -> None:
        """Collective."""
        if self.library is not None:
            self.library.close(self.name)
        for group in (self.control, self._bootstrap):
            if group is not None:
                dist.destroy_process_group(group)


_open: dict[str, tuple[Group, int]] = {}  # with how many users, by the ranks


def _key(process_group: dist.ProcessGroup | None) -> str:
    return str(dist.get_process_group_ranks(process_group or dist.group.WORLD))


def take(process_group: dist.ProcessGroup | None, timeout_seconds: float) -> Group:
    """The group of these ranks, made when it is first taken. Collective; give it back with `give`."""
    known = dist.is_initialized() and _open.get(_key(process_group))
    group, users = known if known else (Group(process_group, timeout_seconds), 0)
    _open[_key(process_group)] = (group, users + 1)
    return group


def give(group: Group) -> None:
    """The last one closes it. Collective."""
    key = str(group.ranks)
    users = _open[key][1] - 1
    if users == 0:
        del _open[key]
        group.close()
    else:
        _open[key] = (group, users)
