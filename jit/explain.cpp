#include "jit/explain.h"

#include <fmt/format.h>

#include <algorithm>
#include <span>

#include "backends/cpu/cpu.h"
#include "backends/stages.h"
#include "ir/text/print.h"
#include "schedule/auto/auto_schedule.h"
#include "schedule/record.h"

namespace lathe {
namespace {

std::vector<std::string> split_lines(const std::string& text) {
  std::vector<std::string> lines;
  for (size_t start = 0; start < text.size();) {
    const size_t end = std::min(text.find('\n', start), text.size());
    lines.push_back(text.substr(start, end - start));
    start = end + 1;
  }
  return lines;
}

bool same_text(const std::string& a, const std::string& b) {
  const size_t i = std::min(a.find_first_not_of(' '), a.size()), j = std::min(b.find_first_not_of(' '), b.size());
  return std::string_view(a).substr(i) == std::string_view(b).substr(j);
}

DiffLine matched(const std::string& before, const std::string& after) {
  return {before == after ? DiffLine::Kind::same : DiffLine::Kind::indented, before, after};
}

/// Lengths of the longest common subsequences of the suffixes of a and b, row by row.
class SuffixLengths {
 public:
  SuffixLengths(std::span<const std::string> a, std::span<const std::string> b)
      : width_(b.size() + 1), lengths_((a.size() + 1) * width_) {
    for (size_t i = a.size(); i-- > 0;) {
      for (size_t j = b.size(); j-- > 0;) {
        at(i, j) = same_text(a[i], b[j]) ? at(i + 1, j + 1) + 1 : std::max(at(i + 1, j), at(i, j + 1));
      }
    }
  }
  std::uint32_t& at(size_t i, size_t j) { return lengths_[i * width_ + j]; }

 private:
  size_t width_;
  std::vector<std::uint32_t> lengths_;
};

/// Lines gone and lines come at one place: as many pairs as there are of both, then the rest.
void flush(std::vector<std::string>& gone, std::vector<std::string>& come, std::vector<DiffLine>& out) {
  const size_t pairs = std::min(gone.size(), come.size());
  for (size_t i = 0; i < pairs; ++i) out.push_back({DiffLine::Kind::changed, gone[i], come[i]});
  for (size_t i = pairs; i < gone.size(); ++i) out.push_back({DiffLine::Kind::removed, gone[i], ""});
  for (size_t i = pairs; i < come.size(); ++i) out.push_back({DiffLine::Kind::added, "", come[i]});
  gone.clear();
  come.clear();
}

}  // namespace

std::vector<ExplainStep> explain_steps(const Func& func, const Device& device) {
  register_cpu();
  std::vector<ExplainStep> steps{{func->stage == Stage::begin ? "traced" : "given", "trace", func, {}}};
  Func current = func;
  if (func->stage == Stage::begin) {
    ScheduleLog log;
    current = auto_schedule(func, device, &log);
    Schedule schedule(func);
    for (size_t i = 0; i < log.record.size(); ++i) {
      replay(schedule, {&log.record[i], 1});
      steps.push_back({log.record[i], "schedule", schedule.func(), {}});
    }
    for (size_t k = 0; k < log.decisions.size(); ++k)
      steps[std::min(log.places[k] + 1, log.record.size())].decisions.push_back(log.decisions[k]);
  }
  LowerOptions options;
  options.after_pass = [&](Stage stage, const std::string& pass, const Func& after, bool changed) {
    if (changed) steps.push_back({pass, std::string(to_string(stage)), after, {}});
  };
  lower(current, device, find_pipeline(device.family), options);
  return steps;
}

std::vector<DiffLine> diff_lines(const std::string& before, const std::string& after) {
  const std::vector<std::string> a = split_lines(before), b = split_lines(after);
  size_t head = 0, tail = 0;
  while (head < std::min(a.size(), b.size()) && a[head] == b[head]) ++head;
  while (tail < std::min(a.size(), b.size()) - head && a[a.size() - 1 - tail] == b[b.size() - 1 - tail]) ++tail;

  std::vector<DiffLine> out;
  out.reserve(std::max(a.size(), b.size()));
  for (size_t i = 0; i < head; ++i) out.push_back({DiffLine::Kind::same, a[i], a[i]});
  const std::span<const std::string> x(a.data() + head, a.size() - head - tail);
  const std::span<const std::string> y(b.data() + head, b.size() - head - tail);
  std::vector<std::string> gone, come;
  // The table is quadratic: past this size the middle is shown as replaced whole.
  if (x.size() * y.size() > size_t{16} << 20) {
    gone.assign(x.begin(), x.end());
    come.assign(y.begin(), y.end());
  } else {
    SuffixLengths lengths(x, y);
    size_t i = 0, j = 0;
    while (i < x.size() || j < y.size()) {
      if (i < x.size() && j < y.size() && same_text(x[i], y[j])) {
        flush(gone, come, out);
        out.push_back(matched(x[i], y[j]));
        ++i, ++j;
      } else if (j == y.size() || (i < x.size() && lengths.at(i + 1, j) >= lengths.at(i, j + 1))) {
        gone.push_back(x[i++]);
      } else {
        come.push_back(y[j++]);
      }
    }
  }
  flush(gone, come, out);
  for (size_t i = a.size() - tail; i < a.size(); ++i) out.push_back({DiffLine::Kind::same, a[i], a[i]});
  return out;
}

std::string explain_text(const std::vector<ExplainStep>& steps) {
  std::string text;
  for (size_t i = 0; i < steps.size(); ++i) {
    text += fmt::format("## {} {}: {}\n", i, steps[i].origin, steps[i].title);
    for (const std::string& decision : steps[i].decisions) text += "# " + decision + "\n";
    if (i == 0) {
      text += print(steps[i].func);
      continue;
    }
    for (const DiffLine& line : diff_lines(print(steps[i - 1].func), print(steps[i].func))) {
      if (line.kind == DiffLine::Kind::same || line.kind == DiffLine::Kind::indented) continue;
      if (line.kind != DiffLine::Kind::added) text += "- " + line.before + "\n";
      if (line.kind != DiffLine::Kind::removed) text += "+ " + line.after + "\n";
    }
  }
  return text;
}

}  // namespace lathe
