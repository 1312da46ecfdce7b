"""Distributed FFTs of mpi4py-fft: slabs and pencils, their transposes are MPI_Alltoallw of subarray types."""

import numpy
from mpi4py import MPI
from mpi4py_fft import PFFT, newDistArray

comm = MPI.COMM_WORLD
for shape, grid, dtype in (((64, 64, 64), (-1,), float), ((64, 64, 64), None, complex)):
    fft = PFFT(comm, shape, axes=range(len(shape)), dtype=dtype, grid=grid)
    field = newDistArray(fft, False)
    rows = numpy.indices(shape)[(slice(None), *fft.local_slice(False))]
    field[:] = numpy.sin(sum((i + 1.5) * axis for i, axis in enumerate(rows)))
    comm.Barrier()
    began = MPI.Wtime()
    for _ in range(40):
        spectrum = fft.forward(field)
        back = fft.backward(spectrum)
    seconds = comm.allreduce(MPI.Wtime() - began, MPI.MAX)
    error = comm.allreduce(float(numpy.abs(back - field).max()), MPI.MAX)
    power = comm.allreduce(float((numpy.abs(spectrum) ** 2).sum()), MPI.SUM)
    if comm.rank == 0:
        print(f"result {shape} {dtype.__name__}: power {power:.12e}, back {error < 1e-12}")
        print(f"seconds {seconds:.6f}")
