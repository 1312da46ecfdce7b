/** @file
 * libtapa's device engine: an all-to-all on device buffers, ordered by streams, between the processes of one
 * node or of several. One process for each GPU; several may share one, for tests.
 *
 * A call puts kernels on the caller's stream and returns: nothing waits on the host, and a stream that is
 * captured records the call for any number of replays. All ranks make the calls of a communicator in the same
 * order, in stream order: calls on different streams are ordered by the caller, with events. Calls of
 * different communicators need no order as long as CUDA runs their streams beside each other: not where
 * streams share a queue of the device (CUDA_DEVICE_MAX_CONNECTIONS=1, or more streams than it says), nor
 * the default stream beside streams that wait for it. There all ranks call them in one order.
 *
 * Blocks are bytes. What one rank sends to another must be what the other expects from it. Send and receive
 * buffers must not overlap, and belong to the stream from the call on until the stream has passed it. Any
 * addresses and counts will do; addresses of equal remainder by 16 are fastest.
 *
 * No CUDA header is needed: streams are `void*` (a `cudaStream_t` or `CUstream`; null is the default stream).
 * Where the library was built without CUDA every call but TAPA_Device_last_error() returns
 * TAPA_DEVICE_ERR_UNSUPPORTED.
 *
 * Errors: a code, and in TAPA_Device_last_error() which argument was wrong, its value, what was expected.
 * Collective calls that fail on one rank fail on all, with the text of that rank; but for null handles, null
 * results, and a wrong rank, size or allgather, which the rank alone can see.
 */
#ifndef TAPA_DEVICE_H
#define TAPA_DEVICE_H

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

#ifndef TAPA_API
#define TAPA_API __attribute__((visibility("default")))
#endif

/** @defgroup device All-to-all on device buffers
 * @{ */
#define TAPA_DEVICE_SUCCESS 0         /**< done, or on its way */
#define TAPA_DEVICE_ERR_ARG 1         /**< an argument is wrong */
#define TAPA_DEVICE_ERR_UNSUPPORTED 2 /**< built without CUDA, no GPU, nothing joins nodes */
#define TAPA_DEVICE_ERR_CUDA 3        /**< a CUDA call failed */
#define TAPA_DEVICE_ERR_ALLGATHER 4   /**< the caller's allgather failed */
#define TAPA_DEVICE_ERR_TIMEOUT 5     /**< a rank did not arrive at a call: the communicator is of no use */
#define TAPA_DEVICE_ERR_WINDOW \
  6 /**< a call used a registration that is gone, or against its rules; likewise */
#define TAPA_DEVICE_ERR_MEMORY 7 /**< no memory */
#define TAPA_DEVICE_ERR_COUNT \
  8 /**< a rank sent another number of bytes than its receiver expected; likewise */

/** Ranks of one node at most, in a communicator. */
#define TAPA_DEVICE_MAX_RANKS 16
/** Ranks of a communicator at most, all nodes together. */
#define TAPA_DEVICE_MAX_SIZE 1024

/** @name What joins ranks of different nodes, or of one whose GPUs do not reach each other
 * NCCL's sends and receives, messages of a CUDA-aware MPI, or messages of any MPI or over TCP through memory
 * of the host. Those of MPI need a communicator of TAPA_Device_comm_create_mpi, and MPI_THREAD_MULTIPLE. TCP
 * uses the interfaces that TAPA_SOCKET_IFNAME names, in the form of NCCL_SOCKET_IFNAME; without it those of
 * the latter, or the fastest.
 * @{ */
/** What the environment variable TAPA_GPU_WIRE names (nccl, mpi, staging, sockets, host), or the first that
 * works on all ranks: on one host its memory, NCCL, sockets, MPI, staging; else sockets, NCCL, MPI, staging;
 * where a rank has RDMA devices, or NCCL_NET names another network than "Socket", NCCL, MPI, staging,
 * sockets. */
#define TAPA_DEVICE_WIRE_AUTO 0
#define TAPA_DEVICE_WIRE_NCCL 1
#define TAPA_DEVICE_WIRE_MPI 2
#define TAPA_DEVICE_WIRE_STAGING 3
#define TAPA_DEVICE_WIRE_SOCKETS 4
#define TAPA_DEVICE_WIRE_HOST 5 /**< memory of the host, where all ranks are on one */
/** @} */

/** Ranks that exchange device buffers. Not for use by several threads at once. */
typedef struct TAPA_Device_comm_s* TAPA_Device_comm;
#define TAPA_DEVICE_COMM_NULL ((TAPA_Device_comm)0) /**< no communicator */

/** Gives every rank the `bytes` bytes at `mine` of each rank, in order of ranks, in `all` (host memory,
 * `size` times `bytes` bytes). Called by collective calls of the communicator, by all ranks, with the same
 * `bytes`. Returns 0, or anything else when it failed. */
typedef int (*TAPA_Device_allgather)(void* context, const void* mine, void* all, size_t bytes);

/** Settings. Zero means the default throughout: clear it all, then set struct_size and what matters. Ranks
 * use what rank 0 asks for. */
typedef struct TAPA_Device_options {
  size_t struct_size; /**< sizeof(TAPA_Device_options) */
  double timeout;     /**< seconds that a call waits for a rank, by the device's clock, at most 1e9; default
                         60 */
  size_t line_bytes;  /**< longest block that travels with flags in its data; default 524288 */
  size_t
      copy_bytes; /**< shortest block that copy engines move, see TAPA_DEVICE_SYMMETRIC; default 33554432 */
  int channels;   /**< thread blocks for each rank at most, 1 to 64; default: as many as fit on the GPU
                     at once, on 132 multiprocessors 128 / size, but 8 or more */
  int wire;       /**< what joins nodes, a TAPA_DEVICE_WIRE; default TAPA_DEVICE_WIRE_AUTO */
} TAPA_Device_options;

/** Makes a communicator on the current device of each rank. Collective, synchronises.
 *
 * It holds device memory on every rank: 1 MiB of a channel for each other rank of the node, and 4 *
 * line_bytes for each rank, with the defaults 68 MiB for 2 ranks, 104 MiB for 4, 128 MiB for 8 and 152 MiB
 * for 16; between nodes about 224 MiB more at most, whatever the number of ranks, without what the wire
 * takes.
 * @param rank      of this process, 0 to size - 1
 * @param size      ranks, 1 to TAPA_DEVICE_MAX_SIZE, each a process of its own; at most
 *                  TAPA_DEVICE_MAX_RANKS of a node
 * @param allgather used in this call and in collective calls on the communicator
 * @param context   passed to it
 * @param options   null for defaults
 * @param comm      the result, free with TAPA_Device_comm_free */
TAPA_API int TAPA_Device_comm_create(int rank, int size, TAPA_Device_allgather allgather, void* context,
                                     const TAPA_Device_options* options, TAPA_Device_comm* comm);
/** Which ranks' GPUs, the current devices, reach each other's memory, as TAPA_Device_comm_create will find:
 * ranks of one group do. The others of their host are reached through its memory. Collective, synchronises.
 * @param rank      of this process, 0 to size - 1
 * @param size      ranks, 1 to TAPA_DEVICE_MAX_SIZE
 * @param allgather used in this call
 * @param context   passed to it
 * @param groups    the group of each rank, `size` of them: 0 and up, in order of their first ranks */
TAPA_API int TAPA_Device_reach(int rank, int size, TAPA_Device_allgather allgather, void* context,
                               int groups[]);
/** Frees it and sets it to TAPA_DEVICE_COMM_NULL. Collective: waits for this rank's device and for the other
 * ranks, of its host at most as long as a call does, and then says on stderr who did not come and is local.
 * Graphs that have recorded its calls are destroyed before. After TAPA_DEVICE_ERR_TIMEOUT, _WINDOW or _COUNT
 * it is local instead, and keeps the memory that others may still have open. In the call that failed on one
 * rank another may have got all it waited for: the ranks of a node tell each other here whether they are
 * well, and wait for none when one is not. Who is still in a call then learns there that the rank has left.
 *
 * Ranks of other nodes are not told. Where one of them may have failed, all ranks first make one more
 * all-to-all, of one byte a block, and wait for its stream: it fails, after the time-out, on ranks that saw
 * nothing before. */
TAPA_API int TAPA_Device_comm_free(TAPA_Device_comm* comm);

/** Rank i's block for rank j, `bytes` long, goes from i's sendbuf + j * bytes to j's recvbuf + i * bytes.
 * @param sendbuf size * bytes bytes that the device can read
 * @param recvbuf likewise, to write
 * @param bytes   of a block, alike on all ranks
 * @param comm    communicator
 * @param stream  of the communicator's device */
TAPA_API int TAPA_Device_alltoall(const void* sendbuf, void* recvbuf, size_t bytes, TAPA_Device_comm comm,
                                  void* stream);
/** The same with a size and a place for each block: arrays of `size` entries on the host, in bytes, read
 * before the call returns. sendbytes[j] on rank i equals recvbytes[i] on rank j; where it does not, the call
 * ends in a time-out or with bytes that nobody wrote. */
TAPA_API int TAPA_Device_alltoallv(const void* sendbuf, const size_t sendbytes[], const size_t sdispls[],
                                   void* recvbuf, const size_t recvbytes[], const size_t rdispls[],
                                   TAPA_Device_comm comm, void* stream);

/** A block whose bytes do not lie together: planes of rows. Row r of plane p begins at
 * buffer + offset + p * plane_stride + r * row_stride. Bytes are in order of planes, then rows. With planes,
 * rows or row_bytes of 0 there is none. */
typedef struct TAPA_Device_block {
  size_t offset;    /**< bytes from the buffer's begin to the first row */
  size_t row_bytes; /**< bytes of a row, which lie together */
  size_t rows;      /**< rows of a plane */
  size_t
      row_stride; /**< bytes from the begin of a row to that of the next; any number where there is one row */
  size_t planes;  /**< planes, at most 2097151 */
  size_t plane_stride; /**< bytes from the begin of a plane to that of the next; any number where there is one
                          plane */
} TAPA_Device_block;

/** The same with blocks that need not lie together: `size` entries each, read before the call returns.
 * send[j] on rank i has as many bytes (row_bytes * rows * planes, less than 4294967295) as recv[i] on rank j;
 * their rows and strides may differ, and need not be known to each other: scattering and gathering are part
 * of the call. All ranks make this call, also those whose blocks lie together. Rows to receive must not
 * overlap; rows to send may. Fastest where places, strides and rows are multiples of 16 bytes. */
TAPA_API int TAPA_Device_alltoall_strided(const void* sendbuf, const TAPA_Device_block send[], void* recvbuf,
                                          const TAPA_Device_block recv[], TAPA_Device_comm comm,
                                          void* stream);

/** As TAPA_Device_alltoallv, but `stream` goes on where the bytes move without it, and the next call of the
 * communicator may be put on it. `done`, a cudaEvent_t of its device, is recorded behind the call: until then
 * what is sent stays as it is, and what is received is not complete. But where the call is all on `stream`,
 * `*recorded` is 0 and `done` as it was. Where it is captured, the stream has to wait for `done` before the
 * capture ends. Ranks may mix both forms. */
TAPA_API int TAPA_Device_ialltoallv(const void* sendbuf, const size_t sendbytes[], const size_t senddispls[],
                                    void* recvbuf, const size_t recvbytes[], const size_t recvdispls[],
                                    TAPA_Device_comm comm, void* stream, void* done, int* recorded);
/** The same as TAPA_Device_alltoall_strided. */
TAPA_API int TAPA_Device_ialltoall_strided(const void* sendbuf, const TAPA_Device_block send[], void* recvbuf,
                                           const TAPA_Device_block recv[], TAPA_Device_comm comm,
                                           void* stream, void* done, int* recorded);

/** All ranks register the same number of bytes, and in each TAPA_Device_alltoall that receives in the memory
 * all receive at the same offset from its begin. Long blocks then go by copy engines, which leave the
 * multiprocessors to others. A call that breaks the rule fails with TAPA_DEVICE_ERR_WINDOW.
 *
 * Copies are on the stream before it is known that all ranks arrive. After an error their bytes may still
 * come, unannounced, to where the failed call was to receive, on any rank, until the streams of the ranks
 * that saw the error have passed it. */
#define TAPA_DEVICE_SYMMETRIC 1

/** Registers memory for receive buffers: peers then store blocks right into it. Without it longer blocks pass
 * through memory of the library. Collective, synchronises; each rank names memory of its own, of any size, or
 * null and 0 bytes. Registered memory is deregistered before it is freed. Where it was not, and other memory
 * has its addresses, calls that receive there pass through memory of the library and one line on stderr says
 * so; those that cannot (TAPA_DEVICE_SYMMETRIC, TAPA_Device_begin_stores) fail with TAPA_DEVICE_ERR_WINDOW,
 * as do all later ones. Graphs that were recorded before see nothing of it. Memory of cudaMalloc is shared by
 * CUDA IPC, and that of cuMemCreate by handles of its allocations, if it was made with file descriptors as
 * handles (CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR) and ranks reach each other by Unix sockets: also several
 * allocations side by side. Memory that cannot be shared (of cudaMallocAsync) is no error: it counts as not
 * registered, and one line on stderr says so.
 * @param comm   communicator
 * @param buffer begin of the memory
 * @param bytes  its length
 * @param flags  0 or TAPA_DEVICE_SYMMETRIC, alike on all ranks
 * @param window the registration, alike on all ranks */
TAPA_API int TAPA_Device_register(TAPA_Device_comm comm, void* buffer, size_t bytes, int flags, int* window);
/** Ends a registration. Collective, synchronises: all calls that use it must have ended on this rank. A
 * replay of a graph with such a call fails with TAPA_DEVICE_ERR_WINDOW, but for what copy engines
 * (TAPA_DEVICE_SYMMETRIC) and kernels of the caller store: such graphs are not replayed any more. */
TAPA_API int TAPA_Device_deregister(TAPA_Device_comm comm, int window);
/** Whether blocks go right into this rank's part of a registration (`*direct` 1) or not (0). */
TAPA_API int TAPA_Device_is_direct(TAPA_Device_comm comm, int window, int* direct);

/** @name Stores of the caller's own kernels
 * A kernel of the caller stores its results right into the memory that other ranks have registered:
 *
 *     TAPA_Device_begin_stores(comm, window, stream);
 *     my_kernel<<<..., stream>>>(pointers of TAPA_Device_peer_memory);
 *     TAPA_Device_end_stores(comm, window, stream);
 *
 * Both are calls of the communicator: made by all ranks in the same order, recorded by a captured stream, and
 * failing like an all-to-all (a time-out names the rank that did not arrive). After an error the caller's
 * kernel runs all the same, and what it stores reaches ranks that have not come. No other call of the
 * communicator comes between them. All ranks must be able to reach all parts of the window, or both fail on
 * all ranks with TAPA_DEVICE_ERR_UNSUPPORTED; so they do between nodes.
 * @{ */
/** Where `rank`'s part of a registration lies for this process's kernels; this rank's own part, too. Valid
 * until TAPA_Device_deregister.
 * @param comm   communicator
 * @param window a registration
 * @param rank   of the communicator
 * @param memory the result; TAPA_DEVICE_ERR_ARG where the rank registered none */
TAPA_API int TAPA_Device_peer_memory(TAPA_Device_comm comm, int window, int rank, void** memory);
/** What is put on the stream after it may store into the window's memory of all ranks: they all have come to
 * this call, and what was on their streams before is done. */
TAPA_API int TAPA_Device_begin_stores(TAPA_Device_comm comm, int window, void* stream);
/** What is put on the stream after it sees the stores that all ranks' streams made before this call. */
TAPA_API int TAPA_Device_end_stores(TAPA_Device_comm comm, int window, void* stream);
/** @} */

/** Whether calls that ran so far have failed on the device: TAPA_DEVICE_SUCCESS, or what every later call
 * returns. `rank`, which may be null: the rank that did not arrive; -1 without a failure. Local, does not
 * wait for the stream. */
TAPA_API int TAPA_Device_query(TAPA_Device_comm comm, int* rank);

/** This rank makes no more calls, as its program has failed between two of them: later ones return
 * TAPA_DEVICE_ERR_TIMEOUT with `why`, and the other ranks of its node, who wait for it on their devices, fail
 * at once instead of after the time-out. Ranks of other nodes are not told. Local; waits for no stream. */
TAPA_API int TAPA_Device_give_up(TAPA_Device_comm comm, const char* why);
/** After failures, on whatever ranks: the communicator is as it was when it was made, with its registrations,
 * and recorded graphs may be replayed. Waits for this rank's device. Collective; no rank makes a call before
 * all have come. TAPA_DEVICE_ERR_UNSUPPORTED where messages go through MPI, NCCL or sockets. */
TAPA_API int TAPA_Device_restart(TAPA_Device_comm comm);

/** How the ranks of a communicator are joined, in words: "2 nodes of 4 + 4 ranks, joined by nccl 2.28.9".
 * `text` is the communicator's, valid until it is freed. Local. */
TAPA_API int TAPA_Device_describe(TAPA_Device_comm comm, const char** text);

/** What was wrong in this thread's last TAPA_Device call, at most 1 KiB; "" when it succeeded. Valid until
 * the thread's next TAPA_Device call. Never null. */
TAPA_API const char* TAPA_Device_last_error(void);
/** @} */

#ifdef __cplusplus
}
#endif

#endif /* TAPA_DEVICE_H */
