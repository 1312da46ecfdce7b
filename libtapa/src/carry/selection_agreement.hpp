/// @file
/// How the ranks of a communicator agree on a selection.
#pragma once

#include <memory>

#include "comm/comm_state.hpp"
#include "run/selection.hpp"

namespace tapa {

/// Arguments of TAPA_Selection_create.
struct SelectionArguments {
  const int* sendrows;
  const int* recvrows;
  const int* nactive;
  const int* active;
  bool one_list;
  const char* boundary;
  bool has_result;  ///< whether the caller gave a place for the result
};

/// Collective over the state's communicator. Throws CallError on all ranks when an argument of one is
/// wrong, or two disagree about a block's rows or the boundary; the message names ranks and values.
[[nodiscard]] std::shared_ptr<const RowSelection> agree_on_selection(CommState& state,
                                                                     const SelectionArguments& arguments);

}  // namespace tapa
