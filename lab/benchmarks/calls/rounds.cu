// What a round of a tree costs besides its work: kernels that do nothing, launched as training
// launches them, beside one cooperative launch with as many phases.
//
//     nvcc -O2 -std=c++17 -arch=native lab/benchmarks/calls/rounds.cu -o build/rounds &&
//     build/rounds
#include <cooperative_groups.h>
#include <cuda_runtime.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <vector>

struct Plan {  // as long as the plans that travel in a launch
  unsigned char bytes[3808];
};

constexpr int THREADS = 256, ROUNDS = 3000;

__global__ void step(const __grid_constant__ Plan plan, volatile int* tell, int round) {
  if (tell && blockIdx.x == 0 && threadIdx.x == 0) *tell = round;
}

__global__ void whole_round(const __grid_constant__ Plan plan, volatile int* tell, int round) {
  for (int i = 0; i < 3; ++i) cooperative_groups::this_grid().sync();
  if (blockIdx.x == 0 && threadIdx.x == 0) *tell = round;
}

static void check(cudaError_t status) {
  if (status == cudaSuccess) return;
  std::printf("%s\n", cudaGetErrorString(status));
  std::exit(1);
}

static double now() {
  using namespace std::chrono;
  return duration<double, std::micro>(steady_clock::now().time_since_epoch()).count();
}

template <class Round>
static void measure(const char* what, Round&& one_round) {
  static int round = 0;
  std::vector<double> times;
  for (int i = 0; i < ROUNDS; ++i) {
    const double start = now();
    one_round(++round);
    times.push_back(now() - start);
  }
  std::nth_element(times.begin(), times.begin() + ROUNDS / 2, times.end());
  std::printf("  %-58s %5.1f us\n", what, times[ROUNDS / 2]);
}

int main() {
  int* told;  // by the device, on two cache lines
  check(cudaMallocHost(&told, 128));
  told[0] = told[16] = 0;
  Plan plan{};
  const auto wait_for = [&](int at, int round) {
    while (__atomic_load_n(told + at, __ATOMIC_ACQUIRE) != round) {
    }
  };
  for (int blocks : {30, 132, 528}) {
    std::printf("%d blocks\n", blocks);
    const auto launch = [&](int* tell, int round) { step<<<blocks, THREADS>>>(plan, tell, round); };
    measure("four launches, looked at after the first and the last", [&](int round) {
      launch(told, round);
      launch(nullptr, round);
      wait_for(0, round);
      launch(nullptr, round);
      launch(told + 16, round);
      wait_for(16, round);
    });
    measure("one launch", [&](int round) {
      launch(told, round);
      wait_for(0, round);
    });
    measure("one cooperative launch of four phases", [&](int round) {
      volatile int* tell = told;
      void* arguments[] = {&plan, &tell, &round};
      check(
          cudaLaunchCooperativeKernel((void*)whole_round, blocks, THREADS, arguments, 0, nullptr));
      wait_for(0, round);
    });
  }
  check(cudaDeviceSynchronize());
}
