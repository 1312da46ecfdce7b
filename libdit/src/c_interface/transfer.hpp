/// One tensor's way, as the C interface has it: started, tested, waited for, given up.
#pragma once

#include <memory>
#include <span>
#include <string>

#include "c_interface/handles.hpp"
#include "c_interface/wire.hpp"
#include "transfer/tensor_transfer.hpp"

struct dit_transfer {
  /// Collective, of what all ranks said alike.
  dit_transfer(dit_session& session, const dit::UlyssesLayout& layout, const dit_transfer_options& options);
  /// Throws std::invalid_argument for what is wrong on this rank.
  static void check(const dit_session& session, const dit::UlyssesLayout& layout,
                    const dit_transfer_options& options);
  ~dit_transfer();  ///< what is under way is given up
  dit_transfer(const dit_transfer&) = delete;
  dit_transfer& operator=(const dit_transfer&) = delete;

  [[nodiscard]] const dit::TensorTransfer& way() const { return *way_; }
  [[nodiscard]] std::size_t element_bytes() const { return element_bytes_; }
  void use_workspace(std::span<std::byte> workspace);
  void start(const dit_transfer_call& call);
  [[nodiscard]] bool test();
  void wait();
  void wait_stream(void* stream);
  void wait_for_all();  ///< also for what travels for later steps
  void cancel(std::shared_ptr<void> of_caller);

 private:
  void require_idle() const;
  void require_sound() const;
  void finish();
  void lost_unless_active();
  [[nodiscard]] dit::ExchangeRequest send(const dit_transfer_call& call);

  dit_session& session_;
  dit_wire* wire_;  // null: the tensor travels as it is
  dit::AttentionTensor tensor_;
  int group_;
  std::size_t element_bytes_;
  int memory_kind_;
  std::string label_;
  std::unique_ptr<dit::TensorTransfer> way_;
  bool under_way_ = false;
  bool remembers_ = false;  // its wire, what was sent
  bool broken_ = false;     // an exchange was lost: what the ends remember may differ now
  dit::ExchangeRequest request_;
};
