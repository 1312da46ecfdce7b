#include <array>

#include "plan/planner.hpp"

namespace tapa {

namespace {

// Terms of the formulas: P ranks, n groups of q ranks, m bytes per block; a, b, o: latency, seconds per byte
// and CPU seconds per message of the level that a part crosses (index f: inside the group, s: across it); c:
// seconds per byte of a local copy; B: bytes per second of a node's NICs.
constexpr std::array<AlgorithmInfo, 7> kAlgorithms = {{
    {Algorithm::mpi, "mpi", "leave the call to MPI", "everything MPI supports, intercommunicators too",
     "measured only", ""},
    {Algorithm::memory, "memory",
     "every rank shows its blocks in memory that all share, and fetches its own from the others",
     "ranks of one node, uniform and v; knows its own counts", "(P-1) 0.2o + a + (P-1) m b",
     "Li, Zhang, Hoefler, IEEE TPDS 29(3), 2018; Jain et al., SC 2018"},
    {Algorithm::linear, "linear",
     "every block straight to its destination, spread out, all or `window` at a time",
     "any ranks, uniform and v; knows its own counts", "(P-1) 2o + a + max((P-1) m b, q (P-q) m / B)",
     "spread-out: Kang et al., IPDPS 2020; LogGP: Alexandrov et al., SPAA 1995"},
    {Algorithm::pairwise, "pairwise", "P-1 steps, in step k with the ranks k before and k after",
     "any ranks, uniform and v; knows its own counts", "(P-1) (a + 2o + m b)",
     "Thakur, Rabenseifner, Gropp, IJHPCA 2005"},
    {Algorithm::bruck, "bruck",
     "blocks travel by the digits of their distance in `radix`: few messages, more bytes",
     "any ranks, uniform; v when all counts are known", "ceil(log_r P) (a + (r-1) (2o + P/r m (b + 2c)))",
     "Bruck et al., IEEE TPDS 8(11), 1997"},
    {Algorithm::tapa, "tapa",
     "inside each group to the lane of the destination, then per lane between groups; or the inverse",
     "any ranks, groups of any sizes, several splits; v from the group's counts",
     "(q-1) (2 o_f + n m b_f) + a_f + (n-1) 2 o_s + a_s + max((n-1) q m b_s, q (P-q) m / B) + 2 P m c",
     "CoCoDiff, arXiv 2604.14561, III-A; node-aware: Bienz et al., EuroMPI 2019"},
    {Algorithm::leaders, "leaders", "k leaders of each group gather, exchange and scatter for all",
     "any ranks, groups of any sizes, one split; v from the group's counts",
     "2 (q-1) (2 o_f + (P-q) m b_f / k) + 2 a_f + (n-1) (2 o_s + q^2/k m b_s) + a_s + 2 q P m c / k",
     "Kinkead, Bienz et al., arXiv 2601.17606; classic hierarchical: Sistare et al., SC 1999"},
}};

}  // namespace

std::span<const AlgorithmInfo> algorithms() {
  return kAlgorithms;
}

}  // namespace tapa
