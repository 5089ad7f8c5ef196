// Threads that share a machine with other programs, and whose cores may share no cache.
//
// Work is cut into chunks. Every thread has a share of neighbouring chunks, and takes from the others' shares when its
// own is done: a thread that the system stops delays the chunk it holds and nothing else. Between cores with different
// last-level caches a cache line takes some 160 ns (27 ns within one cache), and virtual machines move their cores from
// one to the other. A job therefore passes few lines: one says what it is, one counts what helpers did, and a share's
// line is passed only when another thread takes from it. Waiting threads spin for some microseconds, because the next
// work usually comes at once, and then sleep.
#pragma once

#include <pthread.h>
#include <sched.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdint>
#include <system_error>
#include <thread>

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
    threads = std::clamp<int64_t>(threads, 1, kMostThreads);
    if (threads_.exchange(threads) != threads) threads_.notify_all();
  }
  int64_t threads() const { return threads_; }

  // Calls work(chunk, is_first) for every chunk below `chunks`, and returns when all calls have; `is_first` in each
  // thread's first call. A call from a second thread, or from within `work`, computes alone.
  template <typename Work>
  void run(int64_t chunks, const Work& work) {
    if (chunks < 2 || chunks > kMostChunks || threads_ < 2 || running_.test_and_set(std::memory_order_acquire)) {
      for (int64_t chunk = 0; chunk < chunks; ++chunk) work(chunk, chunk == 0);
      return;
    }
    start();
    job_.number.store(kExchanged, std::memory_order_relaxed);
    std::atomic_thread_fence(std::memory_order_release);
    job_.call.store(
        [](const void* job, int64_t chunk, bool is_first) { (*static_cast<const Work*>(job))(chunk, is_first); },
        std::memory_order_relaxed);
    job_.work.store(&work, std::memory_order_relaxed);
    job_.chunks.store(static_cast<uint32_t>(chunks), std::memory_order_relaxed);
    job_.shares.store(static_cast<uint32_t>(std::min<int64_t>(threads_, chunks)), std::memory_order_relaxed);
    job_.number.store(++number_, std::memory_order_seq_cst);
    if (sleeping_.load(std::memory_order_seq_cst) > 0) job_.number.notify_all();
    wanted_ += chunks;
    take(0, number_, [this](int64_t count) { wanted_ -= count; });
    for (int spins = 0; done_.load(std::memory_order_acquire) != wanted_; ++spins) {
      pause_briefly();
      if (spins > kSpins) sched_yield();  // the thread that holds a chunk may need this core
    }
    running_.clear(std::memory_order_release);
  }

 private:
  static constexpr int64_t kMostThreads = 256;
  static constexpr int kSpins = 2000;  // some 50 microseconds
  static constexpr int kChunkBits = 16;
  static constexpr int64_t kMostChunks = (1 << kChunkBits) - 1;
  static constexpr std::size_t kApart = 128;  // bytes: lines are fetched in pairs

  static constexpr uint64_t kExchanged = 0;  // the number of a job while the next one is being written

  struct alignas(kApart) Job {
    std::atomic<uint64_t> number = 0;
    std::atomic<void (*)(const void*, int64_t, bool)> call = nullptr;
    std::atomic<const void*> work = nullptr;
    std::atomic<uint32_t> chunks = 0, shares = 0;
  };
  // The number of the last job in which a chunk of this share was taken, and in the lower bits the next chunk.
  struct alignas(kApart) Share {
    std::atomic<uint64_t> ticket = 0;
  };

  Job job_;
  std::array<Share, kMostThreads> shares_;
  alignas(kApart) std::atomic<int64_t> done_ = 0;  // chunks that helpers finished, in all jobs
  alignas(kApart) std::atomic<int64_t> sleeping_ = 0;
  alignas(kApart) std::atomic_flag running_ = ATOMIC_FLAG_INIT;
  std::atomic<int64_t> threads_ = 1;
  uint64_t number_ = 0;  // of the last job
  int64_t wanted_ = 0;   // what `done_` is at its end
  int64_t started_ = 0;
  bool is_watched_ = false;

  Pool() = default;

  // The threads that are missing, or as many as the system allows. A process that was forked has none of its parent's.
  void start() {
    if (!is_watched_) {
      pthread_atfork(nullptr, nullptr, [] {
        Pool& pool = shared();
        pool.started_ = pool.wanted_ = 0;
        pool.done_ = pool.sleeping_ = 0;
        pool.running_.clear();
      });
      is_watched_ = true;
    }
    try {
      for (; started_ < threads_ - 1; ++started_) std::thread([this, index = started_ + 1] { help(index); }).detach();
    } catch (const std::system_error&) {  // the caller computes what nobody takes
    }
  }

  // Computes chunks of a job until none is left, its own share's first; counted(n) after n of a share. Nothing, once
  // the job is done: its shares' tickets say so, whatever is read of the next one meanwhile.
  template <typename Counted>
  void take(int64_t index, uint64_t number, const Counted& counted) {
    const auto call = job_.call.load(std::memory_order_relaxed);
    const void* const work = job_.work.load(std::memory_order_relaxed);
    const int64_t chunks = job_.chunks.load(std::memory_order_relaxed);
    const int64_t shares = job_.shares.load(std::memory_order_relaxed);
    std::atomic_thread_fence(std::memory_order_acquire);
    if (job_.number.load(std::memory_order_relaxed) != number) return;  // what was read may be the next job's
    bool is_first = true;
    for (int64_t other = 0; other < shares; ++other) {
      const int64_t share = (index + other) % shares;
      int64_t count = 0;
      for (int64_t chunk; (chunk = next(share, number, share * chunks / shares, (share + 1) * chunks / shares)) >= 0;
           ++count, is_first = false)
        call(work, chunk, is_first);
      if (count > 0) counted(count);
    }
  }

  // Takes the next chunk of a share from `begin` to `end`; -1 if none is left.
  int64_t next(int64_t share, uint64_t number, int64_t begin, int64_t end) {
    std::atomic<uint64_t>& ticket = shares_[share].ticket;
    uint64_t seen = ticket.load(std::memory_order_acquire);
    while (true) {
      const uint64_t of = seen >> kChunkBits;
      const int64_t chunk = of == number ? static_cast<int64_t>(seen & kMostChunks) : begin;
      if (of > number || chunk >= end) return -1;
      if (ticket.compare_exchange_weak(seen, number << kChunkBits | static_cast<uint64_t>(chunk + 1),
                                       std::memory_order_acq_rel, std::memory_order_acquire))
        return chunk;
    }
  }

  void help(int64_t index) {
    uint64_t seen = 0;  // the number of the last job
    while (true) {
      for (int64_t threads = threads_; index >= threads; threads = threads_) threads_.wait(threads);
      uint64_t number = job_.number.load(std::memory_order_acquire);
      for (int spins = 0; spins < kSpins && (number == seen || number == kExchanged); ++spins) {
        pause_briefly();
        number = job_.number.load(std::memory_order_acquire);
      }
      if (number == seen) {
        ++sleeping_;
        while ((number = job_.number.load(std::memory_order_seq_cst)) == seen)
          job_.number.wait(number, std::memory_order_acquire);
        --sleeping_;
      }
      if (number == kExchanged) continue;
      seen = number;
      take(index, number, [this](int64_t count) { done_.fetch_add(count, std::memory_order_release); });
    }
  }
};

constexpr int64_t kTasks = 6;  // of a thread: one that is slow or stopped for a while leaves the rest to the others

// Calls work(begin, end) for parts of [0, count), some for each thread, after prepare() once in each thread.
template <typename Prepare, typename Work>
void in_parts(int64_t count, int64_t least, const Prepare& prepare, const Work& work) {
  Pool& pool = Pool::shared();
  const int64_t tasks = kTasks * pool.threads(), each = std::max(least, (count + tasks - 1) / tasks);
  const int64_t parts = (count + each - 1) / each;
  pool.run(parts, [&](int64_t part, bool is_first) {
    if (is_first) prepare();
    work(part * each, std::min(count, (part + 1) * each));
  });
}

template <typename Work>
void in_parts(int64_t count, int64_t least, const Work& work) {
  in_parts(count, least, [] {}, work);
}

}  // namespace specextend
