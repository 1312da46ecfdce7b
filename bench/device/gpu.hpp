/// @file
/// What the programs for device buffers share: checked calls, memory, a communicator, command lines.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdlib>
#include <map>
#include <sstream>
#include <stdexcept>
#include <string>

#include "ranks.hpp"
#include "tapa/device.h"

namespace tapa::bench {

inline void cuda(cudaError_t code, const char* what) {
  if (code != cudaSuccess) throw std::runtime_error(std::string(what) + ": " + cudaGetErrorString(code));
}
inline void tapa_call(int code) {
  if (code != TAPA_DEVICE_SUCCESS) throw std::runtime_error(TAPA_Device_last_error());
}

inline int device_count() {
  int devices = 0;
  cuda(cudaGetDeviceCount(&devices), "cudaGetDeviceCount");
  return devices;
}

/// Ranks take the devices in turn.
inline int device_of(int rank) {
  return rank % device_count();
}

/// Takes the rank's device, and tells it.
inline int take_device(int rank) {
  const int device = device_of(rank);
  cuda(cudaSetDevice(device), "cudaSetDevice");
  return device;
}

/// Makes this machine stand for several nodes, of so many ranks each: "2+3".
inline void label_node(int rank, const std::string& nodes) {
  int last = 0;
  int node = 0;
  std::istringstream text(nodes);
  for (std::string each; std::getline(text, each, '+'); ++node) {
    last += std::stoi(each);
    if (rank >= last) continue;
    setenv("TAPA_DEVICE_NODE", std::to_string(node).c_str(), 1);
    return;
  }
  if (!nodes.empty()) throw std::runtime_error("--nodes is \"" + nodes + "\", expected a node for each rank");
}

/// How a communicator's ranks are joined.
inline const char* described(TAPA_Device_comm comm) {
  const char* text = "";
  tapa_call(TAPA_Device_describe(comm, &text));
  return text;
}

/// Device memory that is freed at the end.
class Memory {
 public:
  explicit Memory(std::size_t bytes) : bytes_(bytes) { cuda(cudaMalloc(&memory_, bytes), "cudaMalloc"); }
  ~Memory() { (void)cudaFree(memory_); }
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;
  [[nodiscard]] char* get() const { return static_cast<char*>(memory_); }
  [[nodiscard]] std::size_t bytes() const { return bytes_; }

 private:
  void* memory_ = nullptr;
  std::size_t bytes_;
};

class Stream {
 public:
  Stream() { cuda(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking), "cudaStreamCreate"); }
  ~Stream() { (void)cudaStreamDestroy(stream_); }
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;
  [[nodiscard]] cudaStream_t get() const { return stream_; }
  void wait() const { cuda(cudaStreamSynchronize(stream_), "cudaStreamSynchronize"); }

 private:
  cudaStream_t stream_ = nullptr;
};

/// A device communicator of all ranks.
class Comm {
 public:
  Comm(Ranks& ranks, TAPA_Device_options options) {
    options.struct_size = sizeof(options);
    tapa_call(ranks.create(options, &comm_));
  }
  ~Comm() { (void)TAPA_Device_comm_free(&comm_); }
  Comm(const Comm&) = delete;
  Comm& operator=(const Comm&) = delete;
  [[nodiscard]] TAPA_Device_comm get() const { return comm_; }

 private:
  TAPA_Device_comm comm_ = TAPA_DEVICE_COMM_NULL;
};

/// A graph of what `record` puts on a stream.
class Graph {
 public:
  template <class Record>
  Graph(const Stream& stream, const Record& record) {
    cuda(cudaStreamBeginCapture(stream.get(), cudaStreamCaptureModeThreadLocal), "cudaStreamBeginCapture");
    record();
    cudaGraph_t graph = nullptr;
    cuda(cudaStreamEndCapture(stream.get(), &graph), "cudaStreamEndCapture");
    cuda(cudaGraphInstantiate(&graph_, graph, 0), "cudaGraphInstantiate");
    cuda(cudaGraphDestroy(graph), "cudaGraphDestroy");
    cuda(cudaGraphUpload(graph_, stream.get()), "cudaGraphUpload");
  }
  ~Graph() { (void)cudaGraphExecDestroy(graph_); }
  Graph(const Graph&) = delete;
  Graph& operator=(const Graph&) = delete;
  void launch(const Stream& stream) const { cuda(cudaGraphLaunch(graph_, stream.get()), "cudaGraphLaunch"); }

 private:
  cudaGraphExec_t graph_ = nullptr;
};

/// "--name value" pairs.
class Arguments {
 public:
  Arguments(int argc, char** argv) {
    for (int i = 1; i < argc; i += 2) {
      const std::string name = argv[i];
      if (name.rfind("--", 0) != 0 || i + 1 == argc) {
        throw std::runtime_error("argument \"" + name + "\", expected --name value");
      }
      values_[name.substr(2)] = argv[i + 1];
    }
  }
  [[nodiscard]] std::string text(const std::string& name, const std::string& otherwise) const {
    const auto found = values_.find(name);
    return found == values_.end() ? otherwise : found->second;
  }
  [[nodiscard]] double number(const std::string& name, double otherwise) const {
    const std::string value = text(name, "");
    if (value.empty()) return otherwise;
    char* end = nullptr;
    const double number = std::strtod(value.c_str(), &end);
    if (*end != '\0' || number < 0) {
      throw std::runtime_error("--" + name + " is \"" + value + "\", expected a number, 0 or more");
    }
    return number;
  }

 private:
  std::map<std::string, std::string> values_;
};

}  // namespace tapa::bench
