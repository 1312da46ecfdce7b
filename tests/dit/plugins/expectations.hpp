/// What the programs that test exchanges over MPI share: expectations, and exchanges whose bytes are known.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "exchange/exchange.hpp"

inline int failures = 0;

inline void expect(bool right, const std::string& what) {
  if (right) return;
  std::fprintf(stderr, "failed: %s\n", what.c_str());
  ++failures;
}

/// `body` must throw this status, with words that hold all `parts`.
inline void refused(dit_status status, const std::vector<std::string>& parts,
                    const std::function<void()>& body) {
  try {
    body();
    expect(false, "an error with \"" + parts.front() + "\"");
  } catch (const dit::ExchangeError& e) {
    expect(e.status() == status, "status " + std::to_string(e.status()) + " of \"" + e.what() + "\"");
    for (const std::string& part : parts)
      expect(std::string(e.what()).find(part) != std::string::npos,
             "\"" + std::string(e.what()) + "\" holds \"" + part + "\"");
  }
}

/// What mpirun says to the process, also before a context is open.
inline int word_of_mpirun(const char* open_mpi, const char* pmi, int otherwise) {
  const char* text = std::getenv(open_mpi);
  if (text == nullptr) text = std::getenv(pmi);
  return text == nullptr ? otherwise : std::atoi(text);
}
inline int rank_of_job() {
  return word_of_mpirun("OMPI_COMM_WORLD_RANK", "PMI_RANK", 0);
}
inline int ranks_of_job() {
  return word_of_mpirun("OMPI_COMM_WORLD_SIZE", "PMI_SIZE", 1);
}

/// As many bytes from each rank to each; `seed` and the ranks tell them apart.
struct Exchange {
  std::vector<unsigned char> send, recv;
  std::vector<dit_block> blocks;
  dit_exchange_call call{};
  int rank, seed;
  std::size_t bytes;

  Exchange(const dit::ExchangeContext& context, std::size_t block_bytes, const char* label, int number = 1)
      : send(static_cast<std::size_t>(context.size()) * block_bytes),
        recv(send.size()),
        rank(context.rank()),
        seed(number),
        bytes(block_bytes) {
    for (int peer = 0; peer < context.size(); ++peer) {
      blocks.push_back({static_cast<std::size_t>(peer) * bytes, bytes});
      std::fill_n(send.begin() + static_cast<std::ptrdiff_t>(blocks.back().offset), bytes, value(rank, peer));
    }
    call.send = send.data();
    call.recv = recv.data();
    call.send_blocks = call.recv_blocks = blocks.data();
    call.label = label;
  }
  Exchange(const Exchange&) = delete;
  Exchange& operator=(const Exchange&) = delete;

  [[nodiscard]] unsigned char value(int from, int to) const {
    return static_cast<unsigned char>(1 + from * 31 + to * 7 + seed * 3);
  }
  [[nodiscard]] bool arrived() const {
    for (std::size_t peer = 0; peer < blocks.size(); ++peer)
      for (std::size_t i = 0; i < bytes; ++i)
        if (recv[peer * bytes + i] != value(static_cast<int>(peer), rank)) return false;
    return true;
  }
};

using Case = void (*)(const dit::ExchangePlugin&, const std::string& config);

/// A file of the rank's own in `folder`; then waits until every rank of the job has one. mpirun ends all
/// ranks when the first one leaves MPI unfinished, and loses what they have printed: with files each has
/// spoken before any leaves.
inline void speak_before_any_leaves(const std::filesystem::path& folder, const std::string& words) {
  const auto file_of = [&](int rank) { return folder / ("rank" + std::to_string(rank)); };
  std::ofstream(file_of(rank_of_job()).string() + "~") << words;
  std::filesystem::rename(file_of(rank_of_job()).string() + "~", file_of(rank_of_job()));
  const auto limit = std::chrono::steady_clock::now() + std::chrono::seconds(20);
  for (int rank = 0; rank < ranks_of_job(); ++rank)
    while (!std::filesystem::exists(file_of(rank)) && std::chrono::steady_clock::now() < limit)
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
}

/// `PROGRAM PLUGIN CASE [CONFIG]`. Ranks that never come leave MPI unfinished, which mpirun takes for a
/// failure: the words are the result, in the folder that `ranks_agree` names.
inline int run_case(int argc, char** argv, const std::function<Case(const std::string&)>& find) {
  const Case body = argc < 3 ? nullptr : find(argv[2]);
  if (body == nullptr) {
    std::fprintf(stderr, "usage: %s PLUGIN CASE [CONFIG]\n", argv[0]);
    return 2;
  }
  try {
    body(dit::ExchangePlugin::load(argv[1]), argc > 3 ? argv[3] : "");
  } catch (const std::exception& e) {
    expect(false, e.what());
  }
  const std::string words = failures == 0 ? "all as expected" : std::to_string(failures) + " failures";
  std::printf("%s\n", words.c_str());
  if (const char* folder = std::getenv("RANKS_AGREE_FOLDER")) speak_before_any_leaves(folder, words);
  return failures == 0 ? 0 : 1;
}
