// What the verbs of a program's lines do.
#pragma once

#include "job.hpp"

namespace random_program {

// Communicators.
/// Takes a new one into the list; its name comes from its ranks, so that pieces of one split have different
/// ones.
void keep_comm(const Line& line, MPI_Comm made, bool second = false, MPI_Comm whole = MPI_COMM_NULL);
/// False when the verb is none of them.
bool step_communicators(const Line& line);

// All-to-alls.
void alltoall(const Line& line);
/// Calls that MPI refuses before it talks to anybody; what it says becomes part of the checksum.
void bad(const Line& line);
/// Short-lived communicators, whose handles come again.
void churn(const Line& line);

// Other collectives.
void collective(const Line& line);
void begin_collective(const Line& line);

// Messages.
/// Each rank sends some messages to others, and takes as many from anybody, with any tag: perhaps those of a
/// later line.
void messages(const Line& line);
/// Around a ring, received by what a probe has found.
void ring_of_messages(const Line& line);
void look_for_messages(const Line& line);

// One-sided.
void make_window(const Line& line);
/// Each rank puts a word into its place at every other rank, and adds one to the last place.
void epoch(const Line& line);
void free_window(const Line& line);

// Requests.
/// Completes requests, by one of MPI's ways: each rank by its own.
void wait_for(const Line& line);
/// Persistent requests, each rank in an order of its own.
void start(const Line& line);
void free_request(const Line& line);
/// Memory of requests that the program leaves behind, which it may. Before MPI_Finalize.
void forget_requests();

}  // namespace random_program
