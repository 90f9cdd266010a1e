// A minimal test framework.
#pragma once

#include <cstdio>
#include <cstdlib>
#include <exception>
#include <string>

namespace check {

inline std::string context;  // seed or parameters of the current case, printed with a failure

[[noreturn]] inline void fail(const char* file, int line, const std::string& what) {
  std::fprintf(stderr, "%s:%d: %s%s%s\n", file, line, what.c_str(), context.empty() ? "" : "\n  with ",
               context.c_str());
  std::exit(1);
}

template <class Function>
void run(const char* name, Function&& function) {
  context.clear();
  try {
    function();
  } catch (const std::exception& error) {
    fail(name, 0, std::string("unexpected exception: ") + error.what());
  }
  std::printf("ok  %s\n", name);
}

}  // namespace check

#define CHECK(condition) \
  do { \
    if (!(condition)) check::fail(__FILE__, __LINE__, "check failed: " #condition); \
  } while (false)

#define CHECK_THROWS(Type, ...) \
  do { \
    bool thrown = false; \
    try { \
      __VA_ARGS__; \
    } catch (const Type&) { \
      thrown = true; \
    } \
    if (!thrown) check::fail(__FILE__, __LINE__, "no " #Type " from " #__VA_ARGS__); \
  } while (false)
