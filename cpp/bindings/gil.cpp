// See gil.h.
#include "bindings/gil.h"

#include <atomic>
#include <chrono>
#include <thread>

namespace bitgrove {
namespace {

std::atomic<bool> has_left{false};
std::thread::id last_thread;

}  // namespace

void leave_python() {
  last_thread = std::this_thread::get_id();
  has_left.store(true, std::memory_order_release);
}

void wait_if_left() {
  while (has_left.load(std::memory_order_acquire) && std::this_thread::get_id() != last_thread)
    std::this_thread::sleep_for(std::chrono::hours(1));
}

}  // namespace bitgrove
