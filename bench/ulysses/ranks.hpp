/// @file
/// What the programs of libdit's transfers on GPUs share: checked calls, owners of dit.h's handles.
#pragma once

#include <cstdint>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "dit/dit.h"
#include "job.hpp"

namespace tapa::bench {

inline void dit_call(dit_status status) {
  if (status != DIT_OK) throw std::runtime_error(dit_last_error());
}

/// A handle of dit.h with the function that frees it.
template <class Handle, dit_status (*release)(Handle**)>
class Owner {
 public:
  Owner() = default;
  ~Owner() {
    if (handle_ != nullptr) (void)release(&handle_);
  }
  Owner(Owner&& other) noexcept : handle_(std::exchange(other.handle_, nullptr)) {}
  Owner& operator=(Owner&&) = delete;
  [[nodiscard]] Handle* get() const { return handle_; }
  [[nodiscard]] Handle** place() { return &handle_; }

 private:
  Handle* handle_ = nullptr;
};
using Layout = Owner<dit_layout, dit_layout_free>;
using Registration = Owner<dit_registration, dit_registration_free>;

class Session : public Owner<dit_session, dit_session_close> {
 public:
  explicit Session(const std::string& plugin, const std::string& config = "", double timeout = 0) {
    dit_open_options options{};
    options.struct_size = sizeof(options);
    options.config = config.c_str();
    options.timeout_seconds = timeout;
    options.communicator = Job::communicator();
    dit_call(dit_session_open(plugin.c_str(), &options, place()));
  }
  [[nodiscard]] Registration enlist(void* memory, std::size_t bytes, int device) const {
    Registration made;
    dit_call(dit_session_register(get(), memory, bytes, DIT_MEMORY_CUDA, device, made.place()));
    return made;
  }
};

/// Of a check's case, which has these and more.
template <class Case>
dit_attention_shape shape_of(const Case& of) {
  dit_attention_shape shape{};
  shape.struct_size = sizeof(shape);
  shape.batch = of.batch;
  shape.text_tokens = of.text;
  shape.image_tokens = of.image;
  shape.heads = of.heads;
  shape.kv_heads = of.kv_heads;
  shape.head_dim = of.dim;
  shape.flags = of.flags;
  return shape;
}

inline Layout make_layout(const dit_attention_shape& shape, int ranks) {
  Layout made;
  dit_call(dit_layout_create(&shape, ranks, made.place()));
  return made;
}

inline dit_rank_part part_of(const Layout& layout, int rank, int group = 0, int groups = 1) {
  dit_rank_part part{};
  part.struct_size = sizeof(part);
  dit_call(dit_layout_part(layout.get(), rank, group, groups, &part));
  return part;
}

/// A transfer, and how many bytes its dense tensors have.
class Transfer : public Owner<dit_transfer, dit_transfer_free> {
 public:
  Transfer(const Session& session, const Layout& layout, int kind, std::size_t element_bytes, int memory_kind,
           int group = 0, int groups = 1, dit_wire* wire = nullptr) {
    dit_transfer_options options{};
    options.struct_size = sizeof(options);
    options.kind = kind;
    options.group = group;
    options.groups = groups;
    options.element_bytes = element_bytes;
    options.memory_kind = memory_kind;
    options.wire = wire;
    dit_call(dit_transfer_create(session.get(), layout.get(), &options, place()));
    dit_call(dit_transfer_bytes(get(), &source_bytes_, &target_bytes_));
    dit_call(dit_transfer_shapes(get(), source_shape_, target_shape_));
  }
  [[nodiscard]] std::size_t source_bytes() const { return source_bytes_; }
  [[nodiscard]] std::size_t target_bytes() const { return target_bytes_; }
  [[nodiscard]] const std::int64_t* source_shape() const { return source_shape_; }
  [[nodiscard]] const std::int64_t* target_shape() const { return target_shape_; }

  static dit_transfer_call call_of(const dit_tensor& source, const dit_tensor& target, int device,
                                   void* stream, const dit_prepare* prepare = nullptr) {
    dit_transfer_call call{};
    call.struct_size = sizeof(call);
    call.source = source;
    call.target = target;
    call.device = device;
    call.stream = stream;
    call.prepare = prepare;
    return call;
  }
  void start(const dit_tensor& source, const dit_tensor& target, int device, void* stream,
             const dit_prepare* prepare = nullptr) const {
    const dit_transfer_call call = call_of(source, target, device, stream, prepare);
    dit_call(dit_transfer_start(get(), &call));
  }
  /// Puts it on a stream, to its end.
  void put(const dit_tensor& source, const dit_tensor& target, int device, void* stream,
           const dit_prepare* prepare = nullptr) const {
    start(source, target, device, stream, prepare);
    dit_call(dit_transfer_wait_stream(get(), stream));
  }
  void run(const dit_tensor& source, const dit_tensor& target, int device = 0, void* stream = nullptr,
           const dit_prepare* prepare = nullptr) const {
    start(source, target, device, stream, prepare);
    dit_call(dit_transfer_wait(get()));
  }

 private:
  std::size_t source_bytes_ = 0, target_bytes_ = 0;
  std::int64_t source_shape_[4] = {}, target_shape_[4] = {};
};

inline dit_tensor dense(void* data, std::size_t bytes) {
  return {data, bytes, 0, 0, 0};
}

/// Random bytes that differ from rank to rank.
inline void randomise(std::vector<std::uint8_t>& bytes, std::uint64_t seed) {
  std::uint64_t state = seed * 0x9e3779b97f4a7c15ULL + 1;
  for (std::uint8_t& byte : bytes) {
    state = state * 6364136223846793005ULL + 1442695040888963407ULL;
    byte = static_cast<std::uint8_t>(state >> 56);
  }
}

}  // namespace tapa::bench
