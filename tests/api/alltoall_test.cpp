// Every form of the blocking all-to-all, with every plan that the topology allows, against data that names
// its place.
#include <mpi.h>

#include <functional>

#include "checks.hpp"
#include "tapa/errors_return.hpp"
#include "tapa/tapa.h"

using namespace checks;

namespace {

/// How a block's elements lie in memory.
struct Layout {
  const char* name;
  int (*at)(int i);        // index of element i of a block, counted from the block's start
  MPI_Datatype (*make)();  // type of one unit of `unit` elements
  int unit;                // ints in one element of the type
  int extent;              // ints from one element of the type to the next
};

MPI_Datatype committed(MPI_Datatype type) {
  MPI_Type_commit(&type);
  return type;
}

MPI_Datatype make_int() {
  MPI_Datatype type = MPI_DATATYPE_NULL;
  MPI_Type_dup(MPI_INT, &type);
  return type;
}
MPI_Datatype make_pairs() {  // contiguous pairs: dense
  MPI_Datatype type = MPI_DATATYPE_NULL;
  MPI_Type_contiguous(2, MPI_INT, &type);
  return committed(type);
}
MPI_Datatype make_strided() {  // 2 of every 3 ints, twice: gaps inside and at the end
  MPI_Datatype vector = MPI_DATATYPE_NULL;
  MPI_Datatype type = MPI_DATATYPE_NULL;
  MPI_Type_vector(2, 1, 2, MPI_INT, &vector);
  MPI_Type_create_resized(vector, 0, 5 * static_cast<MPI_Aint>(sizeof(int)), &type);
  MPI_Type_free(&vector);
  return committed(type);
}
MPI_Datatype make_swapped() {  // a struct of two ints, the second first in memory
  int lengths[2] = {1, 1};
  MPI_Aint offsets[2] = {sizeof(int), 0};
  MPI_Datatype types[2] = {MPI_INT, MPI_INT};
  MPI_Datatype type = MPI_DATATYPE_NULL;
  MPI_Type_create_struct(2, lengths, offsets, types, &type);
  return committed(type);
}

const Layout layouts[] = {
    {"int", [](int i) { return i; }, make_int, 1, 1},
    {"pairs", [](int i) { return i; }, make_pairs, 2, 2},
    {"strided", [](int i) { return i / 2 * 5 + i % 2 * 2; }, make_strided, 2, 5},
    {"swapped", [](int i) { return i / 2 * 2 + 1 - i % 2; }, make_swapped, 2, 2},
};

/// A buffer of one block per rank, each followed by a guard of one element.
class Blocks {
 public:
  Blocks(const Layout& layout, std::vector<int> elements) : layout_(layout), elements_(std::move(elements)) {
    int next = 0;
    for (const int n : elements_) {
      first_.push_back(next);
      next += (n / layout.unit) * layout.extent + layout.extent;
    }
    data_.assign(static_cast<std::size_t>(next), kGuard);
  }
  void* data() { return data_.data(); }
  int units(std::size_t block) const { return elements_[block] / layout_.unit; }
  int displ(std::size_t block) const { return first_[block] / layout_.extent; }
  int byte_displ(std::size_t block) const { return first_[block] * static_cast<int>(sizeof(int)); }
  std::int32_t& at(std::size_t block, int i) {
    return data_[static_cast<std::size_t>(first_[block] + layout_.at(i))];
  }
  /// Compares all of memory with what it must be: elements from `expected`, guards elsewhere.
  void compare(const std::function<std::int32_t(int block, int i)>& expected, const std::string& what) {
    std::vector<std::int32_t> right(data_.size(), kGuard);
    std::swap(right, data_);
    for (std::size_t b = 0; b < elements_.size(); ++b) {
      for (int i = 0; i < elements_[b]; ++i) at(b, i) = expected(static_cast<int>(b), i);
    }
    std::swap(right, data_);
    for (std::size_t k = 0; k < data_.size(); ++k) {
      if (data_[k] == right[k]) continue;
      return fail(what + ": int " + std::to_string(k) + " of the receive buffer is wrong");
    }
  }

 private:
  Layout layout_;
  std::vector<int> elements_;
  std::vector<int> first_;
  std::vector<std::int32_t> data_;
};

/// Elements from src to dst: ragged, some of them none; even, so that every layout can hold them.
int ragged(int src, int dst, int scale) {
  return (src * 3 + dst * 5) % 4 * 2 * scale;
}

class Suite {
 public:
  /// `large`: longer blocks too, which do not fit into what ranks share at once.
  Suite(MPI_Comm comm, bool large) : comm_(comm), rank_(rank_of(comm)), size_(size_of(comm)), large_(large) {
    for (const Layout& layout : layouts) types_.push_back(layout.make());
  }
  ~Suite() {
    for (MPI_Datatype& type : types_) MPI_Type_free(&type);
  }

  void run(const std::string& plan) {
    for (std::size_t s = 0; s < types_.size(); ++s) {
      for (std::size_t r = 0; r < types_.size(); ++r) {
        for (const int n : {0, 2, 6, 400}) uniform(plan, s, r, n);
        if (large_) uniform(plan, s, r, 30000);
        for (const int scale : {1, 50, 6000}) {
          if (scale == 6000 && !large_) continue;
          for (const bool w : {false, true}) ragged_call(plan, s, r, scale, w);
        }
      }
      for (const int n : {2, 64}) in_place(plan, s, n);
      if (large_) in_place(plan, s, 30000);
    }
  }

 private:
  std::string name(const std::string& plan, const char* form, std::size_t s, std::size_t r, int n) const {
    return plan + " " + form + " " + layouts[s].name + " -> " + layouts[r].name + ", " + std::to_string(n);
  }

  /// Blocks of the same size directly behind each other have no room for guards between them; the buffer ends
  /// in one.
  void uniform(const std::string& plan, std::size_t s, std::size_t r, int n) {
    const auto ints = [&](std::size_t l) { return n / layouts[l].unit * layouts[l].extent; };
    const auto total = [&](std::size_t l) { return static_cast<std::size_t>(ints(l) * size_ + 1); };
    std::vector<std::int32_t> out(total(s), kGuard);
    std::vector<std::int32_t> in(total(r), kGuard);
    std::vector<std::int32_t> right(total(r), kGuard);
    for (int peer = 0; peer < size_; ++peer) {
      for (int i = 0; i < n; ++i) {
        out[static_cast<std::size_t>(peer * ints(s) + layouts[s].at(i))] = value(rank_, peer, i);
        right[static_cast<std::size_t>(peer * ints(r) + layouts[r].at(i))] = value(peer, rank_, i);
      }
    }
    const int code = TAPA_Alltoall(out.data(), n / layouts[s].unit, types_[s], in.data(), n / layouts[r].unit,
                                   types_[r], comm_);
    const std::string what = name(plan, "alltoall", s, r, n);
    expect(code == MPI_SUCCESS, what + " failed: " + TAPA_Last_error());
    expect(in == right, what + ": wrong data");
  }

  void ragged_call(const std::string& plan, std::size_t s, std::size_t r, int scale, bool w) {
    const auto n = static_cast<std::size_t>(size_);
    std::vector<int> sent;
    std::vector<int> received;
    for (int peer = 0; peer < size_; ++peer) {
      sent.push_back(ragged(rank_, peer, scale));
      received.push_back(ragged(peer, rank_, scale));
    }
    Blocks out(layouts[s], sent);
    Blocks in(layouts[r], received);
    std::vector<int> sendcounts(n), sdispls(n), recvcounts(n), rdispls(n);
    for (std::size_t p = 0; p < n; ++p) {
      for (int i = 0; i < sent[p]; ++i) out.at(p, i) = value(rank_, static_cast<int>(p), i);
      sendcounts[p] = out.units(p);
      recvcounts[p] = in.units(p);
      sdispls[p] = w ? out.byte_displ(p) : out.displ(p);
      rdispls[p] = w ? in.byte_displ(p) : in.displ(p);
    }
    int code = MPI_SUCCESS;
    if (w) {
      const std::vector<MPI_Datatype> sendtypes(n, types_[s]);
      const std::vector<MPI_Datatype> recvtypes(n, types_[r]);
      code = TAPA_Alltoallw(out.data(), sendcounts.data(), sdispls.data(), sendtypes.data(), in.data(),
                            recvcounts.data(), rdispls.data(), recvtypes.data(), comm_);
    } else {
      code = TAPA_Alltoallv(out.data(), sendcounts.data(), sdispls.data(), types_[s], in.data(),
                            recvcounts.data(), rdispls.data(), types_[r], comm_);
    }
    const std::string what = name(plan, w ? "alltoallw" : "alltoallv", s, r, scale);
    expect(code == MPI_SUCCESS, what + " failed: " + TAPA_Last_error());
    in.compare([&](int peer, int i) { return value(peer, rank_, i); }, what);
  }

  void in_place(const std::string& plan, std::size_t l, int n) {
    const std::vector<int> elements(static_cast<std::size_t>(size_), n);
    Blocks data(layouts[l], elements);
    std::vector<int> counts;
    std::vector<int> displs;
    for (std::size_t p = 0; p < elements.size(); ++p) {
      for (int i = 0; i < n; ++i) data.at(p, i) = value(rank_, static_cast<int>(p), i);
      counts.push_back(data.units(p));
      displs.push_back(data.displ(p));
    }
    const int code = TAPA_Alltoallv(MPI_IN_PLACE, nullptr, nullptr, MPI_DATATYPE_NULL, data.data(),
                                    counts.data(), displs.data(), types_[l], comm_);
    const std::string what = name(plan, "alltoallv in place", l, l, n);
    expect(code == MPI_SUCCESS, what + " failed: " + TAPA_Last_error());
    data.compare([&](int peer, int i) { return value(peer, rank_, i); }, what);

    std::vector<std::int32_t> dense;
    for (int p = 0; p < size_; ++p) {
      for (int i = 0; i < n; ++i) dense.push_back(value(rank_, p, i));
    }
    expect_done(TAPA_Alltoall(MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, dense.data(), n, MPI_INT, comm_),
                plan + " alltoall in place");
    for (int p = 0; p < size_; ++p) {
      for (int i = 0; i < n; ++i) {
        if (dense[static_cast<std::size_t>(p * n + i)] == value(p, rank_, i)) continue;
        return fail(plan + " alltoall in place: wrong data from rank " + std::to_string(p));
      }
    }
  }

  MPI_Comm comm_;
  int rank_;
  int size_;
  bool large_;
  std::vector<MPI_Datatype> types_;
};

}  // namespace

// Arguments: --large, then plans to force, "auto" for the library's own choice.
int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, tapa::errors_return());
  {
    const bool large = argc > 1 && std::string(argv[1]) == "--large";
    Suite suite(MPI_COMM_WORLD, large);
    for (int i = large ? 2 : 1; i < argc; ++i) {
      expect_done(TAPA_Comm_set(MPI_COMM_WORLD, "plan", argv[i]), std::string("plan ") + argv[i]);
      suite.run(argv[i]);
    }
  }
  return finish("alltoall_test");
}
