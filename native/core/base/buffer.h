// Arrays of trivially copyable values whose memory is charged to a Control before it is allocated.
#pragma once

#if defined(__linux__)
#include <sys/mman.h>
#endif

#include <cstdlib>
#include <cstring>
#include <new>
#include <span>
#include <type_traits>
#include <utility>

#include "base/control.h"

namespace dhilgt {

// Grows, shrinks or frees (bytes = 0) a block. Large blocks are mapped from the system directly, so
// that freeing them lowers the memory of the process at once: an allocator could keep them.
void* resize_block(void* block, std::size_t old_bytes, std::size_t bytes);

// Checks every index in test builds; does nothing in other builds.
inline void check_index([[maybe_unused]] std::size_t index, [[maybe_unused]] std::size_t size) {
#if defined(_GLIBCXX_ASSERTIONS)
  if (index >= size) std::abort();
#endif
}

// Returns to the system what the allocator kept of freed small blocks.
void return_free_memory();

template <class T>
class Buffer {
  static_assert(std::is_trivially_copyable_v<T>);

 public:
  Buffer() = default;
  explicit Buffer(Control* control) : control_(control) {}
  Buffer(Control* control, std::size_t size) : control_(control) { resize(size); }
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;
  Buffer(Buffer&& other) noexcept { swap(other); }
  Buffer& operator=(Buffer&& other) noexcept {
    swap(other);
    return *this;
  }
  ~Buffer() { clear(); }

  T* data() { return data_; }
  const T* data() const { return data_; }
  std::size_t size() const { return size_; }
  bool empty() const { return size_ == 0; }
  std::size_t capacity() const { return capacity_; }
  std::size_t capacity_bytes() const { return capacity_ * sizeof(T); }
  T& operator[](std::size_t i) {
    check_index(i, size_);
    return data_[i];
  }
  const T& operator[](std::size_t i) const {
    check_index(i, size_);
    return data_[i];
  }
  T* begin() { return data_; }
  T* end() { return data_ + size_; }
  const T* begin() const { return data_; }
  const T* end() const { return data_ + size_; }
  std::span<const T> view() const { return {data_, size_}; }

  // New elements are left uninitialised.
  void resize(std::size_t size) {
    if (size > capacity_) set_capacity(size);
    size_ = size;
  }
  void assign(std::size_t size, const T& value) {
    resize(size);
    for (std::size_t i = 0; i < size; ++i) data_[i] = value;
  }
  void push_back(const T& value) {
    grow_for(1);
    data_[size_++] = value;
  }
  void append(const T* values, std::size_t count) {
    if (count == 0) return;
    grow_for(count);
    std::memcpy(data_ + size_, values, count * sizeof(T));
    size_ += count;
  }
  // Makes room for `count` more elements.
  void reserve_more(std::size_t count) { grow_for(count); }
  void shrink_to_fit() {
    if (size_ < capacity_) set_capacity(size_);
  }
  void clear() {
    resize_block(data_, capacity_bytes(), 0);
    if (control_ != nullptr) control_->release(capacity_bytes());
    data_ = nullptr;
    size_ = capacity_ = 0;
  }
  // For a result that outlives the call that built it: stops charging the Control.
  void detach() {
    if (control_ != nullptr) control_->release(capacity_bytes());
    control_ = nullptr;
  }
  void swap(Buffer& other) noexcept {
    std::swap(data_, other.data_);
    std::swap(size_, other.size_);
    std::swap(capacity_, other.capacity_);
    std::swap(control_, other.control_);
  }

 private:
  void grow_for(std::size_t count) {
    if (size_ + count > capacity_) {
      const std::size_t grown = capacity_ + capacity_ / 2 + 16;
      set_capacity(size_ + count > grown ? size_ + count : grown);
    }
  }
  void set_capacity(std::size_t capacity) {
    if (capacity > SIZE_MAX / sizeof(T)) throw std::bad_alloc();
    if (capacity == 0) return clear();
    const bool grows = capacity > capacity_;
    const std::size_t change = (grows ? capacity - capacity_ : capacity_ - capacity) * sizeof(T);
    if (grows && control_ != nullptr) control_->charge(change);
    void* moved = nullptr;
    try {
      moved = resize_block(data_, capacity_bytes(), capacity * sizeof(T));
    } catch (...) {
      if (grows && control_ != nullptr) control_->release(change);
      throw;
    }
    if (!grows && control_ != nullptr) control_->release(change);
    data_ = static_cast<T*>(moved);
    capacity_ = capacity;
  }

  T* data_ = nullptr;
  std::size_t size_ = 0;
  std::size_t capacity_ = 0;
  Control* control_ = nullptr;
};

// Charges memory that is allocated elsewhere, for the lifetime of this object.
class Charge {
 public:
  Charge(Control& control, std::uint64_t bytes) : control_(control), bytes_(bytes) {
    control_.charge(bytes_);
  }
  Charge(const Charge&) = delete;
  Charge& operator=(const Charge&) = delete;
  ~Charge() { control_.release(bytes_); }

 private:
  Control& control_;
  const std::uint64_t bytes_;
};

inline constexpr std::size_t kHugePage = std::size_t{2} << 20;

inline void advise_huge_pages([[maybe_unused]] void* memory, [[maybe_unused]] std::size_t bytes) {
#if defined(__linux__)
  madvise(memory, bytes, MADV_HUGEPAGE);  // only advice: if refused, reads are slower
#endif
}

// An uninitialised array of fixed size, aligned to cache lines and charged like a Buffer.
template <class T>
class AlignedArray {
  static_assert(std::is_trivially_copyable_v<T>);

 public:
  AlignedArray(Control& control, std::size_t size) : control_(control), bytes_(size * sizeof(T)) {
    control_.charge(bytes_);
    // Large tables are read in random order: huge pages avoid most TLB misses.
    const std::size_t alignment = bytes_ >= kHugePage ? kHugePage : 64;
    const std::size_t padded = (bytes_ + alignment - 1) / alignment * alignment;
    data_ = static_cast<T*>(std::aligned_alloc(alignment, padded == 0 ? alignment : padded));
    if (data_ == nullptr) {
      control_.release(bytes_);
      throw std::bad_alloc();
    }
    if (alignment == kHugePage) advise_huge_pages(static_cast<void*>(data_), padded);
  }
  AlignedArray(const AlignedArray&) = delete;
  AlignedArray& operator=(const AlignedArray&) = delete;
  ~AlignedArray() {
    std::free(data_);
    control_.release(bytes_);
  }
  T* data() { return data_; }
  const T* data() const { return data_; }
  T& operator[](std::size_t i) {
    check_index(i, bytes_ / sizeof(T));
    return data_[i];
  }
  const T& operator[](std::size_t i) const {
    check_index(i, bytes_ / sizeof(T));
    return data_[i];
  }
  void fill_zero() { std::memset(static_cast<void*>(data_), 0, bytes_); }
  void swap(AlignedArray& other) noexcept {  // both must have the same Control
    std::swap(data_, other.data_);
    std::swap(bytes_, other.bytes_);
  }

 private:
  Control& control_;
  std::size_t bytes_;
  T* data_ = nullptr;
};

}  // namespace dhilgt
