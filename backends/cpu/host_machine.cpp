#include <sched.h>

#include <algorithm>
#include <fstream>
#include <sstream>
#include <thread>
#if defined(__x86_64__)
#include <cpuid.h>
#endif

#include "backends/cpu/features.h"

/// What the operating system says of the machine.
namespace lathe {
namespace {

std::string read_line(const std::string& path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  return line;
}

/// "32K", "1024K", "32M".
std::int64_t parse_size(const std::string& text) {
  if (text.empty()) return 0;
  const std::int64_t number = std::atoll(text.c_str());
  return text.back() == 'K' ? number << 10 : text.back() == 'M' ? number << 20 : number;
}

std::vector<CacheLevel> caches_from_sysfs() {
  std::vector<std::pair<int, CacheLevel>> found;
  for (int index = 0; index < 8; ++index) {
    const std::string folder = "/sys/devices/system/cpu/cpu0/cache/index" + std::to_string(index) + "/";
    const std::string type = read_line(folder + "type");
    if (type != "Data" && type != "Unified") continue;
    const std::string sharers = read_line(folder + "shared_cpu_list");
    CacheLevel level{
        parse_size(read_line(folder + "size")), std::atoi(read_line(folder + "ways_of_associativity").c_str()),
        std::atoi(read_line(folder + "coherency_line_size").c_str()), sharers.find_first_of(",-") != std::string::npos};
    if (level.bytes > 0) found.emplace_back(std::atoi(read_line(folder + "level").c_str()), level);
  }
  std::sort(found.begin(), found.end(), [](auto& a, auto& b) { return a.first < b.first; });
  std::vector<CacheLevel> result;
  result.reserve(found.size());
  for (auto& [number, level] : found) result.push_back(level);
  return result;
}

std::vector<CacheLevel> caches_from_cpuid() {
  std::vector<CacheLevel> result;
#if defined(__x86_64__)
  // Intel's leaf 4 and AMD's 0x8000001d have one layout.
  for (unsigned leaf : {4u, 0x8000001du}) {
    for (unsigned index = 0; result.size() < 4; ++index) {
      unsigned a, b, c, d;
      if (!__get_cpuid_count(leaf, index, &a, &b, &c, &d) || (a & 31) == 0) break;
      if ((a & 31) == 2) continue;
      const std::int64_t ways = (b >> 22) + 1, partitions = ((b >> 12) & 1023) + 1, line = (b & 4095) + 1,
                         sets = c + 1LL;
      result.push_back(
          {ways * partitions * line * sets, static_cast<int>(ways), static_cast<int>(line), ((a >> 14) & 4095) > 1});
    }
    if (!result.empty()) break;
  }
#endif
  return result;
}

/// The quota of the control group, in cores rounded up; 0 when there is none.
int quota_cores() {
  std::vector<std::string> groups = {""};
  std::ifstream file("/proc/self/cgroup");
  for (std::string line; std::getline(file, line);) {
    const size_t path = line.find(':', line.find(':') + 1);
    const bool counts = line.starts_with("0::") || line.find(":cpu") != std::string::npos;
    if (path != std::string::npos && counts) groups.push_back(line.substr(path + 1));
  }
  int cores = 0;
  auto apply = [&](double quota, double period) {
    if (quota <= 0 || period <= 0) return;
    const int allowed = std::max(1, static_cast<int>((quota + period - 1) / period));
    cores = cores == 0 ? allowed : std::min(cores, allowed);
  };
  for (const std::string& group : groups) {
    std::stringstream unified(read_line("/sys/fs/cgroup" + group + "/cpu.max"));
    double quota = 0, period = 0;
    if (unified >> quota >> period) apply(quota, period);
    const std::string folder = "/sys/fs/cgroup/cpu" + group + "/";
    apply(std::atof(read_line(folder + "cpu.cfs_quota_us").c_str()),
          std::atof(read_line(folder + "cpu.cfs_period_us").c_str()));
  }
  return cores;
}

}  // namespace

std::vector<CacheLevel> host_caches() {
  std::vector<CacheLevel> caches = caches_from_sysfs();
  if (caches.empty()) caches = caches_from_cpuid();
  // What every core of the last ten years has at least.
  if (caches.empty()) caches = {{32 << 10, 8, 64, false}, {256 << 10, 8, 64, false}};
  return caches;
}

int usable_cores() {
  int cores = static_cast<int>(std::max(1u, std::thread::hardware_concurrency()));
  cpu_set_t mask;
  if (sched_getaffinity(0, sizeof mask, &mask) == 0) cores = std::max(1, CPU_COUNT(&mask));
  const int quota = quota_cores();
  return quota > 0 ? std::min(cores, quota) : cores;
}

}  // namespace lathe
