// Threads of one call: started, joined, and the first exception rethrown in the caller.
#pragma once

#include <atomic>
#include <cstddef>
#include <exception>
#include <mutex>
#include <thread>
#include <vector>

#include "base/control.h"

namespace dhilgt {

// Runs body(worker) on `threads` workers, the calling thread being worker 0.
template <class Body>
void run_workers(unsigned threads, Body&& body) {
  if (threads <= 1) {
    body(0u);
    return;
  }
  std::exception_ptr error;
  std::mutex error_lock;
  auto guarded = [&](unsigned worker) noexcept {
    try {
      body(worker);
    } catch (...) {
      const std::lock_guard<std::mutex> guard(error_lock);
      if (!error) error = std::current_exception();
    }
  };
  std::vector<std::thread> others;
  try {
    others.reserve(threads - 1);
    for (unsigned worker = 1; worker < threads; ++worker) others.emplace_back(guarded, worker);
  } catch (...) {  // a thread could not be started: join the others, then rethrow
    const std::lock_guard<std::mutex> guard(error_lock);
    if (!error) error = std::current_exception();
  }
  guarded(0u);
  for (std::thread& thread : others) thread.join();
  if (error) std::rethrow_exception(error);
}

// Calls body(worker, begin, end) for chunks that cover [0, count). Chunks go in order to whichever
// worker is free, which varies from run to run: results must not depend on `worker`.
template <class Body>
void parallel_for(unsigned threads, std::size_t count, std::size_t chunk, const Control& control,
                  Body&& body) {
  if (count == 0) return;
  if (chunk == 0) chunk = 1;
  const std::size_t chunks = (count + chunk - 1) / chunk;
  if (threads > chunks) threads = static_cast<unsigned>(chunks);
  std::atomic<std::size_t> next{0};
  std::atomic<bool> failed{false};
  run_workers(threads, [&](unsigned worker) {
    try {
      for (;;) {
        const std::size_t i = next.fetch_add(1, std::memory_order_relaxed);
        if (i >= chunks || failed.load(std::memory_order_relaxed)) return;
        control.check();
        const std::size_t begin = i * chunk;
        const std::size_t end = begin + chunk < count ? begin + chunk : count;
        body(worker, begin, end);
      }
    } catch (...) {
      failed.store(true, std::memory_order_relaxed);
      throw;
    }
  });
}

}  // namespace dhilgt
