"""fft_steps.py CUBE STEPS: a 3-D transform, forward and back, of CUBE^3 complex numbers in slabs, as people write it with mpi4py and
numpy. Knows nothing of libtapa: bench/first-calls --fft runs it with and without the drop-in.

Prints microseconds of the slowest rank: "fft N" for N of 1, 3, 10, ... up to STEPS, what the first N steps take in all, and "fft median
step". After each step, when the clock has stopped, the spectrum and what came back are checked; status 3 when they are wrong.
"""

import statistics
import sys
import time

import numpy
from mpi4py import MPI

COUNTS = (1, 3, 10, 30, 100, 300, 1000)
WRONG = 3

Array = numpy.ndarray
comm = MPI.COMM_WORLD
ranks = comm.Get_size()


def forward(field: Array) -> Array:
    """Planes (x of this rank, y, z) to their spectrum, as columns (kx, ky of this rank, kz)."""
    own, cube, _ = field.shape
    planes = numpy.fft.fft2(field, axes=(1, 2))
    send = numpy.ascontiguousarray(planes.reshape(own, ranks, cube // ranks, cube).transpose(1, 0, 2, 3))
    columns = numpy.empty_like(send)
    comm.Alltoall(send, columns)
    return numpy.fft.fft(columns.reshape(cube, cube // ranks, cube), axis=0)


def backward(spectrum: Array) -> Array:
    cube, own, _ = spectrum.shape
    columns = numpy.ascontiguousarray(numpy.fft.ifft(spectrum, axis=0))
    planes = numpy.empty((ranks, cube // ranks, own, cube), dtype=complex)
    comm.Alltoall(columns, planes)
    return numpy.fft.ifft2(planes.transpose(1, 0, 2, 3).reshape(cube // ranks, cube, cube), axes=(1, 2))


def planes_of(cube: int, x: Array) -> Array:
    """Planes of a field with a spectrum that is known: five waves, each of another height."""
    y = numpy.arange(cube)
    field = numpy.zeros((len(x), cube, cube), dtype=complex)
    for kx, ky, kz, height in waves(cube):
        turn = 2j * numpy.pi / cube
        field += height * numpy.exp(turn * (kx * x[:, None, None] + ky * y[None, :, None] + kz * y[None, None, :]))
    return field


def waves(cube: int) -> list[tuple[int, int, int, float]]:
    return [(1, 2, 3, 1.0), (0, cube - 1, 5, 2.0), (cube // 2, cube // 3, 0, 3.0), (cube - 2, cube // 2, 1, 4.0), (3, 0, cube - 3, 5.0)]


def spectrum_of(cube: int, first: int, own: int) -> Array:
    spectrum = numpy.zeros((cube, own, cube), dtype=complex)
    for kx, ky, kz, height in waves(cube):
        if first <= ky < first + own:
            spectrum[kx, ky - first, kz] = height * cube**3
    return spectrum


def check(what: str, got: Array, right: Array, scale: float, step: int) -> None:
    error = numpy.abs(got - right).max()
    if not error <= 1e-10 * scale * step:
        print(f"fft_steps: rank {comm.Get_rank()}, step {step}: {what} is wrong by {error:.3g}", file=sys.stderr, flush=True)
        comm.Abort(WRONG)


def slowest(seconds: float) -> float:
    return comm.allreduce(seconds, op=MPI.MAX)


def main() -> None:
    cube, steps = int(sys.argv[1]), int(sys.argv[2])
    own = cube // ranks
    if own * ranks != cube:
        sys.exit(f"fft_steps: {cube} planes cannot be shared by {ranks} ranks")
    first = comm.Get_rank() * own
    base = planes_of(cube, numpy.arange(first, first + own))
    right = spectrum_of(cube, first, own)
    times = []
    for step in range(1, steps + 1):
        field = base * step  # what came for another step is wrong
        comm.Barrier()
        began = time.perf_counter()
        spectrum = forward(field)
        back = backward(spectrum)
        times.append(time.perf_counter() - began)
        check("the spectrum", spectrum, right * step, cube**3, step)
        check("what came back", back, field, 1, step)
    lines = {f"fft {count}": slowest(sum(times[:count])) for count in sorted({*COUNTS, steps}) if count <= steps}
    lines["fft median step"] = slowest(statistics.median(times))
    if comm.Get_rank() == 0:
        for name, seconds in lines.items():
            print(f"{name}\t{seconds * 1e6:.2f}")


if __name__ == "__main__":
    main()
