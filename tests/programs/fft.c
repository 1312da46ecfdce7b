/* FFTW's MPI transforms as its manual recommends them for speed: a 3-d and a 2-d complex transform there and
 * back, each out of place with transposed output and an input that may be destroyed. (Other kinds of
 * transforms exchange with MPI_Sendrecv instead of an all-to-all.) Prints checksums of the spectrum, the
 * error of the round trip, and, on lines that begin with "time", what a forward transform takes. Usage: fft
 * [N [repeats]] */
#include <fftw3-mpi.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

static int rank;

static double start_value(ptrdiff_t i) {
  return sin(0.001 * (double)(i % 7919)) + 0.25 * (double)(i % 5);
}

/* Plan with FFTW_ESTIMATE: the same plan in every run, so that results are the same to the last bit. */
static void transform(const char* name, int dimensions, const ptrdiff_t* n, int repeats) {
  ptrdiff_t rows, first, out_rows, out_first, total = 1;
  double spectrum[3] = {0, 0, 0}, error = 0, all[3], worst;
  for (int i = 0; i < dimensions; ++i) total *= n[i];
  const ptrdiff_t room =
      fftw_mpi_local_size_many_transposed(dimensions, n, 1, FFTW_MPI_DEFAULT_BLOCK, FFTW_MPI_DEFAULT_BLOCK,
                                          MPI_COMM_WORLD, &rows, &first, &out_rows, &out_first);
  fftw_complex* data = fftw_alloc_complex((size_t)(room > 0 ? room : 1));
  fftw_complex* waves = fftw_alloc_complex((size_t)(room > 0 ? room : 1));
  if (data == NULL || waves == NULL) MPI_Abort(MPI_COMM_WORLD, 2);
  fftw_plan forward = fftw_mpi_plan_dft(dimensions, n, data, waves, MPI_COMM_WORLD, FFTW_FORWARD,
                                        FFTW_ESTIMATE | FFTW_DESTROY_INPUT | FFTW_MPI_TRANSPOSED_OUT);
  fftw_plan backward = fftw_mpi_plan_dft(dimensions, n, waves, data, MPI_COMM_WORLD, FFTW_BACKWARD,
                                         FFTW_ESTIMATE | FFTW_DESTROY_INPUT | FFTW_MPI_TRANSPOSED_IN);
  const ptrdiff_t mine = rows * (total / n[0]);
  for (ptrdiff_t i = 0; i < mine; ++i) {
    data[i][0] = start_value(first * (total / n[0]) + i);
    data[i][1] = 0.5 * data[i][0];
  }
  double best = 1e30;
  for (int repeat = 0; repeat < repeats; ++repeat) {
    MPI_Barrier(MPI_COMM_WORLD);
    const double begin = MPI_Wtime();
    fftw_execute(forward);
    double seconds = MPI_Wtime() - begin;
    MPI_Allreduce(MPI_IN_PLACE, &seconds, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
    if (seconds < best) best = seconds;
    if (repeat == 0) {
      const ptrdiff_t held = out_rows * (total / n[1]);
      for (ptrdiff_t i = 0; i < held; ++i) {
        spectrum[0] += waves[i][0] * (double)(i % 31 + rank + 1);
        spectrum[1] += waves[i][1] * (double)(i % 17 + rank + 1);
        spectrum[2] += waves[i][0] * waves[i][0] + waves[i][1] * waves[i][1];
      }
    }
    fftw_execute(backward);
    for (ptrdiff_t i = 0; i < mine; ++i) {
      data[i][0] /= (double)total;
      data[i][1] /= (double)total;
    }
  }
  for (ptrdiff_t i = 0; i < mine; ++i) {
    error = fmax(error, fabs(data[i][0] - start_value(first * (total / n[0]) + i)));
  }
  MPI_Reduce(spectrum, all, 3, MPI_DOUBLE, MPI_SUM, 0, MPI_COMM_WORLD);
  MPI_Allreduce(&error, &worst, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
  if (rank == 0) {
    printf("%s spectrum %.17g %.17g %.17g\n", name, all[0], all[1], all[2]);
    printf("%s round trip %s (%.3g)\n", name, worst < 1e-9 ? "right" : "WRONG", worst);
    printf("time %s %.6f ms\n", name, 1e3 * best);
  }
  if (worst >= 1e-9) MPI_Abort(MPI_COMM_WORLD, 1);
  fftw_destroy_plan(forward);
  fftw_destroy_plan(backward);
  fftw_free(data);
  fftw_free(waves);
}

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  fftw_mpi_init();
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  const int n = argc > 1 ? atoi(argv[1]) : 32;
  const int repeats = argc > 2 ? atoi(argv[2]) : 3;
  if (n < 2 || n > 4096 || repeats < 1) {
    if (rank == 0) fprintf(stderr, "usage: fft [N [repeats]], N 2 to 4096, repeats at least 1\n");
    MPI_Abort(MPI_COMM_WORLD, 2);
  }
  const ptrdiff_t cube[3] = {n, n, n};
  const ptrdiff_t square[2] = {4 * n, 3 * n};
  transform("fft-3d", 3, cube, repeats);
  transform("fft-2d", 2, square, repeats);
  fftw_mpi_cleanup();
  MPI_Finalize();
  return 0;
}
