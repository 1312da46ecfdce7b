/// MPI as this process has it: initialised by the program, or by the plugin for programs that know no MPI.
#pragma once

#include <mutex>
#include <string>
#include <vector>

namespace dit {

/// Something that must not touch MPI after the program's end.
class SessionMember {
 public:
  virtual ~SessionMember() = default;
  virtual void stop() noexcept = 0;
};

/// One in each process and plugin.
class MpiSession {
 public:
  /// Makes sure that MPI runs and is the one that the plugin was built with. Throws PluginFailure. Asks for
  /// no memory, as ranks wait for each other in MPI_Init.
  static MpiSession& require();

  /// Whether threads may call MPI as they like (MPI_THREAD_MULTIPLE). Less is not enough for a thread of
  /// ours: a program with MPI_THREAD_SERIALIZED does not know when ours calls.
  [[nodiscard]] bool threads() const { return threads_; }
  /// "Open MPI v4.1.4, MPI_THREAD_MULTIPLE", for describe.
  [[nodiscard]] std::string text() const;

  void enter(SessionMember& member);
  /// `clean`: closed by all ranks and without an error. After anything else MPI is not finalised at the end,
  /// as that would wait for ranks that may have failed; mpirun then ends the job.
  void leave(SessionMember& member, bool clean);

 private:
  MpiSession();
  void start_mpi();
  void end(int exit_code) noexcept;

  std::mutex mutex_;
  std::vector<SessionMember*> members_;
  bool ours_ = false;  ///< initialised here, so finalised here
  bool clean_ = true;
  bool threads_ = false;
};

}  // namespace dit
