#include "common/mpi_session.hpp"

#include <dlfcn.h>
#include <link.h>
#include <mpi.h>

#include <array>
#include <cstddef>
#include <cstdlib>
#include <new>
#include <string_view>

#include "common/mpi_error.hpp"
#include "tapa/errors_return.hpp"

namespace dit {
namespace {

#if MPI_ABI_VERSION > 0
constexpr std::string_view kBuiltFor = "";  // the standard's interface, which any MPI may have
#elif defined(OPEN_MPI)
constexpr std::string_view kBuiltFor = "Open MPI";
#else
constexpr std::string_view kBuiltFor = "MPICH";
#endif

class Version {
 public:
  Version() {
    int length = 0;
    check_mpi(MPI_Get_library_version(text_.data(), &length), "MPI_Get_library_version");
  }
  /// Its first line.
  [[nodiscard]] std::string_view text() const {
    const std::string_view whole(text_.data());
    return whole.substr(0, whole.find_first_of("\n,"));
  }

 private:
  std::array<char, MPI_MAX_LIBRARY_VERSION_STRING> text_{};
};

/// The file whose MPI_Init_thread this plugin calls; "" for a program that has MPI linked in.
const char* used_library() {
  Dl_info info{};
  if (dladdr(reinterpret_cast<void*>(&MPI_Init_thread), &info) == 0 || info.dli_fname == nullptr) return "";
  return info.dli_fname;
}

bool is_mpi_library(std::string_view path) {
  const std::string_view name = path.substr(path.rfind('/') + 1);
  return name.starts_with("libmpi.so") || name.starts_with("libmpich.so") ||
         name.starts_with("libmpi_abi.so");
}

/// Another MPI library that is loaded, or null.
const char* other_library(std::string_view used) {
  struct Search {
    std::string_view used;
    const char* found;
  } search{used, nullptr};
  dl_iterate_phdr(
      [](dl_phdr_info* object, std::size_t, void* data) {
        auto& s = *static_cast<Search*>(data);
        if (is_mpi_library(object->dlpi_name) && object->dlpi_name != s.used) s.found = object->dlpi_name;
        return 0;
      },
      &search);
  return search.found;
}

void require_same_mpi() {
  const char* const used = used_library();
  const bool open_mpi = Version().text().starts_with("Open MPI");
  if (!kBuiltFor.empty() && open_mpi != (kBuiltFor == "Open MPI"))
    throw PluginFailure(DIT_ERROR_UNSUPPORTED,
                        "the plugin was built for " + std::string(kBuiltFor) + ", but this program runs " +
                            std::string(Version().text()) + " (" + used +
                            "), expected the plugin that was built for the program's MPI");
  if (const char* const other = other_library(used); other != nullptr)
    throw PluginFailure(DIT_ERROR_UNSUPPORTED, std::string("the plugin uses ") + used +
                                                   ", but this program has also loaded " + other +
                                                   ", expected one MPI library in a program");
  // Open MPI's components look for its symbols among the global ones; a plugin's libraries are loaded local.
  if (*used != '\0') dlopen(used, RTLD_NOW | RTLD_GLOBAL | RTLD_NOLOAD);
}

const char* level_name(int level) {
  switch (level) {
    case MPI_THREAD_SINGLE:
      return "MPI_THREAD_SINGLE";
    case MPI_THREAD_FUNNELED:
      return "MPI_THREAD_FUNNELED";
    case MPI_THREAD_SERIALIZED:
      return "MPI_THREAD_SERIALIZED";
    default:
      return "MPI_THREAD_MULTIPLE";
  }
}

}  // namespace

MpiSession& MpiSession::require() {
  alignas(MpiSession) static std::array<std::byte, sizeof(MpiSession)> room;
  static auto* const session = new (room.data()) MpiSession;  // never destroyed: used until the very end
  return *session;
}

std::string MpiSession::text() const {
  int level = MPI_THREAD_SINGLE;
  check_mpi(MPI_Query_thread(&level), "MPI_Query_thread");
  return std::string(Version().text()) + ", " + level_name(level);
}

MpiSession::MpiSession() {
  require_same_mpi();
  int initialised = 0;
  int finalised = 0;
  check_mpi(MPI_Finalized(&finalised), "MPI_Finalized");
  if (finalised != 0)
    throw PluginFailure(DIT_ERROR_UNSUPPORTED,
                        "MPI is finalised already, expected a program that still runs it");
  check_mpi(MPI_Initialized(&initialised), "MPI_Initialized");
  if (initialised == 0) start_mpi();
  int level = MPI_THREAD_SINGLE;
  check_mpi(MPI_Query_thread(&level), "MPI_Query_thread");
  threads_ = level == MPI_THREAD_MULTIPLE;
  on_exit([](int exit_code, void* session) { static_cast<MpiSession*>(session)->end(exit_code); }, this);
}

void MpiSession::start_mpi() {
  int level = MPI_THREAD_SINGLE;
  const int code = MPI_Init_thread(nullptr, nullptr, MPI_THREAD_MULTIPLE, &level);
  if (code != MPI_SUCCESS)
    throw PluginFailure(DIT_ERROR_COMMUNICATION, "MPI_Init_thread failed with code " + std::to_string(code));
  ours_ = true;
  // Errors of requests that belong to no communicator are raised there.
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, tapa::errors_return());
}

void MpiSession::enter(SessionMember& member) {
  const std::lock_guard lock(mutex_);
  members_.push_back(&member);
}

void MpiSession::leave(SessionMember& member, bool clean) {
  const std::lock_guard lock(mutex_);
  std::erase(members_, &member);
  clean_ = clean_ && clean;
}

void MpiSession::end(int exit_code) noexcept {
  const std::lock_guard lock(mutex_);
  for (SessionMember* member : members_) member->stop();
  int finalised = 0;
  if (ours_ && clean_ && exit_code == 0 && members_.empty() && MPI_Finalized(&finalised) == MPI_SUCCESS &&
      finalised == 0)
    MPI_Finalize();
}

}  // namespace dit
