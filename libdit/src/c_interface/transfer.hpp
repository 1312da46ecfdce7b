/// One tensor's way, as the C interface has it: started, tested, waited for, given up.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>

#include "c_interface/handles.hpp"
#include "c_interface/joint_exchange.hpp"
#include "c_interface/push.hpp"
#include "c_interface/shared_request.hpp"
#include "c_interface/wire.hpp"
#include "transfer/tensor_transfer.hpp"
#include "transfer/transfer_memory.hpp"

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
  [[nodiscard]] std::uint64_t guarded() const { return guarded_; }
  [[nodiscard]] std::size_t workspace_bytes() const;
  void use_workspace(std::span<std::byte> workspace);
  void start(const dit_transfer_call& call);
  /// Collective.
  /// A null on one rank is an error of all.
  void bind(dit_registration* registration, const dit_tensor* target);
  static void start_together(std::span<dit_transfer* const> transfers,
                             std::span<const dit_transfer_call> calls);
  [[nodiscard]] bool test();
  void wait();
  void wait_stream(void* stream);
  void wait_for_all();  ///< also for what travels for later steps
  void cancel(std::shared_ptr<void> of_caller);
  void require_forgettable() const;  ///< nothing is under way, and nothing was lost
  void forget(void* stream);
  void have_travelled(int branch) { way_->have_travelled(branch); }

 private:
  void require_idle() const;
  void require_sound() const;
  void finish();
  /// Throws for an exchange that was lost: asked for again, its target is no more complete than before.
  void require_not_lost() const;
  /// Asks the request, and notes where it is lost.
  template <typename Ask>
  void ask(const Ask& ask);
  [[nodiscard]] dit::ExchangeRequest send(const dit_transfer_call& call);
  [[nodiscard]] dit::PrepareJob job_for(const dit_transfer_call& call, const dit::SourceTensor& source) const;
  /// `has_own`: set where this rank's own block went into the target.
  [[nodiscard]] dit::SourceTensor prepared(const dit_transfer_call& call, const dit::SourceTensor& source,
                                           const dit::TargetTensor& target, bool& has_own);
  /// What leaves the source for which rank.
  [[nodiscard]] const std::vector<dit::PushPart>& push_map();
  [[nodiscard]] const dit::c_interface::BoundTarget& bound_to(const dit_tensor& target) const;
  static void require_alike(std::span<dit_transfer* const> transfers,
                            std::span<const dit_transfer_call> calls);
  [[nodiscard]] static int common_type(std::span<dit_transfer* const> transfers,
                                       std::span<const dit_transfer_call> calls);
  static void push_together(std::span<dit_transfer* const> transfers,
                            std::span<const dit_transfer_call> calls);
  /// Whether they may go in one exchange, which all ranks see alike; and whether their calls let them.
  [[nodiscard]] static bool may_join(std::span<const dit_transfer* const> transfers);
  /// Whether it goes by such an exchange of its own, and that one's plan.
  [[nodiscard]] bool joins_alone() const;
  [[nodiscard]] dit::JointPlan plan_alone() const;
  [[nodiscard]] static bool can_join(std::span<dit_transfer* const> transfers,
                                     std::span<const dit_transfer_call> calls);
  static void join(std::span<dit_transfer* const> transfers, std::span<const dit_transfer_call> calls);
  [[nodiscard]] std::shared_ptr<dit::c_interface::JointExchange> joint_with(
      std::span<dit_transfer* const> transfers);
  [[nodiscard]] dit::PrepareJob joint_job(const dit_transfer_call& call,
                                          const dit::c_interface::JointExchange& joint, std::size_t at);
  void begin(std::shared_ptr<dit::c_interface::SharedRequest> request, const dit_transfer_call& call);
  void finish_joint(void* stream);
  void drop_request(dit::c_interface::LeftBuffers buffers);
  [[nodiscard]] dit::c_interface::LeftBuffers release_buffers();
  /// While the result lives, where memory is a device's.
  [[nodiscard]] std::shared_ptr<void> make_current(int device) const;

  dit_session& session_;
  dit_wire* wire_;  // null: the tensor travels as it is
  dit::AttentionTensor tensor_;
  int group_, groups_;
  std::size_t element_bytes_;
  std::string label_;
  std::unique_ptr<dit::TensorTransfer> way_;
  bool under_way_ = false;
  std::uint64_t guarded_ = 0;  // exchanges that the policy's guard sent in bf16
  bool remembers_ = false;     // its wire, what was sent
  bool broken_ = false;        // an exchange was lost: what the ends remember may differ now
  std::string lost_;           // what the last exchange was lost by
  bool pushed_ = false;        // what is under way was stored right into the targets
  dit::UlyssesLayout layout_;
  int memory_kind_;
  int made_on_ = 0;               // with a wire: the device that was current
  int device_ = 0;                // of what is under way
  void* stream_ = nullptr;        // likewise
  dit::TransferBuffer prepared_;  // a dense copy of the source, with norm and RoPE
  std::vector<dit::c_interface::BoundTarget> bound_;
  std::optional<std::vector<dit::PushPart>> push_map_;                    // of push_map()
  std::shared_ptr<dit::c_interface::SharedRequest> request_;              // of all that were started together
  std::uint64_t serial_;                                                  // of the session's transfers
  std::vector<std::shared_ptr<dit::c_interface::JointExchange>> joints_;  // that this is the first of
  std::shared_ptr<dit::c_interface::JointExchange> arriving_;             // that is under way
  dit::TransferBuffers lent_;                                             // for its joint exchange, alone
  std::vector<dit::RowCopy> arriving_rows_;                               // from its buffer into target_
  dit::TargetTensor target_;
};
