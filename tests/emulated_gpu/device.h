// What NVRTC knows without being told, for kernels that a C++ compiler makes for a CPU.
//
// No header of the system may come before or after: kernels declare int64_t as NVRTC has it.
#define __CUDACC_RTC__ 1
#define __CUDA_ARCH__ 800
#define __device__
#define __forceinline__ inline
#define __launch_bounds__(...)
#define __grid_constant__
#define __align__(n) __attribute__((aligned(n)))
#define SEEN __attribute__((visibility("default")))  // by other libraries
// Blocks run one after the other: a variable for all of them is one for each.
#define __shared__ static

namespace emulated {

using size_t = __SIZE_TYPE__;

struct Dim {
  unsigned x = 1, y = 1, z = 1;
};

// The thread that runs: set by whoever switches to it (driver.cpp).
struct Thread {
  Dim thread, block, block_size, grid_size;
};
extern "C" SEEN Thread emulated_thread;
extern "C" SEEN void* emulated_dynamic_memory;

// Waits for all threads of the block; the sum of what they give.
extern "C" SEEN long long emulated_sync_block(long long value);
// Waits for the lanes of the mask; what each of the warp's 32 gave.
extern "C" SEEN const unsigned long long* emulated_gather(unsigned mask, unsigned long long value);

inline unsigned lane() {
  const Thread& t = emulated_thread;
  return (t.thread.x + t.block_size.x * t.thread.y) % 32;
}

template <class T>
unsigned long long bits_of(T value) {
  static_assert(sizeof(T) <= 8, "a lane gives at most 64 bits");
  unsigned long long bits = 0;
  __builtin_memcpy(&bits, &value, sizeof value);
  return bits;
}

template <class T>
T from_bits(unsigned long long bits) {
  T value;
  __builtin_memcpy(&value, &bits, sizeof value);
  return value;
}

template <class T>
T value_of_lane(unsigned mask, T value, unsigned from) {
  return from_bits<T>(emulated_gather(mask, bits_of(value))[from % 32]);
}

template <class T, class Add>
T reduced(unsigned mask, T value, Add add) {
  const unsigned long long* all = emulated_gather(mask, bits_of(value));
  bool is_first = true;
  T sum{};
  for (int i = 0; i < 32; ++i) {
    if ((mask >> i & 1) == 0) continue;
    const T other = from_bits<T>(all[i]);
    sum = is_first ? other : add(sum, other);
    is_first = false;
  }
  return sum;
}

// How a launch calls a kernel: arguments by their addresses, as the driver has them.
using Call = void (*)(void**);
struct Kernel {
  const char* name;
  Call call;
  const size_t* sizes;  // of its arguments, and 0
};

template <class T, T... I>
struct Places {};
#if __has_builtin(__make_integer_seq)
template <size_t N>
using PlacesTo = __make_integer_seq<Places, size_t, N>;
#else
template <size_t N>
using PlacesTo = Places<size_t, __integer_pack(N)...>;
#endif

template <auto Function>
struct Caller;
template <class... Args, void (*Function)(Args...)>
struct Caller<Function> {
  template <size_t... I>
  static void unpack(void** arguments, Places<size_t, I...>) {
    Function(*static_cast<Args*>(arguments[I])...);
  }
  static constexpr size_t sizes[] = {sizeof(Args)..., 0};
  static void call(void** arguments) { unpack(arguments, PlacesTo<sizeof...(Args)>{}); }
};

}  // namespace emulated

#define threadIdx (emulated::emulated_thread.thread)
#define blockIdx (emulated::emulated_thread.block)
#define blockDim (emulated::emulated_thread.block_size)
#define gridDim (emulated::emulated_thread.grid_size)

struct float2 {
  float x, y;
};
inline float2 make_float2(float x, float y) { return {x, y}; }
struct uint4 {
  unsigned x, y, z, w;
};
inline uint4 make_uint4(unsigned x, unsigned y, unsigned z, unsigned w) { return {x, y, z, w}; }

inline void __syncthreads() { emulated::emulated_sync_block(0); }
inline int __syncthreads_or(int value) { return emulated::emulated_sync_block(value != 0) != 0; }
inline void __syncwarp(unsigned mask = 0xFFFFFFFFu) { emulated::emulated_gather(mask, 0); }
inline void __threadfence() {}
inline void __threadfence_system() {}

template <class T>
T __shfl_sync(unsigned mask, T value, int from) {
  return emulated::value_of_lane(mask, value, static_cast<unsigned>(from));
}
template <class T>
T __shfl_xor_sync(unsigned mask, T value, int step) {
  return emulated::value_of_lane(mask, value, emulated::lane() ^ static_cast<unsigned>(step));
}
template <class T>
T __shfl_up_sync(unsigned mask, T value, unsigned step) {
  const unsigned lane = emulated::lane();
  return emulated::value_of_lane(mask, value, lane < step ? lane : lane - step);
}
inline unsigned __ballot_sync(unsigned mask, int value) {
  const unsigned bit = value != 0 ? 1u << emulated::lane() : 0u;
  return emulated::reduced(mask, bit, [](unsigned a, unsigned b) { return a | b; });
}
template <class T>
unsigned __match_any_sync(unsigned mask, T value) {
  const unsigned long long* all = emulated::emulated_gather(mask, emulated::bits_of(value));
  unsigned same = 0;
  for (int i = 0; i < 32; ++i)
    if ((mask >> i & 1) != 0 && all[i] == emulated::bits_of(value)) same |= 1u << i;
  return same;
}
template <class T>
T __reduce_add_sync(unsigned mask, T value) {
  return emulated::reduced(mask, value, [](T a, T b) {
    return static_cast<T>(static_cast<unsigned>(a) + static_cast<unsigned>(b));
  });
}
template <class T>
T __reduce_min_sync(unsigned mask, T value) {
  return emulated::reduced(mask, value, [](T a, T b) { return b < a ? b : a; });
}

template <class T>
struct Same {
  using type = T;
};
template <class T>
T atomicAdd(T* at, typename Same<T>::type value) {
  const T before = *at;
  *at = static_cast<T>(before + value);
  return before;
}
inline int atomicAdd(int* at, int value) {
  const int before = *at;
  *at = static_cast<int>(static_cast<unsigned>(before) + static_cast<unsigned>(value));
  return before;
}
template <class T>
T atomicMax(T* at, typename Same<T>::type value) {
  const T before = *at;
  if (before < value) *at = value;
  return before;
}
template <class T>
T atomicMin(T* at, typename Same<T>::type value) {
  const T before = *at;
  if (value < before) *at = value;
  return before;
}
inline unsigned atomicInc(unsigned* at, unsigned last) {
  const unsigned before = *at;
  *at = before >= last ? 0 : before + 1;
  return before;
}
template <class T>
T __ldcg(const T* at) {
  return *at;
}

inline int __popc(unsigned bits) { return __builtin_popcount(bits); }
inline int __ffs(int bits) { return __builtin_ffs(bits); }
inline int __clzll(long long bits) { return bits == 0 ? 64 : __builtin_clzll(bits); }
inline unsigned __funnelshift_r(unsigned low, unsigned high, unsigned shift) {
  const unsigned long long both = static_cast<unsigned long long>(high) << 32 | low;
  return static_cast<unsigned>(both >> (shift & 31));
}
inline unsigned long long __umul64hi(unsigned long long a, unsigned long long b) {
  return static_cast<unsigned long long>(static_cast<unsigned __int128>(a) * b >> 64);
}
inline double __longlong_as_double(long long bits) { return emulated::from_bits<double>(bits); }
inline long long __double_as_longlong(double value) {
  return static_cast<long long>(emulated::bits_of(value));
}
inline int __float_as_int(float value) { return __builtin_bit_cast(int, value); }
inline unsigned __float_as_uint(float value) { return __builtin_bit_cast(unsigned, value); }
inline float __int_as_float(int bits) { return __builtin_bit_cast(float, bits); }
inline float __uint_as_float(unsigned bits) { return __builtin_bit_cast(float, bits); }
inline long long __double2ll_rn(double value) { return __builtin_llrint(value); }
inline double ceil(double x) { return __builtin_ceil(x); }
inline double floor(double x) { return __builtin_floor(x); }
inline double fabs(double x) { return __builtin_fabs(x); }
inline float fabsf(float x) { return __builtin_fabsf(x); }
inline double __dsqrt_rn(double x) { return __builtin_sqrt(x); }
template <class T>
T max(T a, T b) {
  return a < b ? b : a;
}
template <class T>
T min(T a, T b) {
  return b < a ? b : a;
}
inline double sqrt(double x) { return __builtin_sqrt(x); }
inline double rint(double x) { return __builtin_rint(x); }
inline bool isnan(double x) { return __builtin_isnan(x); }
