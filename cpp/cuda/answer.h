// Sums that kernels add up on the device and tell the host: no copy, no wait for the stream.
//
// The kernels of one question add to the same zeros. The last of all their blocks writes the sums
// into pinned memory of the host and leaves zeros behind (kernels/device/answers.h). Python owns
// the memory.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <stdexcept>

#include "cuda/driver.h"
#include "plans.h"

namespace bitgrove {

class Answer {
 public:
  Stream stream;
  AnswerPlace place{};
  int64_t room = 0;  // in words, the mark not counted

  // Sums of n_words from the next launches, which have n_blocks blocks in all.
  void expect(int64_t n_words, int64_t n_blocks) {
    if (n_words > room) throw std::length_error("an answer is larger than its buffer");
    if (is_open_) throw std::logic_error("the answer before this one was not read");
    place.n_words = n_words;
    place.n_blocks = n_blocks;
    *told() = n_blocks == 0;
    if (n_blocks == 0) std::fill_n(told() + 1, n_words, 0);
    is_open_ = true;
  }
  // Waits for it; good until the next one is expected.
  std::span<const int64_t> read() {
    stream.watch([&] { return __atomic_load_n(told(), __ATOMIC_ACQUIRE) != 0; });
    is_open_ = false;
    return {told() + 1, static_cast<size_t>(place.n_words)};
  }

 private:
  int64_t* told() const { return reinterpret_cast<int64_t*>(place.told); }

  bool is_open_ = false;
};

}  // namespace bitgrove
