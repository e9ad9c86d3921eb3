// A few threads that wait for work, and memory that a thread keeps between calls.
#pragma once

#include <sched.h>
#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <cstdlib>
#include <functional>
#include <mutex>
#include <new>
#include <thread>

namespace gtrxl {

inline void spin_pause() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#endif
}

inline int processors() {
#if defined(__linux__)
  cpu_set_t set;
  if (sched_getaffinity(0, sizeof(set), &set) == 0) return std::max(1, CPU_COUNT(&set));
#endif
  return std::max(1u, std::thread::hardware_concurrency());
}

class Pool {
 public:
  // Never destroyed: its threads may still wait when the process ends. A forked child has none of them and gets its own.
  static Pool& get() {
    static std::mutex making;
    static Pool* pool = nullptr;
    static pid_t owner = 0;
    std::lock_guard<std::mutex> lock(making);
    if (pool == nullptr || owner != getpid()) {
      pool = new Pool(processors() - 1);
      owner = getpid();
    }
    return *pool;
  }

  // Calls work(0), ..., work(tasks - 1), each once, on up to `threads` threads, the caller's among them.
  void parallel_for(int tasks, int threads, const std::function<void(int)>& work) {
    const int extra = std::min({threads - 1, tasks - 1, workers_});
    if (extra <= 0 || !busy_.try_lock()) {
      for (int i = 0; i < tasks; ++i) work(i);
      return;
    }
    start(tasks, extra, work);
    take(tasks, work);
    finish();
    busy_.unlock();
  }

  // How many threads there are, the caller's among them.
  int size() const { return workers_ + 1; }

  // Calls work(0, n), ..., work(n - 1, n) at the same time on n threads, so that they may wait for each other: n is `threads` or
  // as many as there are, and 1 if the others are at work for somebody else.
  void run_team(int threads, const std::function<void(int, int)>& work) {
    const int n = std::min(threads, workers_ + 1);
    if (n <= 1 || !busy_.try_lock()) return work(0, 1);
    const std::function<void(int)> one = [&](int i) { work(i, n); };
    start(n, n - 1, one);
    take(n, one);
    finish();
    busy_.unlock();
  }

 private:
  explicit Pool(int workers) : workers_(workers) {
    for (int i = 0; i < workers; ++i) std::thread([this] { wait_for_work(); }).detach();
  }

  void start(int tasks, int extra, const std::function<void(int)>& work) {
    std::lock_guard<std::mutex> lock(state_);
    work_ = &work;
    tasks_ = tasks;
    next_.store(0, std::memory_order_relaxed);
    wanted_ = extra;
    number_.fetch_add(1, std::memory_order_release);
    wake_.notify_all();
  }

  void take(int tasks, const std::function<void(int)>& work) {
    for (int i; (i = next_.fetch_add(1, std::memory_order_relaxed)) < tasks;) work(i);
  }

  void finish() {
    {
      std::lock_guard<std::mutex> lock(state_);
      wanted_ = 0;  // a thread that wakes up now finds nothing to do
    }
    for (int i = 0; running_.load(std::memory_order_acquire) > 0; ++i) {
      spin_pause();
      if (i > 2000) std::this_thread::yield();  // the one that still runs may wait for this processor
    }
  }

  void wait_for_work() {
    uint64_t seen = 0;
    for (;;) {
      for (int i = 0; i < 4000 && number_.load(std::memory_order_acquire) == seen; ++i) spin_pause();
      const std::function<void(int)>* work;
      int tasks;
      {
        std::unique_lock<std::mutex> lock(state_);
        wake_.wait(lock, [&] { return number_.load(std::memory_order_relaxed) != seen; });
        seen = number_.load(std::memory_order_relaxed);
        if (wanted_ == 0) continue;
        --wanted_;
        running_.fetch_add(1, std::memory_order_relaxed);
        work = work_;
        tasks = tasks_;
      }
      take(tasks, *work);
      running_.fetch_sub(1, std::memory_order_release);
    }
  }

  const int workers_;
  std::mutex busy_, state_;
  std::condition_variable wake_;
  std::atomic<uint64_t> number_{0};
  std::atomic<int> next_{0}, running_{0};
  int wanted_ = 0, tasks_ = 0;
  const std::function<void(int)>* work_ = nullptr;
};

// Where the threads of Pool::run_team wait for each other.
class Barrier {
 public:
  explicit Barrier(int threads) : threads_(threads) {}
  void wait() {
    if (threads_ == 1) return;
    const int round = round_.load(std::memory_order_acquire);
    if (arrived_.fetch_add(1, std::memory_order_acq_rel) + 1 == threads_) {
      arrived_.store(0, std::memory_order_relaxed);
      round_.store(round + 1, std::memory_order_release);
      return;
    }
    for (int i = 0; round_.load(std::memory_order_acquire) == round; ++i) {
      spin_pause();
      if (i > 20000) std::this_thread::yield();
    }
  }

 private:
  const int threads_;
  std::atomic<int> arrived_{0}, round_{0};
};

// Asks for huge pages where the system has them: fewer page faults.
inline void use_huge_pages(float* at, size_t floats) {
#if defined(MADV_HUGEPAGE)
  constexpr uintptr_t PAGE = 4096;
  const uintptr_t from = (reinterpret_cast<uintptr_t>(at) + PAGE - 1) / PAGE * PAGE;
  const uintptr_t to = reinterpret_cast<uintptr_t>(at + floats) / PAGE * PAGE;
  if (to > from + (4UL << 20)) madvise(reinterpret_cast<void*>(from), to - from, MADV_HUGEPAGE);
#endif
}

// Memory for floats that grows and is kept; one for each thread and purpose (`thread_local Workspace`).
class Workspace {
 public:
  ~Workspace() { std::free(floats_); }
  float* get(size_t floats) {
    if (floats > size_) {
      std::free(floats_);
      size_ = 0;
      floats_ = static_cast<float*>(std::aligned_alloc(64, (floats * sizeof(float) + 63) / 64 * 64));
      if (floats_ == nullptr) throw std::bad_alloc();
      size_ = floats;
    }
    return floats_;
  }

 private:
  float* floats_ = nullptr;
  size_t size_ = 0;
};

}  // namespace gtrxl
