// Every item is visited exactly once, and an exception or a stop reaches the caller.
#include <vector>

#include "base/parallel.h"
#include "check.h"
#include "graphs.h"

namespace dhilgt {
namespace {

void every_item_is_visited_once() {
  Control control;
  for (const unsigned threads : {1u, 2u, 3u, 7u}) {
    for (const std::size_t count : {0u, 1u, 5u, 64u, 1000u}) {
      for (const std::size_t chunk : {0u, 1u, 7u, 2000u}) {
        std::vector<std::atomic<int>> visits(count);
        parallel_for(threads, count, chunk, control, [&](unsigned worker, std::size_t begin, std::size_t end) {
          CHECK(worker < threads && begin < end && end <= count);
          for (std::size_t i = begin; i < end; ++i) ++visits[i];
        });
        for (const auto& visit : visits) CHECK(visit == 1);
      }
    }
  }
}

void an_exception_reaches_the_caller() {
  Control control;
  for (const unsigned threads : {1u, 2u, 7u}) {
    std::atomic<std::size_t> visited{0};
    try {
      parallel_for(threads, 100000, 1, control, [&](unsigned, std::size_t i, std::size_t) {
        ++visited;
        if (i == 40) throw std::domain_error("at 40");
      });
      CHECK(false);
    } catch (const std::domain_error& error) {
      CHECK(std::string(error.what()) == "at 40");
    }
    // The other workers stop early; some have taken an item that they do not visit.
    CHECK(visited >= (threads == 1 ? 41u : 1u) && visited < 100000);
  }
}

void a_stop_flag_ends_the_work() {
  for (const unsigned threads : {1u, 3u}) {
    Control control;
    std::atomic<int> visited{0};
    CHECK_THROWS(Stopped, parallel_for(threads, 1000000, 1, control, [&](unsigned, std::size_t, std::size_t) {
                   if (++visited == 10) control.stop.store(true);
                 }));
    CHECK(visited < 100);
  }
}

void a_build_can_be_stopped_at_any_time() {
  const test::Graph graph = test::random_graph(3000, 12000, true, 1);
  for (const Algorithm algorithm : test::kAlgorithms) {
    for (const int after : {0, 1, 5, 20}) {
      Control control;
      const test::Ranked ranked = test::rank(graph, control);
      const std::uint64_t before = control.used_bytes();
      std::thread stopper([&] {
        std::this_thread::sleep_for(std::chrono::milliseconds(after));
        control.stop.store(true);
      });
      try {
        const Labels labels = build_labels(ranked.graph, {algorithm, 2, kPlanHubs}, control);
      } catch (const Stopped&) {
      }
      stopper.join();
      CHECK(control.used_bytes() == before);
    }
  }
}

}  // namespace
}  // namespace dhilgt

int main() {
  using namespace dhilgt;
  check::run("every item is visited once", every_item_is_visited_once);
  check::run("an exception reaches the caller", an_exception_reaches_the_caller);
  check::run("a stop flag ends the work", a_stop_flag_ends_the_work);
  check::run("a build can be stopped at any time", a_build_can_be_stopped_at_any_time);
}
