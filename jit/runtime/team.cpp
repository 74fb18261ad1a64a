#include "jit/runtime/team.h"

#include <pthread.h>
#include <tbb/task_arena.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <thread>

#include "jit/runtime/placement.h"
#include "jit/runtime/threads.h"

#ifdef __SANITIZE_THREAD__
#include <sanitizer/tsan_interface.h>
#endif

namespace lathe {
namespace {

using Clock = std::chrono::steady_clock;

/// Some times what it takes to wake a thread: who calls kernels one after another never waits for one.
constexpr std::chrono::microseconds standing_by{100};
constexpr int most_seats = 255;

/// What a caller asks of one other thread. It lies on the caller's stack, and is the caller's again once it is done or
/// taken back.
struct Offer {
  void (*work)(void*, int);
  void* data;
  int worker;
  bool done;  ///< atomic: set by whoever took the offer, and touches it no more

  bool is_done() { return std::atomic_ref(done).load(std::memory_order_acquire); }
  void end() { std::atomic_ref(done).store(true, std::memory_order_release); }
};

Offer nothing[2];
/// What a seat holds where it holds no offer: nobody is there, a worker waits, a worker has taken an offer.
Offer *const empty = nullptr, *const waiting = &nothing[0], *const busy = &nothing[1];

/// Where a worker stands by, and is offered work.
struct alignas(64) Seat {
  std::atomic<Offer*> state{empty};
  std::atomic<bool> called{false};  ///< a worker is on its way here

  bool change(Offer* from, Offer* to) {
    return state.load(std::memory_order_relaxed) == from &&
           state.compare_exchange_strong(from, to, std::memory_order_acq_rel, std::memory_order_relaxed);
  }
};

/// Never destroyed: workers outlive statics.
struct Team {
  std::array<Seat, most_seats> seats;
  tbb::task_arena arena{std::max(usable_threads() - 1, 1), 0};

  Team() {
    // A forked process has none of the workers, and oneTBB, which believes it has, cannot be asked for any.
    pthread_atfork(nullptr, nullptr, [] {
      for (Seat& seat : get().seats) {
        seat.state.store(empty, std::memory_order_relaxed);
        seat.called.store(true, std::memory_order_relaxed);
      }
    });
  }
  static Team& get() {
    static auto* team = new Team;
    return *team;
  }
};

// The thread sanitizer does not see how oneTBB, which is built without it, hands a task over.
#ifdef __SANITIZE_THREAD__
char calls;
void before_call() {
  __tsan_release(&calls);
}
void after_call() {
  __tsan_acquire(&calls);
}
#else
void before_call() {}
void after_call() {}
#endif

/// Takes what is offered at the seat until nothing has been for a while. Several workers may wait at one seat, as one
/// that was called for an offer taken back meanwhile: the first to leave empties it, which sends the others away.
void stand_by(Seat& seat) {
  join_workers();
  seat.change(empty, waiting);
  Clock::time_point leave = Clock::now() + standing_by;
  for (int round = 1;; ++round) {
    Offer* offer = seat.state.load(std::memory_order_acquire);
    if (offer == empty) return;
    if (offer != waiting && offer != busy && seat.change(offer, busy)) {
      offer->work(offer->data, offer->worker);
      offer->end();
      seat.state.store(waiting, std::memory_order_release);
      leave = Clock::now() + standing_by;
    } else if (round % 16 == 0 && Clock::now() > leave) {
      if (offer == busy || seat.change(waiting, empty)) return;
    }
    relax();
  }
}

void call_worker(Team& team, Seat& seat) {
  if (seat.called.exchange(true, std::memory_order_acq_rel)) return;
  before_call();
  team.arena.enqueue([&seat] {
    after_call();
    seat.called.store(false, std::memory_order_release);
    stand_by(seat);
  });
}

void wait_for(Offer& offer) {
  // Who has taken it may have lost its CPU meanwhile, to this thread even.
  constexpr int patience = 4096;
  for (int round = 0; !offer.is_done(); ++round) {
    relax();
    if (round >= patience) std::this_thread::yield();
  }
}

}  // namespace

void run_with_team(int count, void (*work)(void*, int), void* data) {
  Team& team = Team::get();
  const int wanted = std::min(count - 1, most_seats);
  const int seats = std::min(std::max(usable_threads(), count) - 1, most_seats);
  struct Given {
    Offer offer;
    Seat* seat;
    Offer* before;
  };
  std::array<Given, most_seats> given;
  int offers = 0;
  for (Offer* state : {waiting, empty}) {
    for (int k = 0; k < seats && offers < wanted; ++k) {
      Given& next = given[offers];
      next.offer = {.work = work, .data = data, .worker = offers + 1, .done = false};
      if (!team.seats[k].change(state, &next.offer)) continue;
      next.seat = &team.seats[k];
      next.before = state;
      ++offers;
      if (state == empty) call_worker(team, team.seats[k]);
    }
  }
  work(data, 0);
  for (int k = 0; k < offers; ++k) {
    Given& mine = given[k];
    if (!mine.seat->change(&mine.offer, mine.before)) wait_for(mine.offer);
  }
}

}  // namespace lathe
