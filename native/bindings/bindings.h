// Common to all binding files: array types, the polling loop, registration functions.
#pragma once

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>

#include <chrono>
#include <condition_variable>
#include <exception>
#include <memory>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include "base/buffer.h"
#include "base/control.h"

namespace dhilgt {

namespace nb = nanobind;

// Arrays are accepted only as declared: every argument of these types must be bound with
// nb::arg("name").noconvert(), otherwise nanobind converts int64 to int32 silently.
template <class T>
using ArrayIn = nb::ndarray<const T, nb::numpy, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
template <class T>
using ArrayOut = nb::ndarray<T, nb::numpy, nb::ndim<1>, nb::c_contig>;

// Gives the memory of a vector to NumPy without a copy.
template <class T>
ArrayOut<T> to_numpy(std::vector<T>&& values) {
  auto owner = std::make_unique<std::vector<T>>(std::move(values));
  std::vector<T>* kept = owner.get();
  nb::capsule capsule(kept, [](void* pointer) noexcept { delete static_cast<std::vector<T>*>(pointer); });
  owner.release();
  return ArrayOut<T>(kept->data(), {kept->size()}, capsule);
}

template <class T>
ArrayOut<T> to_numpy(Buffer<T>&& values) {
  auto owner = std::make_unique<Buffer<T>>(std::move(values));
  owner->detach();
  Buffer<T>* kept = owner.get();
  nb::capsule capsule(kept, [](void* pointer) noexcept { delete static_cast<Buffer<T>*>(pointer); });
  owner.release();
  return ArrayOut<T>(kept->data(), {kept->size()}, capsule);
}

// Runs work() on its own thread without the GIL. Every 50 ms the calling thread lets Python run its signal
// handlers and calls progress(done, total, entries, bytes). If either raises, typically
// KeyboardInterrupt, the work is stopped and the exception is raised once it has ended.
template <class Work>
void run_polled(Control& control, nb::object progress, Work&& work) {
  std::exception_ptr error;
  bool finished = false;
  std::mutex lock;
  std::condition_variable wake;
  std::thread thread([&]() noexcept {
    try {
      work();
    } catch (...) {
      error = std::current_exception();
    }
    const std::lock_guard<std::mutex> guard(lock);
    finished = true;
    wake.notify_one();
  });
  std::exception_ptr interrupted;
  {
    nb::gil_scoped_release unlocked;
    for (;;) {
      {
        std::unique_lock<std::mutex> guard(lock);
        if (wake.wait_for(guard, std::chrono::milliseconds(50), [&] { return finished; })) break;
      }
      nb::gil_scoped_acquire locked;
      try {
        if (PyErr_CheckSignals() != 0) throw nb::python_error();
        if (!progress.is_none()) {
          progress(control.done.load(), control.total.load(), control.entries.load(),
                   control.used_bytes());
        }
      } catch (...) {
        interrupted = std::current_exception();
        control.stop.store(true);
        break;
      }
    }
    thread.join();
  }
  if (interrupted) std::rethrow_exception(interrupted);
  if (error) std::rethrow_exception(error);
}

void bind_errors(nb::module_& module);
void bind_graph(nb::module_& module);
void bind_labels(nb::module_& module);
void bind_shards(nb::module_& module);
void bind_tokens(nb::module_& module);

}  // namespace dhilgt
