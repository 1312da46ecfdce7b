#include "comm/learnt_disk.hpp"

#include <sys/resource.h>

#include "autotune/learnt.hpp"
#include "files/output_file.hpp"
#include "run/log.hpp"

namespace tapa {

namespace {

constexpr std::size_t kBeginning = 256;
constexpr mode_t kOwnersAlone = 0600;

/// A longer file than the process may write would end it by a signal.
bool may_write(std::size_t bytes) {
  rlimit limit{};
  return ::getrlimit(RLIMIT_FSIZE, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY || limit.rlim_cur >= bytes;
}

/// Whether the file that is there is empty or begins like one of these, damaged or not; written by a person's
/// tool perhaps. Else the user has named it by mistake.
bool may_be_ours(const files::OutputFile& place) {
  const std::string text = files::read_beginning(place.open_regular(), kBeginning);
  return text.empty() || text.find("\"tapa-learnt/") != std::string::npos;
}

}  // namespace

std::optional<std::string> text_of(const std::string& path) {
  try {
    return files::read_text(path, kMostLearntBytes);
  } catch (const files::FileError& error) {
    if (!error.is_missing()) log_info("cache " + path + ": " + error.what() + "; it is not used");
    return std::nullopt;
  }
}

std::string replace_file(const std::string& path, const std::string& text) {
  if (text.size() > kMostLearntBytes) return "would be too long";
  if (!may_write(text.size())) return "the process may write no such file";
  try {
    const files::OutputFile place(path);
    if (place.is_regular() && !may_be_ours(place)) return "is not one of libtapa's";
    place.replace([&](std::ostream& out) { out << text; }, kOwnersAlone);
  } catch (const files::FileError& error) {
    return error.what();
  }
  return {};
}

}  // namespace tapa
