"""What a launcher tells about this process, and torch.distributed made from it."""

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
            numbers = (_number(env, one) for one in (rank, size, local_rank, local_size))
            return Launch(name, *numbers)
    return Launch("none", 0, 1, 0, 1)


def _number(env: dict[str, str], name: str) -> int:
    """0 where it is not set. Slurm writes how many nodes it is the number of: "3(x2)"."""
    text = env.get(name) or "0"
    try:
        return int(text.split("(")[0])
    except ValueError:
        raise ValueError(f"{name} = {text!r} in the environment: expected a number") from None


def _rendezvous(this: Launch, env: dict[str, str]) -> str:
    """Where all processes of the job meet: they derive it alike, where the launcher gives no address."""
    if "MASTER_ADDR" in env:
        if "MASTER_PORT" not in env:
            raise ValueError(
                f"MASTER_PORT is not set, but MASTER_ADDR is {env['MASTER_ADDR']}: expected both"
            )
        return "env://"
    jobs = (env.get(name) for name in ("PMIX_NAMESPACE", "OMPI_MCA_ess_base_jobid", "SLURM_JOB_ID"))
    job = next(filter(None, jobs), os.getppid())  # MPICH says nothing: a node's processes have one parent
    step = env.get("SLURM_STEP_ID", "")
    port = env.get("MASTER_PORT", 20000 + zlib.crc32(f"{job}.{step}".encode()) % 10000)
    one_node = "SLURM_LAUNCH_NODE_IPADDR" in env and env.get("SLURM_NNODES", "1") == "1"
    if one_node or this.local_size == this.size:
        return f"tcp://127.0.0.1:{port}"
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
        alone = this.size == 1 and "MASTER_ADDR" not in env  # nobody is met: no port is needed
        dist.init_process_group(
            backend,
            init_method=None if alone else _rendezvous(this, env),
            store=dist.HashStore() if alone else None,
            rank=this.rank,
            world_size=this.size,
            timeout=datetime.timedelta(seconds=timeout_seconds),
        )
    return this
