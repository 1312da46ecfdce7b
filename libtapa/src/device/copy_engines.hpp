/// @file
/// Long messages between devices of one host that cannot reach each other, moved by copy engines: one of the
/// sender's copies a chunk into a slot in memory of the host, one of the receiver's copies it out, and stream
/// memory operations tell each other when. No multiprocessor is busy with it, so products that run meanwhile
/// lose nothing, and no call of the host has a part in it but to end it after a failure (engine_words.hpp).
#pragma once

#include <cuda.h>
#include <unistd.h>

#include <atomic>
#include <memory>
#include <mutex>
#include <span>
#include <thread>
#include <vector>

#include "device/cuda_objects.hpp"
#include "device/lane_kernels.hpp"
#include "device/wire.hpp"

namespace tapa::device {

/// The driver's stream memory operations, several of them in one: each costs the device microseconds.
class StreamWords {
 public:
  /// Whether this machine has them, also in recorded graphs. `word`: memory of the host that the current
  /// device uses.
  [[nodiscard]] static bool work_here(std::uint32_t* word);

  explicit StreamWords(cudaStream_t stream) : stream_(stream) {}
  [[nodiscard]] cudaStream_t stream() const { return stream_; }
  /// What comes next on the stream waits until one of the bits is set, or comes after the word is written:
  /// both begin with the next flush().
  StreamWords& await_bit(const std::uint32_t* word, std::uint32_t bits);
  StreamWords& write(std::uint32_t* word, std::uint32_t value);
  /// Throws DeviceError.
  void flush();

 private:
  cudaStream_t stream_;
  std::vector<CUstreamBatchMemOpParams> operations_;
};

class CopyEngines {
 public:
  /// An end of a direction to or from a rank.
  struct End {
    int peer;
    int distance;  ///< as EngineMessage's
    bool sends;
    EngineWords* words;
    std::byte* slots;
    Word* own_left;  ///< said by the hosts: their rank makes no more calls
    Word* other_left;
    Word* missing;  ///< see EngineEnd
  };
  /// On the current device. `state`, `timeout`: as PipeTable's. Throws DeviceError.
  CopyEngines(std::vector<End> ends, int ranks, const EngineShape& shape, LocalState* state, Word timeout);
  ~CopyEngines();
  CopyEngines(const CopyEngines&) = delete;
  CopyEngines& operator=(const CopyEngines&) = delete;

  /// As Wire::exchange(), but that the messages begin where `from` is, which goes on, and `into` finds them
  /// done. The same stream may be both.
  void exchange(std::span<const WireMessage> sends, std::span<const WireMessage> receives, cudaStream_t from,
                cudaStream_t into);
  /// This rank makes no more exchanges, and those under way end.
  void give_up();
  /// As Wire::settle() and Wire::restart().
  void settle();
  void restart();

 private:
  [[nodiscard]] EngineLaunch launch_of(std::span<const WireMessage> sends,
                                       std::span<const WireMessage> receives) const;
  void move(const EngineLaunch& launch);
  void move_chunk(const EngineLaunch::Job& job, Word step, StreamWords& words);
  void watch();
  void look(bool late);
  void free_slots() const;
  [[nodiscard]] EngineProgress progress_of(std::size_t end) const;
  [[nodiscard]] EngineCounts counted() const;
  [[nodiscard]] Word* word(std::size_t index) const { return static_cast<Word*>(words_.get()) + index; }

  std::vector<End> ends_;
  EngineShape shape_;
  Word timeout_;
  LastingMemory words_;  ///< counts, whether this rank gave up, and of each end whether its peer is lost
  DeviceMemory table_, counts_;
  EngineLaunch common_{};
  std::vector<unsigned long long> marked_in_;  ///< in which capture each mark of engine_order() was put last
  int done_;                                   ///< the mark behind all of them
  WireStream out_, in_;
  std::atomic<Word> longest_ = 0;  ///< bytes of an exchange
  std::atomic<bool> stop_ = false;
  std::mutex mutex_;  ///< held where flags are freed, or made anew
  int process_ = getpid();
  std::thread watchman_;
};

}  // namespace tapa::device
