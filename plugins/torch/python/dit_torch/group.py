"""Groups of ranks: a torch.distributed process group, and gloo groups of the same ranks for control."""

from __future__ import annotations

import datetime
import os
import zlib
from dataclasses import dataclass

import torch
import torch.distributed as dist


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
    """Ranks that share a transformer. Making one is collective over the group's ranks.

    :ivar process_group: whom the caller named; None: all ranks
    :ivar control: gloo, for small agreements from Python
    :ivar bootstrap: gloo, for the exchange plugin's callbacks only: they come from its own thread
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
        self.timeout_seconds = timeout_seconds
        self.ranks: list[int] = dist.get_process_group_ranks(process_group or dist.group.WORLD)
        whole = self.size == dist.get_world_size()
        self.control = self._gloo(whole)
        self.bootstrap = self._gloo(whole)
        # The same on all ranks and in every run, so that compiled graphs that name it can be kept.
        self.name = "r" + "-".join(str(r) for r in self.ranks) if not whole else f"w{self.size}"

    def _gloo(self, whole: bool) -> dist.ProcessGroup:
        return dist.new_group(
            self.ranks,
            timeout=datetime.timedelta(seconds=self.timeout_seconds),
            backend="gloo",
            use_local_synchronization=not whole,
        )

    def agree(self, what: str, value: object) -> None:
        """Fails on all ranks unless they all give the same value. Collective."""
        values: list[object] = [None] * self.size
        dist.all_gather_object(values, value, group=self.control)
        if any(other != values[0] for other in values):
            told = ", ".join(f"rank {rank}: {other}" for rank, other in enumerate(values))
            raise ValueError(f"{what} differs between ranks: {told}; expected the same on all of them")

    def close(self) -> None:
        """Gives the gloo groups back. Collective."""
        for group in (self.control, self.bootstrap):
            dist.destroy_process_group(group)
