/// What the library says besides errors: warnings, a line each.
#pragma once

#include <functional>
#include <string_view>

namespace dit {

/// Takes a line, without a newline. Called by any thread, and by several at once; what it throws is dropped.
using LogSink = std::function<void(std::string_view line)>;

/// Where warnings go from now on; an empty sink: to stderr, as "libdit: LINE", which is where they go at
/// first.
void set_log_sink(LogSink sink);

/// For the library's own use: both as one line.
void log_warning(std::string_view what, std::string_view why = {}) noexcept;

}  // namespace dit
