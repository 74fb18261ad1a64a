"""How two implementations are compared here: memory policy, clock, interleaved rounds, medians with intervals.

The rules, and why, are in bench/README.md.
"""

import dataclasses
import itertools
import math
import os
import random
import resource
import statistics
import sys
import time

BATCH_SECONDS = 2e-4  # a sample lasts this long at least: calls shorter than that are timed in batches
WARM_SECONDS = 5e-3  # calls shorter than this get two untimed ones before each sample
SETTLE_SECONDS = (
    1e-2  # of untimed calls behind a pause: so long may a scheduler take to spread woken threads over the CPUs
)
HOPELESS = 20, 0.05  # a contender this many times slower than the first, and this slow in seconds, is timed once
DRIFT = 0.02  # change of the FMA loop's rate across a round that drops the round
QUIET = 0.62  # share of the best rate of the caches seen, under which a neighbour is taken to be busy on the same core
PATIENCE = 4  # times its budget that a comparison waits for its neighbours to be quiet
PAUSE = 0.02  # seconds in which the workers of another system stop spinning
WIDTH = 0.01  # half the interval of a ratio, relative, at which sampling may stop

# One page policy for every malloc of the process, Lathe's, NumPy's and each peer's alike: huge pages, and freed memory
# is kept, so that a peer without out= gets warm pages too.
MALLOC = "glibc.malloc.hugetlb=1:glibc.malloc.mmap_max=0:glibc.malloc.trim_threshold=17179869184:glibc.malloc.top_pad=67108864"

# What keeps Lathe and each peer to a set of instructions; Eigen has a plugin of its own for that.
ISAS = {
    "native": {},
    "avx2": {
        "LATHE_CPU_FEATURES": "avx2",
        "ATEN_CPU_CAPABILITY": "avx2",
        "ONEDNN_MAX_CPU_ISA": "AVX2",
        "DNNL_MAX_CPU_ISA": "AVX2",
        "MKL_ENABLE_INSTRUCTIONS": "AVX2",
        "OPENBLAS_CORETYPE": "Haswell",
        "XLA_FLAGS": "--xla_cpu_max_isa=AVX2",
    },
}


def adopt_policy(threads, **variables):
    """Starts this program anew in the environment that all measurements share; returns in the new one."""
    wanted = {
        "GLIBC_TUNABLES": MALLOC,
        "NUMPY_MADVISE_HUGEPAGE": "1",
        "OMP_NUM_THREADS": str(threads),
        "MKL_NUM_THREADS": str(threads),
        "OPENBLAS_NUM_THREADS": str(threads),
        "OPENBLAS_THREAD_TIMEOUT": "22",  # its workers spin for 2^22 ticks; by default 2^26, longer than a pause
        "MKL_THREADING_LAYER": "GNU" if threads > 1 else "SEQUENTIAL",
        **variables,
    }
    if threads == 1:
        os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})  # XLA sizes its pool by this
    if any(os.environ.get(name) != value for name, value in wanted.items()):
        os.execve(sys.executable, [sys.executable, *sys.argv], {**os.environ, **wanted})


def clock(threads):
    """Seconds: of the process's CPU on one thread, so that a busy machine does not pass for slow code; else the wall's."""
    return time.process_time if threads == 1 else time.perf_counter


class PythonTimer:
    """Times calls from Python."""

    def __init__(self, call, threads):
        self.call, self.clock = call, clock(threads)

    def time(self, calls):
        call = self.call
        start = self.clock()
        for _ in itertools.repeat(None, calls):
            call()
        return self.clock() - start


class Neighbours:
    """Whether others on the same host leave this core's caches alone, by a rate that they slow down."""

    def __init__(self, rate):
        self.rate = rate
        self.best = max(rate() for _ in range(50))

    def quiet(self):
        rate = self.rate()
        self.best = max(self.best, rate)
        return rate >= QUIET * self.best

    def wait(self, deadline):
        """Until they are quiet, or the clock on the wall passes the deadline."""
        while not self.quiet() and time.perf_counter() < deadline:
            pass


@dataclasses.dataclass
class Ratio:
    """How much longer a peer takes, over paired rounds: the median and its 95 % interval."""

    median: float
    low: float
    high: float

    @property
    def settled(self):
        return max(self.median - self.low, self.high - self.median) <= WIDTH * self.median


@dataclasses.dataclass
class Comparison:
    seconds: dict  # name: median of a call
    ratios: dict  # peer: Ratio over the first name
    rounds: int
    dropped: int
    rate: float  # median of what the probe gave

    @property
    def best(self):
        """The quickest peer; None without any."""
        return min(self.ratios, key=lambda name: self.ratios[name].median, default=None)

    @property
    def settled(self):
        """Is the ratio to the best peer known well enough?"""
        return self.best is None or self.ratios[self.best].settled


def interval(values):
    """The median and the order statistics that bound it with 95 % confidence, whatever the distribution."""
    ordered, n = sorted(values), len(values)
    reach = 0.98 * math.sqrt(n)  # 1.96 standard deviations of a binomial with p = 1/2
    low, high = max(0, math.floor((n - 1) / 2 - reach)), min(n - 1, math.ceil((n - 1) / 2 + reach))
    return Ratio(statistics.median(ordered), ordered[low], ordered[high])


def compare(timers, budget=2.0, least=7, most=300, probe=None, neighbours=None, pause=0.0):
    """Rounds of one sample each, in an order that chance decides, until the best peer's ratio to the first is known to 1 %.

    `probe` gives the rate of a loop that only the frequency changes: a round across which it drifts is dropped whole, as
    is one behind which `neighbours` are not quiet. `pause` lets the workers of the call before stop spinning; untimed
    calls behind it wake this one's. `budget` is in seconds of the wall that rounds take which are kept, but `least`
    rounds are always made.
    """
    batch, once, first = {}, {}, None
    for name, timer in timers.items():
        timer.time(1)
        seconds = timer.time(1)
        if first and seconds > max(HOPELESS[0] * first, HOPELESS[1]):
            once[name] = seconds
            continue
        seconds = min(seconds, timer.time(1))
        first = first or seconds
        batch[name] = max(1, math.ceil(BATCH_SECONDS / max(seconds, 1e-8)))
    names, rounds, spent = list(batch), [], 0.0
    deadline = time.perf_counter() + PATIENCE * budget
    rates, chance = [probe() if probe else 1.0], random.Random(1)
    while len(rounds) < most:
        sample = {}
        if neighbours:
            neighbours.wait(deadline)
        started = time.perf_counter()
        for name in chance.sample(names, len(names)):
            timer = timers[name]
            if pause:
                time.sleep(pause)
                settled = time.perf_counter() + SETTLE_SECONDS
                while time.perf_counter() < settled:
                    timer.time(1)
            if not rounds or rounds[-1][0][name] < WARM_SECONDS:
                timer.time(2)
            sample[name] = timer.time(batch[name]) / batch[name]
        rates.append(probe() if probe else 1.0)
        steady = abs(rates[-1] - rates[-2]) <= DRIFT * rates[-2] and (not neighbours or neighbours.quiet())
        rounds.append((sample, steady))
        ended = time.perf_counter()
        spent += ended - started if steady else 0.0
        if len(rounds) >= least:
            out_of_time = spent > budget or ended > deadline
            if out_of_time or len(rounds) % 5 == 0:
                result = summarize(names, rounds, rates, once, least)
                if out_of_time or result.settled:
                    return result
    return summarize(names, rounds, rates, once, least)


def summarize(names, rounds, rates, once, least):
    kept = [sample for sample, steady in rounds if steady]
    if len(kept) < min(least, len(rounds) / 2):
        kept = [sample for sample, _ in rounds]  # hardly a moment's peace: the interval will say so
    first = names[0]
    return Comparison(
        {name: statistics.median(sample[name] for sample in kept) for name in names} | once,
        {name: interval([sample[name] / sample[first] for sample in kept]) for name in names[1:]},
        len(kept),
        len(rounds) - len(kept),
        statistics.median(rates),
    )


def faults_per_call(timer, seconds):
    """Page faults of a warm call."""
    calls = max(1, min(20, int(0.02 / max(seconds, 1e-9))))
    timer.time(1)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    timer.time(calls)
    return (resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before) / calls


def geometric_mean(values):
    return math.exp(statistics.fmean(map(math.log, values)))
