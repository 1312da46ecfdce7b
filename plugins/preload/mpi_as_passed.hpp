/// @file
/// What this library uses of MPI, for programs of any MPI, so without mpi.h: handles are pointers in some
/// MPIs and integers in others. What a program passes is handed on whole: registers and places on the stack
/// hold either, and an MPI whose handles are integers reads the lower half.
#pragma once

#include <cstdint>

using MPI_Comm = void*;
using MPI_Datatype = void*;
using MPI_Info = void*;
using MPI_Op = void*;
using MPI_Request = void*;
using MPI_Aint = std::intptr_t;
using MPI_Count = std::int64_t;

constexpr int MPI_SUCCESS = 0;

extern "C" {
int MPI_Alloc_mem(MPI_Aint size, MPI_Info info, void* baseptr);
int MPI_Free_mem(void* base);
int PMPI_Abort(MPI_Comm comm, int code);
int PMPI_Comm_create_keyval(int (*copy)(MPI_Comm, int, void*, void*, void*, int*),
                            int (*free)(MPI_Comm, int, void*, void*), int* keyval, void* state);
int PMPI_Comm_free_keyval(int* keyval);
int PMPI_Comm_rank(MPI_Comm comm, int* rank);
int PMPI_Comm_set_attr(MPI_Comm comm, int keyval, void* value);
int PMPI_Comm_size(MPI_Comm comm, int* size);
int PMPI_Get_library_version(char* version, int* length);
int PMPI_Iallreduce(const void* sendbuf, void* recvbuf, int count, MPI_Datatype type, MPI_Op op,
                    MPI_Comm comm, MPI_Request* request);
int PMPI_Irecv(void* buffer, int count, MPI_Datatype type, int source, int tag, MPI_Comm comm,
               MPI_Request* request);
int PMPI_Isend(const void* buffer, int count, MPI_Datatype type, int destination, int tag, MPI_Comm comm,
               MPI_Request* request);
int PMPI_Test(MPI_Request* request, int* flag, void* status);
}
