#include "mpi_algorithms.hpp"

#include <array>
#include <cstdlib>

#include "tapa/errors_return.hpp"

namespace tapa::bench {

namespace {

// An integer control variable of the tools interface with named values.
class ControlVariable {
 public:
  explicit ControlVariable(const std::string& name) {
    int provided = 0;
    int index = 0;
    if (MPI_T_init_thread(MPI_THREAD_SINGLE, &provided) != MPI_SUCCESS) {
      return;
    }
    initialized_ = true;
    int count = 0;
    if (MPI_T_cvar_get_index(name.c_str(), &index) == MPI_SUCCESS &&
        MPI_T_cvar_handle_alloc(index, nullptr, &handle_, &count) == MPI_SUCCESS && count == 1) {
      read_values(index);
    }
  }
  ~ControlVariable() {
    if (handle_ != MPI_T_CVAR_HANDLE_NULL) {
      MPI_T_cvar_handle_free(&handle_);
    }
    if (initialized_) {
      MPI_T_finalize();
    }
  }
  ControlVariable(const ControlVariable&) = delete;
  ControlVariable& operator=(const ControlVariable&) = delete;

  struct Value {
    int number;
    std::string name;
  };
  [[nodiscard]] const std::vector<Value>& values() const { return values_; }

  bool write(int value) const { return MPI_T_cvar_write(handle_, &value) == MPI_SUCCESS; }
  [[nodiscard]] int read() const {
    int value = 0;
    MPI_T_cvar_read(handle_, &value);
    return value;
  }

 private:
  void read_values(int index) {
    std::array<char, 256> name{};
    int name_length = static_cast<int>(name.size());
    int verbosity = 0, bind = 0, scope = 0, description_length = 0;
    MPI_Datatype type = MPI_DATATYPE_NULL;
    MPI_T_enum names = MPI_T_ENUM_NULL;
    if (MPI_T_cvar_get_info(index, name.data(), &name_length, &verbosity, &type, &names, nullptr,
                            &description_length, &bind, &scope) != MPI_SUCCESS ||
        type != MPI_INT || names == MPI_T_ENUM_NULL) {
      return;
    }
    int items = 0;
    int length = static_cast<int>(name.size());
    if (MPI_T_enum_get_info(names, &items, name.data(), &length) != MPI_SUCCESS) {
      return;
    }
    for (int item = 0; item < items; ++item) {
      Value value{};
      length = static_cast<int>(name.size());
      if (MPI_T_enum_get_item(names, item, &value.number, name.data(), &length) == MPI_SUCCESS) {
        value.name = name.data();
        values_.push_back(value);
      }
    }
  }

  bool initialized_ = false;
  MPI_T_cvar_handle handle_ = MPI_T_CVAR_HANDLE_NULL;
  std::vector<Value> values_;
};

}  // namespace

void allow_algorithm_choice() {
  setenv("OMPI_MCA_coll_tuned_use_dynamic_rules", "1", 0);
}

MpiAlgorithms::MpiAlgorithms(MPI_Comm comm, const std::string& variable) : comm_(comm) {
  add("default");
  const ControlVariable control(variable);
  // The ranks must agree on what they duplicate: a variable that one cannot write is left alone by all.
  int usable = control.values().empty() ? 0 : static_cast<int>(control.values().size());
  MPI_Allreduce(MPI_IN_PLACE, &usable, 1, MPI_INT, MPI_MIN, comm_);
  if (usable == 0) {
    return;
  }
  const int before = control.read();
  for (int i = 0; i < usable; ++i) {
    const auto& value = control.values()[static_cast<std::size_t>(i)];
    // Open MPI's components read the variable when a communicator is made; 0 ("ignore") is the default.
    int written = value.number != 0 && control.write(value.number) ? 1 : 0;
    MPI_Allreduce(MPI_IN_PLACE, &written, 1, MPI_INT, MPI_MIN, comm_);
    if (written != 0) {
      add(value.name);
    }
  }
  control.write(before);
}

MpiAlgorithms::~MpiAlgorithms() {
  for (MpiAlgorithm& algorithm : algorithms_) {
    MPI_Comm_free(&algorithm.comm);
  }
}

void MpiAlgorithms::add(const std::string& name) {
  MpiAlgorithm algorithm{name, MPI_COMM_NULL};
  MPI_Comm_dup(comm_, &algorithm.comm);
  MPI_Comm_set_errhandler(algorithm.comm, errors_return());
  algorithms_.push_back(algorithm);
}

}  // namespace tapa::bench
