#include "device/mpi_messenger.hpp"

#include <chrono>
#include <new>
#include <utility>

#include "device/device_error.hpp"
#include "run/error.hpp"
#include "run/on_all_ranks.hpp"
#include "run/own_mpi.hpp"
#include "run/private_comm.hpp"

namespace tapa::device {

namespace {

/// How long sends may take to end when all ranks are done with them.
constexpr auto kTimeout = std::chrono::seconds(2);

int call_stop(MPI_Comm, int, void* stop, void*) {
  const auto& function = *static_cast<std::function<void()>*>(stop);
  if (function) function();
  return MPI_SUCCESS;
}

}  // namespace

std::string why_no_messages() {
  int level = MPI_THREAD_SINGLE;
  PMPI_Query_thread(&level);
  if (level == MPI_THREAD_MULTIPLE) return "";
  const char* const name = level == MPI_THREAD_SINGLE     ? "MPI_THREAD_SINGLE"
                           : level == MPI_THREAD_FUNNELED ? "MPI_THREAD_FUNNELED"
                                                          : "MPI_THREAD_SERIALIZED";
  return std::string("MPI was initialised with ") + name +
         ", expected MPI_THREAD_MULTIPLE (MPI_Init_thread), as a thread of the library sends messages";
}

std::unique_ptr<MpiMessenger> MpiMessenger::of(MPI_Comm comm) {
  std::unique_ptr<MpiMessenger> made;
  if (!on_all_ranks(comm, [&] { made = std::make_unique<MpiMessenger>(); })) throw std::bad_alloc();
  made->check(make_private_comm(comm, &made->comm_), "MPI_Comm_create", -1);
  return made;
}

MpiMessenger::~MpiMessenger() {
  if (keyval_ != MPI_KEYVAL_INVALID) {
    stop_ = nullptr;
    PMPI_Comm_delete_attr(MPI_COMM_SELF, keyval_);
    PMPI_Comm_free_keyval(&keyval_);
  }
  // Freeing is collective: not where a rank may be gone.
  if (clean_ && comm_ != MPI_COMM_NULL) PMPI_Comm_free(&comm_);
}

std::string MpiMessenger::describe() const {
  char text[MPI_MAX_LIBRARY_VERSION_STRING] = {};
  int length = 0;
  PMPI_Get_library_version(text, &length);
  const std::string whole(text, static_cast<std::size_t>(length));
  return whole.substr(0, whole.find_first_of(",\n"));
}

bool MpiMessenger::takes_device_memory() const {
  // Open MPI's extension; other libraries do not say.
  const auto query = reinterpret_cast<int (*)()>(find_in_mpi("MPIX_Query_cuda_support"));
  return query != nullptr && query() == 1;
}

void MpiMessenger::at_end(std::function<void()> begin, std::function<void()> end) {
  stop_ = nullptr;
  if (!begin) return;
  stop_ = [begin = std::move(begin), end = std::move(end)] {
    begin();
    end();
  };
  check(PMPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, call_stop, &keyval_, nullptr),
        "MPI_Comm_create_keyval", -1);
  check(PMPI_Comm_set_attr(MPI_COMM_SELF, keyval_, &stop_), "MPI_Comm_set_attr", -1);
}

void MpiMessenger::provide(std::size_t requests) {
  requests_.assign(requests, MPI_REQUEST_NULL);
  receives_.assign(requests, false);
  finished_.assign(requests, 0);
}

void MpiMessenger::check(int code, const char* call, int peer) const {
  if (code == MPI_SUCCESS) return;
  throw DeviceError(TAPA_DEVICE_ERR_ARG, std::string(call) +
                                             (peer < 0 ? "" : " with rank " + std::to_string(peer)) + ": " +
                                             mpi_error_text(code));
}

void MpiMessenger::send(std::size_t request, Address address, const void* memory, std::size_t bytes) {
  receives_[request] = false;
  check(PMPI_Isend(memory, static_cast<int>(bytes), MPI_BYTE, address.peer, address.channel, comm_,
                   &requests_[request]),
        "MPI_Isend", address.peer);
}

void MpiMessenger::receive(std::size_t request, Address address, void* memory, std::size_t bytes) {
  receives_[request] = true;
  check(PMPI_Irecv(memory, static_cast<int>(bytes), MPI_BYTE, address.peer, address.channel, comm_,
                   &requests_[request]),
        "MPI_Irecv", address.peer);
}

void MpiMessenger::progress() {
  int count = 0;
  check(PMPI_Testsome(static_cast<int>(requests_.size()), requests_.data(), &count, finished_.data(),
                      MPI_STATUSES_IGNORE),
        "MPI_Testsome", -1);
}

void MpiMessenger::abandon() {
  cancel_receives();
  finish_sends();
}

void MpiMessenger::cancel_receives() {
  for (std::size_t request = 0; request < requests_.size(); ++request) {
    if (!receives_[request] || requests_[request] == MPI_REQUEST_NULL) continue;
    PMPI_Cancel(&requests_[request]);
    PMPI_Wait(&requests_[request], MPI_STATUS_IGNORE);
  }
}

void MpiMessenger::finish_sends() {
  const auto began = std::chrono::steady_clock::now();
  for (MPI_Request& request : requests_) {
    while (request != MPI_REQUEST_NULL) {
      int done = 0;
      check(PMPI_Test(&request, &done, MPI_STATUS_IGNORE), "MPI_Test", -1);
      if (done != 0 || std::chrono::steady_clock::now() - began < kTimeout) continue;
      clean_ = false;
      return;
    }
  }
}

}  // namespace tapa::device
