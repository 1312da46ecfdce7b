// Messages between two ranks.
#include "steps.hpp"

namespace random_program {
namespace {

constexpr int kTags = 5;
constexpr int kRingTag = 900;

}  // namespace

void messages(const Line& line) {
  const Comm& c = object(comms, line.word("comm"));
  if (c.comm == MPI_COMM_NULL) return;
  const int n = line.value("count");
  Pending& p = object(requests, line.word("req"));
  p.active = true;
  p.sent.resize(static_cast<std::size_t>(3 * n));
  p.received.resize(p.sent.size());
  p.more.resize(static_cast<std::size_t>(2 * n));
  p.statuses.resize(p.more.size());
  Random common = common_of(line);
  for (int i = 0; i < n; ++i)
    MPI_Irecv(&p.received[static_cast<std::size_t>(3 * i)], 3, MPI_UINT64_T, MPI_ANY_SOURCE, MPI_ANY_TAG,
              c.comm, &p.more[static_cast<std::size_t>(i)]);
  for (int i = 0; i < n; ++i) {
    const int to = (c.rank + below(&common, c.size)) % c.size;
    const int tag = below(&common, kTags);
    std::uint64_t* const m = &p.sent[static_cast<std::size_t>(3 * i)];
    m[1] = static_cast<std::uint64_t>((i * kTags + tag) * 1024 + to);
    m[0] = mixed(c.name, m[1]);
    m[2] = static_cast<std::uint64_t>(c.rank);
    MPI_Isend(m, 3, MPI_UINT64_T, to, tag, c.comm, &p.more[static_cast<std::size_t>(n + i)]);
  }
  p.finished = [line, &p, &c, n] {
    for (int i = 0; i < n; ++i) {
      const std::uint64_t* const m = &p.received[static_cast<std::size_t>(3 * i)];
      const MPI_Status& s = p.statuses[static_cast<std::size_t>(i)];
      expect(line,
             m[0] == mixed(c.name, m[1]) && m[1] % 1024 == static_cast<std::uint64_t>(c.rank) &&
                 m[2] == static_cast<std::uint64_t>(s.MPI_SOURCE) &&
                 m[1] / 1024 % kTags == static_cast<std::uint64_t>(s.MPI_TAG),
             "another message than was sent");
      checksum += m[0];
    }
  };
}

void ring_of_messages(const Line& line) {
  const Comm& c = object(comms, line.word("comm"));
  if (c.comm == MPI_COMM_NULL) return;
  const std::uint64_t mine = value_of(line, c, c.rank);
  std::uint64_t got = 0;
  const int from = (c.rank + c.size - 1) % c.size;
  MPI_Request request = MPI_REQUEST_NULL;
  MPI_Isend(&mine, 1, MPI_UINT64_T, (c.rank + 1) % c.size, kRingTag, c.comm, &request);
  MPI_Status status;
  if (line.value("matched") != 0) {
    MPI_Message message = MPI_MESSAGE_NULL;
    MPI_Mprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, c.comm, &message, &status);
    MPI_Mrecv(&got, 1, MPI_UINT64_T, &message, MPI_STATUS_IGNORE);
  } else {
    MPI_Probe(from, kRingTag, c.comm, &status);
    MPI_Recv(&got, 1, MPI_UINT64_T, status.MPI_SOURCE, status.MPI_TAG, c.comm, MPI_STATUS_IGNORE);
  }
  MPI_Wait(&request, MPI_STATUS_IGNORE);
  expect(line, status.MPI_SOURCE == from && status.MPI_TAG == kRingTag && got == value_of(line, c, from),
         "another message than the neighbor's");
}

void look_for_messages(const Line& line) {
  const Comm& c = object(comms, line.word("comm"));
  if (c.comm == MPI_COMM_NULL) return;
  for (int i = 0; i < 4; ++i) {
    MPI_Status status;
    int flag = 0;
    MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, c.comm, &flag, &status);
    const bool ours = status.MPI_TAG >= 0 && (status.MPI_TAG < kTags || status.MPI_TAG == kRingTag);
    if (flag != 0)
      expect(line, ours && status.MPI_SOURCE < c.size, "a message that the program did not send");
  }
}

}  // namespace random_program
