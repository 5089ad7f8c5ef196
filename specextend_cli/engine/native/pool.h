// Threads that share a machine with other programs.
//
// Work is cut into chunks that whichever thread is free takes next. A thread that the system stops delays the chunk it
// holds and nothing else: the others finish without it, and it joins again when it runs. Waiting threads spin for some
// microseconds, because the next work usually comes at once, and then sleep.
#pragma once

#include <pthread.h>
#include <sched.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <system_error>
#include <thread>
#include <vector>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace specextend {

inline void pause_briefly() {
#if defined(__x86_64__)
  _mm_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

class Pool {
 public:
  // The process's only pool; it lives as long as the process.
  static Pool& shared() {
    static Pool* const pool = new Pool;
    return *pool;
  }

  // How many threads compute, the caller included.
  void use(int64_t threads) {
    threads = std::max<int64_t>(threads, 1);
    if (threads_.exchange(threads) != threads) threads_.notify_all();
  }
  int64_t threads() const { return threads_; }

  // Calls work(chunk) for every chunk below `chunks`, and returns when all calls have. A call from a second thread, or
  // from within `work`, computes alone.
  template <typename Work>
  void run(int64_t chunks, const Work& work) {
    if (chunks < 2 || threads_ < 2 || running_.test_and_set(std::memory_order_acquire)) {
      for (int64_t chunk = 0; chunk < chunks; ++chunk) work(chunk);
      return;
    }
    start();
    const uint64_t number = next_number_++ << 32;
    ticket_.store(number | kClosed, std::memory_order_relaxed);  // nobody takes chunks while the job is exchanged
    std::atomic_thread_fence(std::memory_order_release);
    call_.store([](const void* job, int64_t chunk) { (*static_cast<const Work*>(job))(chunk); },
                std::memory_order_relaxed);
    job_.store(&work, std::memory_order_relaxed);
    chunks_.store(static_cast<uint32_t>(chunks), std::memory_order_relaxed);
    done_.store(0, std::memory_order_relaxed);
    ticket_.store(number, std::memory_order_seq_cst);
    if (sleeping_.load(std::memory_order_seq_cst) > 0) ticket_.notify_all();
    take();
    for (int spins = 0; done_.load(std::memory_order_acquire) < chunks; ++spins) {
      pause_briefly();
      if (spins > kSpins) sched_yield();  // the thread that holds a chunk may need this core
    }
    running_.clear(std::memory_order_release);
  }

 private:
  static constexpr uint64_t kClosed = 0xffffffff;
  static constexpr int kSpins = 2000;  // some 50 microseconds

  std::atomic_flag running_ = ATOMIC_FLAG_INIT;
  std::atomic<int64_t> threads_ = 1;
  uint64_t next_number_ = 1;
  int64_t started_ = 0;
  bool is_watched_ = false;
  // The job's number in the upper half, the next chunk in the lower one: whoever takes a chunk of an old job fails.
  alignas(64) std::atomic<uint64_t> ticket_ = kClosed;
  alignas(64) std::atomic<int64_t> done_ = 0;
  alignas(64) std::atomic<int64_t> sleeping_ = 0;
  std::atomic<void (*)(const void*, int64_t)> call_ = nullptr;
  std::atomic<const void*> job_ = nullptr;
  std::atomic<uint32_t> chunks_ = 0;

  Pool() = default;

  // The threads that are missing, or as many as the system allows. A process that was forked has none of its parent's.
  void start() {
    if (!is_watched_) {
      pthread_atfork(nullptr, nullptr, [] {
        Pool& pool = shared();
        pool.started_ = 0;
        pool.sleeping_ = 0;
        pool.running_.clear();
      });
      is_watched_ = true;
    }
    try {
      for (; started_ < threads_ - 1; ++started_) std::thread([this, index = started_ + 1] { help(index); }).detach();
    } catch (const std::system_error&) {  // the caller computes what nobody takes
    }
  }

  // Computes chunks until none is left.
  void take() {
    uint64_t ticket = ticket_.load(std::memory_order_acquire);
    while (true) {
      const auto call = call_.load(std::memory_order_relaxed);
      const void* const job = job_.load(std::memory_order_relaxed);
      const uint32_t chunks = chunks_.load(std::memory_order_relaxed);
      std::atomic_thread_fence(std::memory_order_acquire);  // what was read is the ticket's job, if that is unchanged
      if ((ticket & kClosed) >= chunks) return;
      if (!ticket_.compare_exchange_weak(ticket, ticket + 1, std::memory_order_acq_rel, std::memory_order_acquire))
        continue;
      call(job, static_cast<int64_t>(ticket & kClosed));
      done_.fetch_add(1, std::memory_order_release);
      ticket = ticket_.load(std::memory_order_acquire);
    }
  }

  void help(int64_t index) {
    uint64_t seen = 0;  // the number of the last job
    while (true) {
      for (int64_t threads = threads_; index >= threads; threads = threads_) threads_.wait(threads);
      uint64_t ticket = ticket_.load(std::memory_order_acquire);
      for (int spins = 0; spins < kSpins && ticket >> 32 == seen; ++spins) {
        pause_briefly();
        ticket = ticket_.load(std::memory_order_acquire);
      }
      if (ticket >> 32 == seen) {
        ++sleeping_;
        ticket = ticket_.load(std::memory_order_seq_cst);
        while (ticket >> 32 == seen) {
          ticket_.wait(ticket, std::memory_order_acquire);
          ticket = ticket_.load(std::memory_order_acquire);
        }
        --sleeping_;
      }
      if ((ticket & kClosed) == kClosed) continue;  // it is being exchanged
      seen = ticket >> 32;
      take();
    }
  }
};

constexpr int64_t kTasks = 6;  // of a thread: one that is slow or stopped for a while leaves the rest to the others

// Calls work(begin, end) for parts of [0, count), some for each thread.
template <typename Work>
void in_parts(int64_t count, int64_t least, const Work& work) {
  Pool& pool = Pool::shared();
  const int64_t tasks = kTasks * pool.threads(), each = std::max(least, (count + tasks - 1) / tasks);
  const int64_t parts = (count + each - 1) / each;
  pool.run(parts, [&](int64_t part) { work(part * each, std::min(count, (part + 1) * each)); });
}

}  // namespace specextend
