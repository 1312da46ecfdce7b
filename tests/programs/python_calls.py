"""All-to-alls from mpi4py, with buffers of the standard library: prints a checksum for each case."""

import array
import sys
from collections.abc import Iterable

from mpi4py import MPI

comm = MPI.COMM_WORLD
rank, size = comm.rank, comm.size
errors = 0


def value(source: int, destination: int, i: int) -> int:
    return (source * 1000 + destination) * 100 + i


def ragged(source: int, destination: int) -> int:
    return (source + 2 * destination) % 4 + 1


def offsets(counts: list[int]) -> list[int]:
    return [sum(counts[:i]) for i in range(len(counts))]


def report(name: str, got: Iterable[int], expected: Iterable[int]) -> None:
    global errors
    wrong = comm.allreduce(int(list(got) != list(expected)))
    checksum = comm.allreduce(sum(v * (i % 97 + rank + 1) for i, v in enumerate(got)))
    if rank == 0:
        print(f"{name}: ranks wrong {wrong}, checksum {checksum}")
    errors += wrong


n = 3
send = array.array("i", [value(rank, d, i) for d in range(size) for i in range(n)])
expected = [value(s, rank, i) for s in range(size) for i in range(n)]
recv = array.array("i", [-1] * (n * size))
comm.Alltoall([send, n, MPI.INT], [recv, n, MPI.INT])
report("Alltoall", recv, expected)

recv = array.array("i", send)
comm.Alltoall(MPI.IN_PLACE, [recv, n, MPI.INT])
report("Alltoall in place", recv, expected)

recv = array.array("i", [-1] * (n * size))
comm.Ialltoall([send, n, MPI.INT], [recv, n, MPI.INT]).Wait()
report("Ialltoall", recv, expected)

sendcounts = [ragged(rank, p) for p in range(size)]
recvcounts = [ragged(p, rank) for p in range(size)]
sdispls, rdispls = offsets(sendcounts), offsets(recvcounts)
send = array.array("i", [value(rank, d, i) for d in range(size) for i in range(sendcounts[d])])
expected = [value(s, rank, i) for s in range(size) for i in range(recvcounts[s])]

recv = array.array("i", [-1] * sum(recvcounts))
comm.Alltoallv([send, (sendcounts, sdispls), MPI.INT], [recv, (recvcounts, rdispls), MPI.INT])
report("Alltoallv", recv, expected)

recv = array.array("i", [-1] * sum(recvcounts))
comm.Ialltoallv([send, (sendcounts, sdispls), MPI.INT], [recv, (recvcounts, rdispls), MPI.INT]).Wait()
report("Ialltoallv", recv, expected)

types = [MPI.INT] * size
recv = array.array("i", [-1] * sum(recvcounts))
comm.Alltoallw([send, (sendcounts, [4 * d for d in sdispls]), types], [recv, (recvcounts, [4 * d for d in rdispls]), types])
report("Alltoallw", recv, expected)

objects = comm.alltoall([{"from": rank, "to": d, "data": "x" * (rank + d)} for d in range(size)])
report(
    "alltoall of objects",
    [o["from"] * 1000 + o["to"] * 10 + len(o["data"]) for o in objects],
    [s * 1000 + rank * 10 + s + rank for s in range(size)],
)
sys.exit(1 if errors else 0)
