#include "device/copy_rows.hpp"
#include "device/cuda_launch.cuh"
#include "device/cuda_team.cuh"
#include "device/lane_kernels.hpp"

namespace tapa::device {

namespace {

constexpr int kLanes = 512;
constexpr int kTokenLanes = 64;
constexpr Word kPiece = 32 << 10;     ///< bytes of a row that a block copies at once
constexpr unsigned kCopyBlocks = 64;  ///< enough for the memory's bandwidth; others have multiprocessors left

__global__ void __launch_bounds__(kLanes, 1) copy_row_table(const __grid_constant__ RowsToCopy rows) {
  CudaTeam team;
  const Word pieces = divide_up(rows.bytes, kPiece);
  for (Word index = blockIdx.x; index < rows.rows * pieces; index += gridDim.x) {
    const Word row = index / pieces;
    const Word at = index % pieces * kPiece;
    const Word from = rows.from_rows == nullptr ? row : rows.from_rows[row];
    const Word to = rows.to_rows == nullptr ? row : rows.to_rows[row];
    copy_bytes(team, rows.to + to * rows.to_pitch + at, rows.from + from * rows.from_pitch + at,
               least(kPiece, rows.bytes - at));
  }
}

__global__ void __launch_bounds__(kLanes, 1) copy_pieces(const __grid_constant__ PiecesToCopy pieces) {
  CudaTeam team;
  const auto& piece = pieces.piece[blockIdx.x / pieces.shares];
  const Slice slice = slice_of(piece.bytes, static_cast<int>(blockIdx.x) % pieces.shares, pieces.shares);
  if (slice.bytes == 0) return;
  const Rows packed = together(piece.together);
  const auto at = static_cast<std::uint32_t>(slice.begin);
  if (pieces.gathers) {
    copy_rows(team, packed, at, piece.rows, piece.begin + at, slice.bytes);
  } else {
    copy_rows(team, piece.rows, piece.begin + at, packed, at, slice.bytes);
  }
}

__global__ void __launch_bounds__(kLanes, 1) move_pipes(const __grid_constant__ PipeLaunch launch) {
  CudaTeam team;
  const PipeLaunch::Job& job = launch.job[blockIdx.x];
  const PipeEntry entry = launch.table[job.entry];
  run_pipe(team, launch.turn, {entry.pipe, job.memory, job.bytes, entry.missing, entry.sends}, launch.jobs);
}

__global__ void __launch_bounds__(kTokenLanes) make_token(const __grid_constant__ Tokens tokens) {
  CudaTeam team;
  make_tokens(team, tokens);
}

__global__ void __launch_bounds__(kTokenLanes) check_token(const __grid_constant__ Tokens tokens) {
  CudaTeam team;
  check_tokens(team, tokens);
}

__global__ void __launch_bounds__(kTokenLanes, 1) begin_copies(const __grid_constant__ EngineLaunch launch) {
  CudaTeam team;
  begin_engines(team, launch);
}

__global__ void __launch_bounds__(kTokenLanes, 1) end_copies(const __grid_constant__ EngineLaunch launch) {
  CudaTeam team;
  end_engines(team, launch);
}

}  // namespace

cudaError_t load_lane_kernels() {
  cudaFuncAttributes attributes{};
  cudaError_t code = cudaFuncGetAttributes(&attributes, copy_row_table);
  if (code == cudaSuccess) code = cudaFuncGetAttributes(&attributes, copy_pieces);
  if (code == cudaSuccess) code = cudaFuncGetAttributes(&attributes, move_pipes);
  if (code == cudaSuccess) code = cudaFuncGetAttributes(&attributes, make_token);
  if (code == cudaSuccess) code = cudaFuncGetAttributes(&attributes, check_token);
  if (code == cudaSuccess) code = cudaFuncGetAttributes(&attributes, begin_copies);
  if (code == cudaSuccess) code = cudaFuncGetAttributes(&attributes, end_copies);
  return code;
}

cudaError_t launch_row_copy(const RowsToCopy& rows, cudaStream_t stream) {
  const Word pieces = rows.rows * divide_up(rows.bytes, kPiece);
  if (pieces == 0) return cudaSuccess;
  const auto blocks = pieces < kCopyBlocks ? static_cast<unsigned>(pieces) : kCopyBlocks;
  return launch_kernel(copy_row_table, blocks, kLanes, rows, stream);
}

cudaError_t launch_piece_copy(PiecesToCopy& pieces, cudaStream_t stream) {
  if (pieces.count == 0) return cudaSuccess;
  const int count = pieces.count;
  pieces.shares = static_cast<int>(most(1, kCopyBlocks / static_cast<Word>(count)));
  return launch_kernel(copy_pieces, static_cast<unsigned>(count * pieces.shares), kLanes, pieces, stream);
}

cudaError_t launch_pipes(const PipeLaunch& launch, cudaStream_t stream) {
  if (launch.jobs == 0) return cudaSuccess;
  return launch_kernel(move_pipes, static_cast<unsigned>(launch.jobs), kLanes, launch, stream);
}

cudaError_t launch_token_make(const Tokens& tokens, cudaStream_t stream) {
  return launch_kernel(make_token, 1, kTokenLanes, tokens, stream);
}
cudaError_t launch_token_check(const Tokens& tokens, cudaStream_t stream) {
  return launch_kernel(check_token, 1, kTokenLanes, tokens, stream);
}
cudaError_t launch_engines_begin(const EngineLaunch& launch, cudaStream_t stream) {
  return launch_kernel(begin_copies, 1, kTokenLanes, launch, stream);
}
cudaError_t launch_engines_end(const EngineLaunch& launch, cudaStream_t stream) {
  return launch_kernel(end_copies, 1, kTokenLanes, launch, stream);
}

}  // namespace tapa::device
