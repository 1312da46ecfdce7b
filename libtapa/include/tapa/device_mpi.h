/** @file
 * A device communicator (tapa/device.h) of the ranks of an MPI communicator.
 */
#ifndef TAPA_DEVICE_MPI_H
#define TAPA_DEVICE_MPI_H

#include <mpi.h>
#include <tapa/device.h>

#ifdef __cplusplus
extern "C" {
#endif

/** @addtogroup device
 * @{ */
/** TAPA_Device_comm_create for the ranks of an intracommunicator. Collective calls on the result are
 * collective calls on communicators of its own: `mpi_comm`, which it sets up (TAPA_Comm_setup), may be freed
 * before it, and its error handler is not called for them. Ranks of several nodes can be joined by MPI's
 * messages, where MPI was initialised with MPI_THREAD_MULTIPLE. */
TAPA_API int TAPA_Device_comm_create_mpi(MPI_Comm mpi_comm, const TAPA_Device_options* options,
                                         TAPA_Device_comm* comm);
/** @} */

#ifdef __cplusplus
}
#endif

#endif /* TAPA_DEVICE_MPI_H */
