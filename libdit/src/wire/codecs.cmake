# The codecs of dit_exchange, for hosts and, with CUDA, for devices: they need nothing else of libdit but layouts.
set(wire ${CMAKE_CURRENT_LIST_DIR})
target_sources(dit_exchange PRIVATE
  ${wire}/codec.cpp ${wire}/codec_dispatch.cpp ${wire}/codec_portable.cpp ${wire}/pack.cpp ${wire}/device/block_jobs.cpp
  ${wire}/device/code_launcher.cpp)

# The codecs' loops, for each instruction set. The same bits from all: no sum is fused with a product, none reordered.
set(kernel_options -O3 -ffp-contract=off -fno-trapping-math -fno-math-errno)
set(plain_options ${kernel_options})
if(CMAKE_SYSTEM_PROCESSOR MATCHES "aarch64|arm64|ARM64")
  # NEON is there on all of them. The plain ones, without it, are what tests compare it with.
  list(APPEND plain_options -fno-tree-vectorize -fno-tree-slp-vectorize)
  target_sources(dit_exchange PRIVATE ${wire}/codec_neon.cpp)
  set_source_files_properties(${wire}/codec_neon.cpp TARGET_DIRECTORY dit_exchange
                              PROPERTIES COMPILE_OPTIONS "${kernel_options}")
endif()
set_source_files_properties(${wire}/codec_portable.cpp TARGET_DIRECTORY dit_exchange
                            PROPERTIES COMPILE_OPTIONS "${plain_options}")
if(CMAKE_SYSTEM_PROCESSOR MATCHES "x86_64|AMD64")
  target_sources(dit_exchange PRIVATE ${wire}/codec_avx2.cpp ${wire}/codec_avx512.cpp)
  set_source_files_properties(${wire}/codec_avx2.cpp TARGET_DIRECTORY dit_exchange
                              PROPERTIES COMPILE_OPTIONS "${kernel_options};-mavx2")
  set_source_files_properties(${wire}/codec_avx512.cpp TARGET_DIRECTORY dit_exchange PROPERTIES COMPILE_OPTIONS
    "${kernel_options};-mavx512f;-mavx512bw;-mavx512dq;-mavx512vl;-mprefer-vector-width=512")
endif()

if(TAPA_HAVE_CUDA)
  set(kernels code_kernels code_kernels_any code_kernels_bf16 code_kernels_fp16 loss_kernels row_kernels)
  list(TRANSFORM kernels REPLACE "(.+)" "${wire}/device/\\1.cu")
  target_sources(dit_exchange PRIVATE ${kernels})
  set_source_files_properties(${kernels} TARGET_DIRECTORY dit_exchange PROPERTIES COMPILE_OPTIONS "-fmad=false")
endif()
