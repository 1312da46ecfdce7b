/// @file
/// Kernels of all-to-alls between nodes.
#pragma once

#include <cuda_runtime_api.h>

#include "device/engine_words.hpp"
#include "device/pipe.hpp"
#include "device/rows.hpp"
#include "device/tokens.hpp"

namespace tapa::device {

/// Rows to copy on the device.
struct RowsToCopy {
  const std::byte* from;
  std::byte* to;
  Word from_pitch, to_pitch;
  const std::uint32_t* from_rows;  ///< device memory: which row comes next; null: in order
  const std::uint32_t* to_rows;
  Word rows, bytes;
};

/// Pieces of strided blocks to copy to where they lie together, or from there.
inline constexpr int kMaxPieces = 60;
struct PiecesToCopy {
  bool gathers;  ///< out of the blocks
  int count;
  int shares;  ///< thread blocks for each piece; set by the launch
  struct Piece {
    Rows rows;
    std::byte* together;
    std::uint32_t begin;  ///< in the block
    std::uint32_t bytes;
  } piece[kMaxPieces];
};

/// A pipe in the table that kernels read.
struct PipeEntry {
  Pipe pipe;
  Word* missing;
  bool sends;
};
/// What one launch moves: an argument of fixed size, which a CUDA graph records.
inline constexpr int kMaxPipeJobs = 128;
struct PipeLaunch {
  PipeTurn turn;
  const PipeEntry* table;
  int jobs;
  struct Job {
    std::byte* memory;
    Word bytes;
    int entry;
  } job[kMaxPipeJobs];
};

/// Loads the kernels on the current device, see kernel.hpp.
[[nodiscard]] cudaError_t load_lane_kernels();
[[nodiscard]] cudaError_t launch_row_copy(const RowsToCopy& rows, cudaStream_t stream);
[[nodiscard]] cudaError_t launch_piece_copy(PiecesToCopy& pieces, cudaStream_t stream);
[[nodiscard]] cudaError_t launch_pipes(const PipeLaunch& launch, cudaStream_t stream);
/// Before and after messages: makes this rank's tokens, checks those of the others.
[[nodiscard]] cudaError_t launch_token_make(const Tokens& tokens, cudaStream_t stream);
[[nodiscard]] cudaError_t launch_token_check(const Tokens& tokens, cudaStream_t stream);
/// Before and behind the copies of engines.
[[nodiscard]] cudaError_t launch_engines_begin(const EngineLaunch& launch, cudaStream_t stream);
[[nodiscard]] cudaError_t launch_engines_end(const EngineLaunch& launch, cudaStream_t stream);

}  // namespace tapa::device
