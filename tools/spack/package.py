# Spack recipe: copy it into a repository of yours as packages/tapa/package.py, point `git` at your copy of the sources.
# Written after Spack's manual; not run.
from spack.package import *


class Tapa(CMakePackage):
    """Topology-aware all-to-all for MPI programs, without a rebuild or by a prefix, and Ulysses sequence parallelism for
    diffusion transformers."""

    homepage = "https://arxiv.org/abs/2604.14561"
    git = "file:///path/to/tapa"  # or `spack develop --path DIR tapa@main`

    license("BSD-3-Clause")

    version("main", branch="main")

    variant("cuda", default=False, description="all-to-alls on device buffers")
    variant("engine", default=False, description="libdit's engine and the dit tool (libtorch)")
    variant("simgrid", default=False, description="tapa-sim, the simulator of large machines")
    variant("man", default=True, description="man pages")

    depends_on("c", type="build")
    depends_on("cxx", type="build")
    depends_on("cmake@3.22:", type="build")
    depends_on("ninja", type="build")
    depends_on("pkgconfig", type="build")
    depends_on("help2man", type="build", when="+man")
    depends_on("mpi@3.1:")
    depends_on("hwloc@2:")
    depends_on("libfabric")
    depends_on("nlohmann-json")
    depends_on("cli11@2:", type="build")
    depends_on("googletest +gmock", type="test")
    depends_on("cuda@12:", when="+cuda")
    depends_on("py-torch", when="+engine")
    depends_on("python", when="+engine")
    depends_on("libpng", when="+engine")
    depends_on("simgrid +smpi", when="+simgrid")

    conflicts("%gcc@:11", msg="C++20 of GCC 12 is needed")
    generator("ninja")

    def cmake_args(self):
        args = [
            self.define("MPI_C_COMPILER", self.spec["mpi"].mpicc),
            self.define("TAPA_CUDA", "ON" if self.spec.satisfies("+cuda") else "OFF"),
            self.define("TAPA_BUILD_TESTS", self.run_tests),
            self.define("TAPA_BUILD_EXAMPLES", self.run_tests),
            self.define("DIT_TORCH_OPERATORS", False),  # pip install plugins/torch, into the environment that has the torch
            self.define_from_variant("DIT_ENGINE", "engine"),
            self.define_from_variant("TAPA_SIMGRID", "simgrid"),
            self.define_from_variant("TAPA_MAN", "man"),
        ]
        if self.spec.satisfies("+engine"):
            torch = self.spec["py-torch"].prefix
            args.append(self.define("DIT_TORCH_ROOT", join_path(torch, self.spec["python"].package.platlib, "torch")))
        return args
