/* The stubs' own idea of mpi.h: a type is its size in bytes. */
int MPI_Init(int* argc, char*** argv);
int MPI_Comm_rank(int comm, int* rank);
int MPI_Alltoall(const void* send, int sendcount, int sendtype, void* recv, int recvcount, int recvtype,
                 int comm);
int MPI_Alloc_mem(long size, int info, void* base);
int MPI_Free_mem(void* base);
int MPI_Finalize(void);
