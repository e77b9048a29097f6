// Histograms as messages between ranks.
//
// A message says its own widths, so that what travels does not depend on what was proven about the
// sum over ranks; the receiver adds it to a slot of any width that holds the sum. It is one uint32
// per step of the plan (bytes of its blocks), the blocks of all steps, and STREAM_PADDING.
#include <algorithm>
#include <atomic>
#include <limits>
#include <span>
#include <utility>
#include <vector>

#include "bindings/gil.h"
#include "bindings/numpy_arrays.h"
#include "bindings/records.h"
#include "bindings/rooms.h"
#include "common/parallel.h"
#include "common/widths.h"
#include "ranks/message_blocks.h"
#include "tree/histogram.h"

namespace bitgrove {
namespace {

constexpr int64_t LENGTH_BYTES = sizeof(uint32_t);
constexpr int64_t STEPS_PER_THREAD = 8;
constexpr int64_t MOST_BINS = std::numeric_limits<uint32_t>::max() / 32;  // of a step

// Bins [first, last) of a slot, and where they are in a message.
struct Step {
  uint8_t* slot;
  int width;
  int64_t first, last;
  int64_t n_bytes = 0, start = 0;

  int block_bins(int64_t bin) const {
    return static_cast<int>(std::min<int64_t>(BLOCK_BINS, last - bin));
  }
};

Step make_step(const HistogramPart& part, const Matrix<uint8_t>& pool) {
  require(0 <= part.first_bin && part.first_bin <= part.last_bin &&
              part.last_bin - part.first_bin <= MOST_BINS,
          "bad range of bins");
  const PoolView slots{pool.data(), static_cast<int64_t>(pool.shape(0)),
                       static_cast<int64_t>(pool.shape(1))};
  return {slots.slot(part.slot, part.last_bin, part.width), part.width, part.first_bin,
          part.last_bin};
}

// Decides how the blocks of a step are written, and how long that is.
template <class Layout>
void shape_step(Step& step, Block* blocks) {
  const auto* sums = reinterpret_cast<const typename Layout::Sum*>(step.slot);
  for (int64_t b = step.first; b < step.last; b += BLOCK_BINS, ++blocks) {
    *blocks = shape_of<Layout>(sums + b, step.block_bins(b));
    step.n_bytes += blocks->n_bytes();
  }
}

template <class Layout>
void write_step(const Step& step, const Block* blocks, uint8_t* to) {
  const auto* sums = reinterpret_cast<const typename Layout::Sum*>(step.slot);
  for (int64_t b = step.first; b < step.last; b += BLOCK_BINS, ++blocks) {
    write_block<Layout>(*blocks, sums + b, to);
    to += blocks->n_bytes();
  }
}

// False where the bytes are not the blocks of the step; no bins but the step's are written to.
template <class Layout>
bool add_step(const Step& step, const uint8_t* from, const uint8_t* end) {
  auto* sums = reinterpret_cast<typename Layout::Sum*>(step.slot);
  for (int64_t b = step.first; b < step.last; b += BLOCK_BINS) {
    Block block{step.block_bins(b)};
    if (!read_header(from, end, Layout::half_bits, block)) return false;
    add_block<Layout>(block, from, sums + b);
    from += block.n_bytes();
  }
  return from == end;
}

// work(layout, i) for each step, on the instruction set asked for.
template <class Work>
void each_step(const std::vector<Step>& steps, int n_threads, int simd, Work&& work) {
  parallel_tasks(
      static_cast<int64_t>(steps.size()), n_threads,
      [&](int64_t i) {
        visit_total_width(steps[i].width, [&](auto layout) {
          with_simd<Simd::avx2>(static_cast<Simd>(simd), [&] { work(layout, i); });
        });
      },
      STEPS_PER_THREAD);
}

// A plan's steps, in the order of their messages, and how their blocks are written.
struct MessagePlan {
  std::vector<Step> steps;
  std::vector<int32_t> message;      // of each step
  std::vector<int64_t> first_block;  // of each step
  int64_t n_blocks = 0;
};

MessagePlan plan_messages(const Matrix<uint8_t>& pool, std::span<const HistogramPart> parts,
                          int64_t n_messages) {
  MessagePlan plan;
  int32_t least = 0;
  for (const HistogramPart& part : parts) {
    require(least <= part.message && part.message < n_messages,
            "parts are not in the order of the messages");
    least = part.message;
    plan.steps.push_back(make_step(part, pool));
    plan.message.push_back(part.message);
    plan.first_block.push_back(plan.n_blocks);
    plan.n_blocks += blocks_of(part.last_bin - part.first_bin, BLOCK_BINS);
  }
  return plan;
}

// Writes the lengths of all steps and leaves room for their blocks; returns where each message
// ends.
std::vector<int64_t> lay_out(MessagePlan& plan, int64_t n_messages, std::vector<uint8_t>& bytes) {
  std::vector<int64_t> ends;
  size_t first = 0;
  for (int64_t message = 0; message < n_messages; ++message) {
    size_t last = first;
    while (last < plan.steps.size() && plan.message[last] == message) ++last;
    auto start = static_cast<int64_t>(bytes.size() + LENGTH_BYTES * (last - first));
    for (size_t i = first; i < last; ++i) {
      const auto length = static_cast<uint32_t>(plan.steps[i].n_bytes);
      const auto* raw = reinterpret_cast<const uint8_t*>(&length);
      bytes.insert(bytes.end(), raw, raw + LENGTH_BYTES);
      plan.steps[i].start = start;
      start += length;
    }
    bytes.resize(start + (last > first ? STREAM_PADDING : 0));
    ends.push_back(static_cast<int64_t>(bytes.size()));
    first = last;
  }
  return ends;
}

// Returns the bytes of all messages, one after another, and where each ends; one without parts has
// no bytes.
nb::tuple pack_messages(const Matrix<uint8_t>& pool, const Records<HistogramPart>& parts,
                        int64_t n_messages, int n_threads, int simd) {
  MessagePlan plan = plan_messages(pool, parts.items, n_messages);
  std::vector<uint8_t> bytes;
  std::vector<int64_t> ends;
  {
    WithoutGil released;
    std::vector<Block> blocks(plan.n_blocks);
    each_step(plan.steps, n_threads, simd, [&](auto layout, int64_t i) {
      shape_step<decltype(layout)>(plan.steps[i], blocks.data() + plan.first_block[i]);
    });
    ends = lay_out(plan, n_messages, bytes);
    each_step(plan.steps, n_threads, simd, [&](auto layout, int64_t i) {
      write_step<decltype(layout)>(plan.steps[i], blocks.data() + plan.first_block[i],
                                   bytes.data() + plan.steps[i].start);
    });
  }
  const size_t n_bytes = bytes.size(), n = ends.size();
  return nb::make_tuple(to_numpy(std::move(bytes), {n_bytes}), to_numpy(std::move(ends), {n}));
}

using Message = std::pair<int, Vector<const uint8_t>>;  // the rank it comes from

// Not an argument of this type: memory that fails while nanobind makes one ends the process.
std::vector<Message> messages_of(const nb::list& given) {
  std::vector<Message> messages;
  for (nb::handle item : given) messages.push_back(nb::cast<Message>(item));
  return messages;
}

[[noreturn]] void refuse(int rank) {
  throw std::invalid_argument(
      "bitgrove core: rank " + std::to_string(rank) +
      " sent histograms that do not fit the plan; do all ranks run the same version?");
}

// Where the blocks of each step start; one more: where the last ones end.
std::vector<const uint8_t*> find_steps(const Message& message, size_t n_steps) {
  const auto& [rank, bytes] = message;
  const auto n_bytes = static_cast<int64_t>(bytes.shape(0));
  int64_t at = LENGTH_BYTES * static_cast<int64_t>(n_steps);
  if (n_bytes < at + STREAM_PADDING) refuse(rank);
  std::vector<const uint8_t*> starts{bytes.data() + at};
  for (size_t i = 0; i < n_steps; ++i) {
    uint32_t length;
    std::memcpy(&length, bytes.data() + LENGTH_BYTES * i, LENGTH_BYTES);
    at += length;
    if (n_bytes < at + STREAM_PADDING) refuse(rank);
    starts.push_back(bytes.data() + at);
  }
  if (n_bytes != at + STREAM_PADDING) refuse(rank);
  return starts;
}

// parts: all that are in the messages; those of [first, last) are added.
void add_messages(const Matrix<uint8_t>& pool, const Records<HistogramPart>& parts,
                  std::pair<size_t, size_t> added, const nb::list& given, int n_threads, int simd) {
  const size_t first = added.first, last = added.second;
  const std::vector<Message> messages = messages_of(given);
  require(first <= last && last <= parts.items.size(), "bad range of parts");
  std::vector<Step> steps;
  for (size_t i = first; i < last; ++i) steps.push_back(make_step(parts.items[i], pool));
  std::vector<std::vector<const uint8_t*>> starts;
  for (const Message& message : messages) starts.push_back(find_steps(message, parts.items.size()));
  std::atomic<int> malformed{-1};
  {
    WithoutGil released;
    each_step(steps, n_threads, simd, [&](auto layout, int64_t i) {
      for (size_t m = 0; m < messages.size(); ++m)
        if (!add_step<decltype(layout)>(steps[i], starts[m][first + i], starts[m][first + i + 1]))
          malformed = m;
    });
  }
  if (malformed >= 0) refuse(messages[malformed].first);
}

}  // namespace

void init_messages(nb::module_& m) {
  m.def("pack_messages", &pack_messages, "pool"_a, "parts"_a, "n_messages"_a, "n_threads"_a,
        "simd"_a,
        "HistogramParts as messages, in as few bits as the sums take: (bytes, message ends).");
  m.def("add_messages", &add_messages, "pool"_a, "parts"_a, "added"_a, "messages"_a, "n_threads"_a,
        "simd"_a,
        "Adds the parts [first, last) of (rank, message) pairs; ValueError names a rank whose "
        "message does not fit.");
}

}  // namespace bitgrove
