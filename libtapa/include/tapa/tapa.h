/** @file
 * libtapa: a topology-aware all-to-all for MPI programs.
 *
 * The calls have the arguments and the meaning of their MPI namesakes; a program changes by prefix only.
 * Buffers belong to the caller throughout.
 *
 * Errors: every function returns MPI_SUCCESS or an MPI error code. Before it returns an error it calls the
 * communicator's error handler (that of MPI_COMM_WORLD where a call has no communicator), as MPI does; the
 * handler may leave by longjmp or an exception. TAPA_Last_error() then tells, in words, which argument was
 * wrong, its value, and what would have been right; where the handler ends the program that is printed. By
 * default arguments are checked as MPI does; option "check" asks for less or more.
 *
 * Set-up: before the library carries out calls on a communicator, its ranks agree on options (as rank 0 has
 * them), topology and shared memory; the first set-up of a process also makes the one private communicator
 * that all use. That happens inside the first call that may synchronise: a blocking all-to-all, an _init
 * call, or a call of the groups "selective" and "state" that says so. The state hangs on the communicator as
 * an attribute and is freed with it. A set-up that fails, as for a wrong option, fails on all ranks, then and
 * in later calls.
 *
 * Threads: as with MPI's calls. Where MPI gives MPI_THREAD_MULTIPLE several may call at once, on one
 * communicator in an order that is the same on all ranks.
 *
 * Some calls are handed to MPI as they were made: nonblocking ones before the set-up, those on communicators
 * of one rank (but persistent ones), on intercommunicators, and in programs that use sessions without
 * MPI_Init. The drop-in sets the process and MPI_COMM_WORLD up in MPI_Init, see docs/drop-in.md.
 */
#ifndef TAPA_TAPA_H
#define TAPA_TAPA_H

#include <mpi.h>
#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

#define TAPA_VERSION_MAJOR 0 /**< major version of this header */
#define TAPA_VERSION_MINOR 1 /**< minor version of this header */
#define TAPA_VERSION_PATCH 0 /**< patch version of this header */

#ifndef TAPA_API
#define TAPA_API __attribute__((visibility("default")))
#endif

/** @defgroup blocking Blocking all-to-all
 * As MPI_Alltoall, MPI_Alltoallv and MPI_Alltoallw: MPI_IN_PLACE, MPI_BOTTOM, any datatype, zero counts and
 * intercommunicators (handed to MPI) are all legal. The _c forms take MPI_Count counts and MPI_Aint
 * displacements. The first calls of each size probe several plans, MPI's own all-to-all among them (option
 * "plan"). Buffers may be in CUDA's memory, also on some ranks only; they are complete when the call
 * returns, and kernels that write them have to have ended before it (option "gpu";
 * docs/drop-in.md).
 * @{ */
/** As MPI_Alltoall. */
TAPA_API int TAPA_Alltoall(const void* sendbuf, int sendcount, MPI_Datatype sendtype, void* recvbuf,
                           int recvcount, MPI_Datatype recvtype, MPI_Comm comm);
/** As MPI_Alltoall with MPI_Count counts. */
TAPA_API int TAPA_Alltoall_c(const void* sendbuf, MPI_Count sendcount, MPI_Datatype sendtype, void* recvbuf,
                             MPI_Count recvcount, MPI_Datatype recvtype, MPI_Comm comm);
/** As MPI_Alltoallv. */
TAPA_API int TAPA_Alltoallv(const void* sendbuf, const int sendcounts[], const int sdispls[],
                            MPI_Datatype sendtype, void* recvbuf, const int recvcounts[], const int rdispls[],
                            MPI_Datatype recvtype, MPI_Comm comm);
/** As MPI_Alltoallv with MPI_Count counts and MPI_Aint displacements. */
TAPA_API int TAPA_Alltoallv_c(const void* sendbuf, const MPI_Count sendcounts[], const MPI_Aint sdispls[],
                              MPI_Datatype sendtype, void* recvbuf, const MPI_Count recvcounts[],
                              const MPI_Aint rdispls[], MPI_Datatype recvtype, MPI_Comm comm);
/** As MPI_Alltoallw. */
TAPA_API int TAPA_Alltoallw(const void* sendbuf, const int sendcounts[], const int sdispls[],
                            const MPI_Datatype sendtypes[], void* recvbuf, const int recvcounts[],
                            const int rdispls[], const MPI_Datatype recvtypes[], MPI_Comm comm);
/** As MPI_Alltoallw with MPI_Count counts and MPI_Aint displacements. */
TAPA_API int TAPA_Alltoallw_c(const void* sendbuf, const MPI_Count sendcounts[], const MPI_Aint sdispls[],
                              const MPI_Datatype sendtypes[], void* recvbuf, const MPI_Count recvcounts[],
                              const MPI_Aint rdispls[], const MPI_Datatype recvtypes[], MPI_Comm comm);
/** @} */

/** @defgroup nonblocking Nonblocking all-to-all
 * The request is an MPI request: complete it with MPI_Wait, MPI_Test or their kin. Count, displacement and
 * type arrays must stay valid until then, as in MPI.
 *
 * A nonblocking call never waits for other ranks, so it cannot set a communicator up: before that it is MPI's
 * own. A program that makes no blocking call on a communicator calls TAPA_Comm_setup once.
 *
 * After the set-up the operation follows a plan as blocking ones do, so the library must run now and then:
 * with Open MPI it does so inside every MPI call that waits or tests, with other MPIs in a thread of its own,
 * for which MPI must provide MPI_THREAD_MULTIPLE. Where neither is possible on some rank the call is MPI's
 * own. TAPA_PROGRESS chooses. (TAPA_Ialltoallv_select, which MPI does not have, then advances with MPICH
 * inside calls that wait for or test its request.)
 *
 * A failed operation gives MPI_Wait an error: with Open MPI its code, raised on MPI_COMM_WORLD as for all
 * generalized requests; with a thread of other MPIs MPI_ERR_TRUNCATE. Its message is printed, by rank 0 alone
 * when all ranks have the same.
 * @{ */
/** As MPI_Ialltoall. */
TAPA_API int TAPA_Ialltoall(const void* sendbuf, int sendcount, MPI_Datatype sendtype, void* recvbuf,
                            int recvcount, MPI_Datatype recvtype, MPI_Comm comm, MPI_Request* request);
/** As MPI_Ialltoall with MPI_Count counts. */
TAPA_API int TAPA_Ialltoall_c(const void* sendbuf, MPI_Count sendcount, MPI_Datatype sendtype, void* recvbuf,
                              MPI_Count recvcount, MPI_Datatype recvtype, MPI_Comm comm,
                              MPI_Request* request);
/** As MPI_Ialltoallv. */
TAPA_API int TAPA_Ialltoallv(const void* sendbuf, const int sendcounts[], const int sdispls[],
                             MPI_Datatype sendtype, void* recvbuf, const int recvcounts[],
                             const int rdispls[], MPI_Datatype recvtype, MPI_Comm comm, MPI_Request* request);
/** As MPI_Ialltoallv with MPI_Count counts and MPI_Aint displacements. */
TAPA_API int TAPA_Ialltoallv_c(const void* sendbuf, const MPI_Count sendcounts[], const MPI_Aint sdispls[],
                               MPI_Datatype sendtype, void* recvbuf, const MPI_Count recvcounts[],
                               const MPI_Aint rdispls[], MPI_Datatype recvtype, MPI_Comm comm,
                               MPI_Request* request);
/** As MPI_Ialltoallw. */
TAPA_API int TAPA_Ialltoallw(const void* sendbuf, const int sendcounts[], const int sdispls[],
                             const MPI_Datatype sendtypes[], void* recvbuf, const int recvcounts[],
                             const int rdispls[], const MPI_Datatype recvtypes[], MPI_Comm comm,
                             MPI_Request* request);
/** As MPI_Ialltoallw with MPI_Count counts and MPI_Aint displacements. */
TAPA_API int TAPA_Ialltoallw_c(const void* sendbuf, const MPI_Count sendcounts[], const MPI_Aint sdispls[],
                               const MPI_Datatype sendtypes[], void* recvbuf, const MPI_Count recvcounts[],
                               const MPI_Aint rdispls[], const MPI_Datatype recvtypes[], MPI_Comm comm,
                               MPI_Request* request);
/** @} */

/** @defgroup neighbours All-to-all along the edges of a topology
 * As MPI_Neighbor_alltoall and kin on communicators with a topology, in which a rank may have no neighbours,
 * be its own, or have several edges to another one. Where all ranks share memory, small and large blocks go
 * through it; else plans carry calls out, or MPI where it is faster. TAPA_Neighbor_* set a communicator up,
 * as blocking all-to-alls do. Several blocks between the same two ranks are matched as MPI matches them.
 * @{ */
/** As MPI_Neighbor_alltoall. */
TAPA_API int TAPA_Neighbor_alltoall(const void* sendbuf, int sendcount, MPI_Datatype sendtype, void* recvbuf,
                                    int recvcount, MPI_Datatype recvtype, MPI_Comm comm);
/** As MPI_Neighbor_alltoall with MPI_Count counts. */
TAPA_API int TAPA_Neighbor_alltoall_c(const void* sendbuf, MPI_Count sendcount, MPI_Datatype sendtype,
                                      void* recvbuf, MPI_Count recvcount, MPI_Datatype recvtype,
                                      MPI_Comm comm);
/** As MPI_Neighbor_alltoallv. */
TAPA_API int TAPA_Neighbor_alltoallv(const void* sendbuf, const int sendcounts[], const int sdispls[],
                                     MPI_Datatype sendtype, void* recvbuf, const int recvcounts[],
                                     const int rdispls[], MPI_Datatype recvtype, MPI_Comm comm);
/** As MPI_Neighbor_alltoallv with MPI_Count counts and MPI_Aint displacements. */
TAPA_API int TAPA_Neighbor_alltoallv_c(const void* sendbuf, const MPI_Count sendcounts[],
                                       const MPI_Aint sdispls[], MPI_Datatype sendtype, void* recvbuf,
                                       const MPI_Count recvcounts[], const MPI_Aint rdispls[],
                                       MPI_Datatype recvtype, MPI_Comm comm);
/** As MPI_Neighbor_alltoallw. */
TAPA_API int TAPA_Neighbor_alltoallw(const void* sendbuf, const int sendcounts[], const MPI_Aint sdispls[],
                                     const MPI_Datatype sendtypes[], void* recvbuf, const int recvcounts[],
                                     const MPI_Aint rdispls[], const MPI_Datatype recvtypes[], MPI_Comm comm);
/** As MPI_Neighbor_alltoallw with MPI_Count counts and MPI_Aint displacements. */
TAPA_API int TAPA_Neighbor_alltoallw_c(const void* sendbuf, const MPI_Count sendcounts[],
                                       const MPI_Aint sdispls[], const MPI_Datatype sendtypes[],
                                       void* recvbuf, const MPI_Count recvcounts[], const MPI_Aint rdispls[],
                                       const MPI_Datatype recvtypes[], MPI_Comm comm);
/** As MPI_Ineighbor_alltoall. */
TAPA_API int TAPA_Ineighbor_alltoall(const void* sendbuf, int sendcount, MPI_Datatype sendtype, void* recvbuf,
                                     int recvcount, MPI_Datatype recvtype, MPI_Comm comm,
                                     MPI_Request* request);
/** As MPI_Ineighbor_alltoall with MPI_Count counts. */
TAPA_API int TAPA_Ineighbor_alltoall_c(const void* sendbuf, MPI_Count sendcount, MPI_Datatype sendtype,
                                       void* recvbuf, MPI_Count recvcount, MPI_Datatype recvtype,
                                       MPI_Comm comm, MPI_Request* request);
/** As MPI_Ineighbor_alltoallv. */
TAPA_API int TAPA_Ineighbor_alltoallv(const void* sendbuf, const int sendcounts[], const int sdispls[],
                                      MPI_Datatype sendtype, void* recvbuf, const int recvcounts[],
                                      const int rdispls[], MPI_Datatype recvtype, MPI_Comm comm,
                                      MPI_Request* request);
/** As MPI_Ineighbor_alltoallv with MPI_Count counts and MPI_Aint displacements. */
TAPA_API int TAPA_Ineighbor_alltoallv_c(const void* sendbuf, const MPI_Count sendcounts[],
                                        const MPI_Aint sdispls[], MPI_Datatype sendtype, void* recvbuf,
                                        const MPI_Count recvcounts[], const MPI_Aint rdispls[],
                                        MPI_Datatype recvtype, MPI_Comm comm, MPI_Request* request);
/** As MPI_Ineighbor_alltoallw. */
TAPA_API int TAPA_Ineighbor_alltoallw(const void* sendbuf, const int sendcounts[], const MPI_Aint sdispls[],
                                      const MPI_Datatype sendtypes[], void* recvbuf, const int recvcounts[],
                                      const MPI_Aint rdispls[], const MPI_Datatype recvtypes[], MPI_Comm comm,
                                      MPI_Request* request);
/** As MPI_Ineighbor_alltoallw with MPI_Count counts and MPI_Aint displacements. */
TAPA_API int TAPA_Ineighbor_alltoallw_c(const void* sendbuf, const MPI_Count sendcounts[],
                                        const MPI_Aint sdispls[], const MPI_Datatype sendtypes[],
                                        void* recvbuf, const MPI_Count recvcounts[], const MPI_Aint rdispls[],
                                        const MPI_Datatype recvtypes[], MPI_Comm comm, MPI_Request* request);
/** @} */

/** @defgroup persistent Persistent all-to-all
 * As MPI-4's MPI_Alltoall_init, MPI_Neighbor_alltoall_init and kin: plan once, start often. Making a request
 * is collective and may synchronise: it sets the communicator up. `info` is not read and may be
 * MPI_INFO_NULL. Start with MPI_Start, MPI_Startall (or TAPA_Start, TAPA_Startall), in any order, also one
 * that differs from rank to rank; complete with MPI_Wait, MPI_Test or their kin; free with MPI_Request_free
 * or TAPA_Request_free.
 *
 * The request is MPI's own on intercommunicators, where nothing makes nonblocking operations progress (see
 * there), and where so many requests of the communicator live that no message tags are left: start and free
 * it with MPI's calls, which do for all; MPI_ERR_UNSUPPORTED_OPERATION where MPI has no persistent
 * all-to-all.
 *
 * MPI gives no way to return the error of a failed run from MPI_Wait: it ends the program when the
 * communicator's error handler was MPI_ERRORS_ARE_FATAL as the request was made; else its message is printed
 * and TAPA_Start refuses the request from then on.
 * @{ */
/** As MPI_Alltoall_init. */
TAPA_API int TAPA_Alltoall_init(const void* sendbuf, int sendcount, MPI_Datatype sendtype, void* recvbuf,
                                int recvcount, MPI_Datatype recvtype, MPI_Comm comm, MPI_Info info,
                                MPI_Request* request);
/** As MPI_Alltoall_init with MPI_Count counts. */
TAPA_API int TAPA_Alltoall_init_c(const void* sendbuf, MPI_Count sendcount, MPI_Datatype sendtype,
                                  void* recvbuf, MPI_Count recvcount, MPI_Datatype recvtype, MPI_Comm comm,
                                  MPI_Info info, MPI_Request* request);
/** As MPI_Alltoallv_init. */
TAPA_API int TAPA_Alltoallv_init(const void* sendbuf, const int sendcounts[], const int sdispls[],
                                 MPI_Datatype sendtype, void* recvbuf, const int recvcounts[],
                                 const int rdispls[], MPI_Datatype recvtype, MPI_Comm comm, MPI_Info info,
                                 MPI_Request* request);
/** As MPI_Alltoallv_init with MPI_Count counts and MPI_Aint displacements. */
TAPA_API int TAPA_Alltoallv_init_c(const void* sendbuf, const MPI_Count sendcounts[],
                                   const MPI_Aint sdispls[], MPI_Datatype sendtype, void* recvbuf,
                                   const MPI_Count recvcounts[], const MPI_Aint rdispls[],
                                   MPI_Datatype recvtype, MPI_Comm comm, MPI_Info info, MPI_Request* request);
/** As MPI_Alltoallw_init. */
TAPA_API int TAPA_Alltoallw_init(const void* sendbuf, const int sendcounts[], const int sdispls[],
                                 const MPI_Datatype sendtypes[], void* recvbuf, const int recvcounts[],
                                 const int rdispls[], const MPI_Datatype recvtypes[], MPI_Comm comm,
                                 MPI_Info info, MPI_Request* request);
/** As MPI_Alltoallw_init with MPI_Count counts and MPI_Aint displacements. */
TAPA_API int TAPA_Alltoallw_init_c(const void* sendbuf, const MPI_Count sendcounts[],
                                   const MPI_Aint sdispls[], const MPI_Datatype sendtypes[], void* recvbuf,
                                   const MPI_Count recvcounts[], const MPI_Aint rdispls[],
                                   const MPI_Datatype recvtypes[], MPI_Comm comm, MPI_Info info,
                                   MPI_Request* request);
/** As MPI_Neighbor_alltoall_init. */
TAPA_API int TAPA_Neighbor_alltoall_init(const void* sendbuf, int sendcount, MPI_Datatype sendtype,
                                         void* recvbuf, int recvcount, MPI_Datatype recvtype, MPI_Comm comm,
                                         MPI_Info info, MPI_Request* request);
/** As MPI_Neighbor_alltoall_init with MPI_Count counts. */
TAPA_API int TAPA_Neighbor_alltoall_init_c(const void* sendbuf, MPI_Count sendcount, MPI_Datatype sendtype,
                                           void* recvbuf, MPI_Count recvcount, MPI_Datatype recvtype,
                                           MPI_Comm comm, MPI_Info info, MPI_Request* request);
/** As MPI_Neighbor_alltoallv_init. */
TAPA_API int TAPA_Neighbor_alltoallv_init(const void* sendbuf, const int sendcounts[], const int sdispls[],
                                          MPI_Datatype sendtype, void* recvbuf, const int recvcounts[],
                                          const int rdispls[], MPI_Datatype recvtype, MPI_Comm comm,
                                          MPI_Info info, MPI_Request* request);
/** As MPI_Neighbor_alltoallv_init with MPI_Count counts and MPI_Aint displacements. */
TAPA_API int TAPA_Neighbor_alltoallv_init_c(const void* sendbuf, const MPI_Count sendcounts[],
                                            const MPI_Aint sdispls[], MPI_Datatype sendtype, void* recvbuf,
                                            const MPI_Count recvcounts[], const MPI_Aint rdispls[],
                                            MPI_Datatype recvtype, MPI_Comm comm, MPI_Info info,
                                            MPI_Request* request);
/** As MPI_Neighbor_alltoallw_init. */
TAPA_API int TAPA_Neighbor_alltoallw_init(const void* sendbuf, const int sendcounts[],
                                          const MPI_Aint sdispls[], const MPI_Datatype sendtypes[],
                                          void* recvbuf, const int recvcounts[], const MPI_Aint rdispls[],
                                          const MPI_Datatype recvtypes[], MPI_Comm comm, MPI_Info info,
                                          MPI_Request* request);
/** As MPI_Neighbor_alltoallw_init with MPI_Count counts and MPI_Aint displacements. */
TAPA_API int TAPA_Neighbor_alltoallw_init_c(const void* sendbuf, const MPI_Count sendcounts[],
                                            const MPI_Aint sdispls[], const MPI_Datatype sendtypes[],
                                            void* recvbuf, const MPI_Count recvcounts[],
                                            const MPI_Aint rdispls[], const MPI_Datatype recvtypes[],
                                            MPI_Comm comm, MPI_Info info, MPI_Request* request);
/** Starts a persistent request at once, without waiting for the next progress call to see MPI_Start. Also
 * requests that are MPI's own. MPI_ERR_REQUEST when it is active, or no persistent all-to-all's. */
TAPA_API int TAPA_Start(MPI_Request* request);
/** TAPA_Start for `count` requests. */
TAPA_API int TAPA_Startall(int count, MPI_Request requests[]);
/** Frees a persistent request that is not active and everything prepared for it; sets it to MPI_REQUEST_NULL.
 * MPI_ERR_REQUEST as of TAPA_Start. */
TAPA_API int TAPA_Request_free(MPI_Request* request);
/** @} */

/** @defgroup selective Selective all-to-all
 * Blocks are made of rows of `rowbytes` bytes. On levels at or above a boundary only the active rows of a
 * block travel; below it all rows do. The receiver scatters rows to their places; inactive rows of the
 * receive buffer keep what they hold.
 * @{ */

/** Which rows of which blocks are active, agreed between the ranks of one communicator. */
typedef struct TAPA_Selection_s* TAPA_Selection;
#define TAPA_SELECTION_NULL ((TAPA_Selection)0) /**< no selection */

/** Agrees on a selection. Collective, sets `comm` up: each rank passes the active rows of the blocks that it
 * sends, and learns those of the blocks that it receives. Wrong arguments of one rank, and ranks that
 * disagree about the rows of a block or about the boundary, are an error on all ranks that names the ranks
 * and both values.
 * @param sendrows   rows of the block for each rank, `size` entries, each >= 0
 * @param recvrows   rows of the block from each rank; must equal the sender's sendrows
 * @param nactive    active rows of each block, `size` entries; with `one_list`, one entry
 * @param active     row indices, ascending and distinct within a block, the blocks' lists one after the
 * other; with `one_list` one list that holds for all blocks (indices below every sendrows[i] that is not 0)
 * @param one_list   nonzero when `nactive` and `active` describe one list for all blocks
 * @param boundary   name of the level from which on only active rows travel ("node", "rack", ...: messages
 * that leave a group of that level), or NULL: the level that crosses NICs; "" means everywhere
 * @param selection  the result; free with TAPA_Selection_free
 * @param comm       intracommunicator */
TAPA_API int TAPA_Selection_create(const int sendrows[], const int recvrows[], const int nactive[],
                                   const int active[], int one_list, const char* boundary, MPI_Comm comm,
                                   TAPA_Selection* selection);
/** Frees a selection and sets it to TAPA_SELECTION_NULL. Operations that use it go on undisturbed. Local. */
TAPA_API int TAPA_Selection_free(TAPA_Selection* selection);
/** Bytes this rank would send and receive to and from other ranks with rows of `rowbytes`. Local; pointers
 * may be null. */
TAPA_API int TAPA_Selection_bytes(TAPA_Selection selection, size_t rowbytes, size_t* sent, size_t* received);

/** Exchanges rows as `selection` says. Row i of the block for rank d is at sendbuf + (sdispls[d] + i) *
 * rowbytes; rdispls likewise. sendbuf and recvbuf must not overlap. Collective over the selection's
 * communicator. */
TAPA_API int TAPA_Alltoallv_select(const void* sendbuf, const MPI_Aint sdispls[], void* recvbuf,
                                   const MPI_Aint rdispls[], size_t rowbytes, TAPA_Selection selection);
/** Nonblocking form, see the group of nonblocking calls. With MPICH below MPI_THREAD_MULTIPLE it advances
 * only inside MPI calls that wait for or test a request of such a form, and inside TAPA_ calls: a rank that
 * waits for something else first, as for a message that another rank sends after its wait, may wait for ever.
 * MPI_ERR_UNSUPPORTED_OPERATION where nothing makes it progress. */
TAPA_API int TAPA_Ialltoallv_select(const void* sendbuf, const MPI_Aint sdispls[], void* recvbuf,
                                    const MPI_Aint rdispls[], size_t rowbytes, TAPA_Selection selection,
                                    MPI_Request* request);
/** Persistent form, see the group of persistent calls. MPI_ERR_UNSUPPORTED_OPERATION where nothing but waits
 * would make it progress: with MPICH below MPI_THREAD_MULTIPLE. */
TAPA_API int TAPA_Alltoallv_select_init(const void* sendbuf, const MPI_Aint sdispls[], void* recvbuf,
                                        const MPI_Aint rdispls[], size_t rowbytes, TAPA_Selection selection,
                                        MPI_Info info, MPI_Request* request);
/** @} */

/** @defgroup sparse Sparse exchange
 * A rank knows to whom it sends, but not who sends to it, as when particles leave their ranks or a graph is
 * turned round. Instead of an all-to-all of counts and one of data it is one call, whose cost follows from
 * the messages that there are.
 * @{ */

/** What has come in one sparse exchange; the library's memory. */
typedef struct TAPA_Received_s* TAPA_Received;
#define TAPA_RECEIVED_NULL ((TAPA_Received)0) /**< nothing */

/** Sends a message to each of some ranks and receives all that were sent to this one. Collective, blocking,
 * sets `comm` up; may synchronise. Wrong arguments of one rank are an error there, MPI_ERR_OTHER on all
 * others, and nothing is received. A rank without memory for what comes returns MPI_ERR_NO_MEM; what others
 * sent each other, and what it has sent, is received. Buffers in GPU memory are refused.
 * @param sendbuf       the messages, one after the other in the order of `destinations`; read until the call
 * returns. May be null when all counts are 0
 * @param ndestinations number of ranks that this one sends to, 0 or more
 * @param destinations  these ranks of `comm`, in any order; each once at most, the own one too
 * @param sendcounts    elements of each message, `ndestinations` entries; a message of 0 elements is one, and
 * its receiver learns of it
 * @param datatype      of an element, without gaps: a named type, or one made of such by
 * MPI_Type_contiguous. Of as many bytes on all ranks: a message of other elements is cut into bytes, and
 * MPI_ERR_TRUNCATE on its receiver where these are no multiple of an element's
 * @param comm          intracommunicator
 * @param received      gets what has come; free it with TAPA_Received_free, in time or after `comm`. Nothing
 * is stored after an error */
TAPA_API int TAPA_Sparse_exchange(const void* sendbuf, int ndestinations, const int destinations[],
                                  const MPI_Count sendcounts[], MPI_Datatype datatype, MPI_Comm comm,
                                  TAPA_Received* received);
/** Reads what has come, in ascending order of the ranks that sent it. Local; pointers may be null. The arrays
 * are the library's, valid until TAPA_Received_free.
 * @param received  from TAPA_Sparse_exchange
 * @param nsources  number of messages
 * @param sources   who sent each, `nsources` entries
 * @param counts    elements of each, `nsources` entries
 * @param data      their elements, one message after the other without gaps, aligned as malloc() does */
TAPA_API int TAPA_Received_get(TAPA_Received received, int* nsources, const int** sources,
                               const MPI_Count** counts, const void** data);
/** Frees what has come and sets it to TAPA_RECEIVED_NULL. Local. */
TAPA_API int TAPA_Received_free(TAPA_Received* received);
/** @} */

/** @defgroup memory Memory for buffers
 * @{ */
/** Memory for send buffers, on a page of its own. Other ranks of the node can map it, so that an all-to-all
 * copies each block once, from there to where it is received, without a system call. Ordinary memory in all
 * other respects but fork(): it is not copied, parent and child share it. What a child writes there its
 * parent sees, and sends; when the parent frees it, it reads as zeros in the child. `*buffer` gets its
 * address, also for 0 bytes. Local. MPI_ERR_NO_MEM when there is no memory. */
TAPA_API int TAPA_Alloc(MPI_Aint size, void** buffer);
/** Frees what TAPA_Alloc gave; the memory goes back to the system at once. No all-to-all may be using it.
 * Anything else, also null, is MPI_ERR_ARG. Local. */
TAPA_API int TAPA_Free(void* buffer);
/** @} */

/** @defgroup state Communicator state, options, errors
 * @{ */
/** Sets `comm` up now instead of in the first call that may synchronise. Collective; a no-op afterwards. For
 * programs that make nonblocking calls only, and for those that time their first call. No MPI_Comm_idup
 * may be under way on any of its ranks, as in a first call that sets it up. `comm`: an intracommunicator. */
TAPA_API int TAPA_Comm_setup(MPI_Comm comm);
/** Sets an option for this communicator ("plan", "check", ...; see tapa-info --options). Collective: all
 * ranks must pass the same key and value. Sets `comm` up. Calls before it keep to the options that they
 * found; it waits until nonblocking ones among them have begun on all ranks. An unknown key or a wrong value
 * is MPI_ERR_ARG. */
TAPA_API int TAPA_Comm_set(MPI_Comm comm, const char* key, const char* value);
/** Reads an option into `value` (at most `size` bytes with the final zero); `length`, which may be null, gets
 * its full length. Sets `comm` up: collective on first use. */
TAPA_API int TAPA_Comm_get(MPI_Comm comm, const char* key, char* value, int size, int* length);
/** The plan that TAPA_Alltoall uses for blocks of `bytes`, as text for TAPA_PLAN; while candidates of that
 * size are probed, the one that the model finds best. `size` and `length` as of TAPA_Comm_get. Sets `comm`
 * up: collective on first use. */
TAPA_API int TAPA_Comm_plan(MPI_Comm comm, size_t bytes, char* plan, int size, int* length);
/** The level at which this rank reaches `peer`: its number, fast to slow from 0, and its name (at most `size`
 * bytes with the final zero). `level` and `name` may be null. Sets `comm` up: collective on first use. */
TAPA_API int TAPA_Comm_level(MPI_Comm comm, int peer, int* level, char* name, int size);
/** The topology of a communicator: number of levels, the first one whose messages cross NICs (`count` when
 * none does), and the levels' names from fast to slow, separated by commas (at most `size` bytes with the
 * final zero; `length` gets the full length). Any pointer may be null. Sets `comm` up: collective on first
 * use. */
TAPA_API int TAPA_Comm_levels(MPI_Comm comm, int* count, int* nic_level, char* names, int size, int* length);
/** What was wrong in this thread's last call, at most 2 KiB; "" when it succeeded. The text is the library's,
 * valid until the thread's next TAPA call, also while the process ends. Never null. */
TAPA_API const char* TAPA_Last_error(void);
/** For the drop-in alone, in MPI_Init: the program knows nothing of the library. What cannot be set up is
 * MPI's, and options that are wrong are warned about and do not end it. `version`: the drop-in's;
 * MPI_ERR_OTHER when it is not this library's. Collective over MPI_COMM_WORLD. */
TAPA_API int TAPA_Interpose_begin(const char* version);
/** For the drop-in alone: MPI_Finalize has begun, and nothing that the program hung on MPI_COMM_SELF is left.
 * Collective over MPI_COMM_WORLD where rank 0 of it has asked for a report. */
TAPA_API int TAPA_Interpose_end(void);
/** Version of the library that is running, which may differ from the header's. */
TAPA_API int TAPA_Get_version(int* major, int* minor, int* patch);
/** @} */

#ifdef __cplusplus
}
#endif

#endif /* TAPA_TAPA_H */
