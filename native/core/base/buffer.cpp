#include "base/buffer.h"

#if defined(__GLIBC__)
#include <malloc.h>
#endif

namespace dhilgt {
namespace {

constexpr std::size_t kLargeBlock = std::size_t{1} << 18;

#if defined(__linux__)
bool is_large(std::size_t bytes) { return bytes >= kLargeBlock; }

void* map(std::size_t bytes) {
  void* block = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (block == MAP_FAILED) throw std::bad_alloc();
  return block;
}

void unmap(void* block, std::size_t bytes) { munmap(block, bytes); }

void* remap(void* block, std::size_t old_bytes, std::size_t bytes) {
#if defined(__SANITIZE_THREAD__)  // does not intercept mremap: reuse of the old address looks like a race
  void* moved = map(bytes);
  std::memcpy(moved, block, old_bytes < bytes ? old_bytes : bytes);
  unmap(block, old_bytes);
#else
  void* moved = mremap(block, old_bytes, bytes, MREMAP_MAYMOVE);
  if (moved == MAP_FAILED) throw std::bad_alloc();
#endif
  return moved;
}
#else
bool is_large(std::size_t) { return false; }
void* map(std::size_t) { throw std::bad_alloc(); }
void* remap(void*, std::size_t, std::size_t) { throw std::bad_alloc(); }
void unmap(void*, std::size_t) {}
#endif

}  // namespace

void return_free_memory() {
#if defined(__GLIBC__)
  malloc_trim(0);
#endif
}

void* resize_block(void* block, std::size_t old_bytes, std::size_t bytes) {
  if (bytes == 0) {
    if (is_large(old_bytes)) unmap(block, old_bytes);
    else std::free(block);
    return nullptr;
  }
  if (is_large(old_bytes) && is_large(bytes)) return remap(block, old_bytes, bytes);
  if (is_large(old_bytes) != is_large(bytes)) {  // from one kind of block to the other: copy
    void* moved = is_large(bytes) ? map(bytes) : std::malloc(bytes);
    if (moved == nullptr) throw std::bad_alloc();
    if (old_bytes > 0) std::memcpy(moved, block, old_bytes < bytes ? old_bytes : bytes);
    resize_block(block, old_bytes, 0);
    return moved;
  }
  void* moved = std::realloc(block, bytes);
  if (moved == nullptr) throw std::bad_alloc();
  return moved;
}

}  // namespace dhilgt
