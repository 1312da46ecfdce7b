/// @file
/// A handle of what the system knows by a number: files and sockets.
#pragma once

#include "files/descriptor.hpp"

namespace tapa::device {

using files::Descriptor;

}  // namespace tapa::device
