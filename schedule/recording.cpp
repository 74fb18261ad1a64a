#include "schedule/recording.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <unordered_map>

#include "ir/error.h"
#include "ir/visitor.h"
#include "schedule/record.h"

namespace lathe {
namespace {

/// Which argument of a primitive names a buffer.
const std::map<std::string, size_t>& buffer_arguments() {
  static const std::map<std::string, size_t> table = {
      {"annotate_buffer_access", 1}, {"cache_cast", 1}, {"cache_padding", 1}, {"cache_read", 1},
      {"hoist_factor", 1},           {"reindex", 1},    {"shift_operand", 1}, {"storage_align", 1},
      {"transform_layout", 1}};
  return table;
}

/// Digests a program without its extents, constants and names. What a shared expression adds is remembered.
class OperationDigest : public Visitor {
 public:
  using Visitor::visit;
  std::uint64_t state = 0x9e3779b97f4a7c15;

  void add(std::uint64_t part) { state = (state ^ part) * 0x100000001b3 + (state >> 29); }
  void add(const Buffer& buffer) {
    const auto [found, inserted] = numbers_.emplace(buffer.get(), numbers_.size());
    add(found->second);
    if (inserted) add(buffer->rank() << 32 | static_cast<std::uint64_t>(buffer->dtype.code) << 16 | buffer->dtype.bits);
  }

  void visit(const Expr& e) override {
    if (e->kind == ExprKind::IntImm || e->kind == ExprKind::FloatImm) return;
    const auto known = known_.find(e.get());
    if (known != known_.end()) {
      add(known->second);
      return;
    }
    const std::uint64_t outer = std::exchange(state, 0);
    add(static_cast<std::uint64_t>(e->kind) << 32 | static_cast<std::uint64_t>(e->dtype.code) << 16 | e->dtype.bits);
    if (const Unary* unary = e.as<Unary>()) add(static_cast<std::uint64_t>(unary->op));
    if (const Binary* binary = e.as<Binary>()) add(static_cast<std::uint64_t>(binary->op));
    if (const Load* load = e.as<Load>()) add(load->buffer);
    Visitor::visit(e);
    const std::uint64_t own = std::exchange(state, outer);
    known_.emplace(e.get(), own);
    add(own);
  }
  void visit(const Stmt& s) override {
    add(static_cast<std::uint64_t>(s->kind));
    if (const Store* store = s.as<Store>()) add(store->buffer);
    if (const Block* block = s.as<Block>()) {
      for (const Iter& iter : block->f.iters) add(static_cast<std::uint64_t>(iter.kind) + 1);
    }
    Visitor::visit(s);
  }

 private:
  std::unordered_map<const BufferNode*, std::uint64_t> numbers_;
  std::unordered_map<const ExprNode*, std::uint64_t> known_;
};

std::vector<std::string> block_names(const Schedule& schedule) {
  std::vector<std::string> names;
  for (const BlockRef& block : schedule.blocks()) names.push_back(block.name);
  return names;
}

std::vector<std::string> buffer_names(const Func& func) {
  std::vector<std::string> names;
  for (const Buffer& buffer : buffer_params(func)) names.push_back(buffer->name);
  for (const Buffer& buffer : allocations(func)) names.push_back(buffer->name);
  return names;
}

std::vector<std::string> added(const std::vector<std::string>& before, const std::vector<std::string>& after) {
  std::vector<std::string> names;
  for (const std::string& name : after) {
    if (std::find(before.begin(), before.end(), name) == before.end()) names.push_back(name);
  }
  return names;
}

using Names = std::map<std::string, std::string>;

void correspond(Names& map, const std::vector<std::string>& from, const std::vector<std::string>& to,
                const std::string& what) {
  if (from.size() != to.size()) {
    throw InputError(Mistake::value, fmt::format("{}: the recording has {} ({}), this program {} ({})", what,
                                                 from.size(), fmt::join(from, ", "), to.size(), fmt::join(to, ", ")));
  }
  for (size_t i = 0; i < from.size(); ++i) map[from[i]] = to[i];
}

const std::string& renamed(const Names& map, const std::string& name) {
  const auto found = map.find(name);
  return found == map.end() ? name : found->second;
}

/// The line with this program's names for the recording's.
std::string translate(const std::string& line, const Names& blocks, const Names& buffers) {
  const size_t open = line.find('(');
  if (open == std::string::npos || line.back() != ')') return line;
  const std::string primitive = line.substr(0, open);
  const auto buffer = buffer_arguments().find(primitive);
  std::string out = primitive + "(";
  size_t argument = 0;
  for (size_t start = open + 1; start < line.size(); ++argument) {
    size_t end = start;
    for (bool quoted = false; end + 1 < line.size() && (quoted || line[end] != ','); ++end) {
      if (line[end] == '"') quoted = !quoted;
    }
    std::string text = line.substr(start, end - start);
    text.erase(0, std::min(text.find_first_not_of(' '), text.size()));
    if (text.size() > 1 && text.front() == '"') {
      if (buffer != buffer_arguments().end() && buffer->second == argument) {
        text = "\"" + renamed(buffers, text.substr(1, text.size() - 2)) + "\"";
      }
    } else {
      const size_t dot = text.rfind('.');
      const bool place = dot != std::string::npos && dot + 1 < text.size() &&
                         text.find_first_not_of("0123456789", dot + 1) == std::string::npos;
      text = place ? renamed(blocks, text.substr(0, dot)) + text.substr(dot) : renamed(blocks, text);
    }
    out += (argument ? ", " : "") + text;
    start = end + 1;
  }
  return out + ")";
}

}  // namespace

std::string operation_of(const Func& func) {
  OperationDigest digest;
  for (const Buffer& buffer : buffer_params(func)) digest.add(buffer);
  digest.visit(func->body);
  return fmt::format("{:016x}", digest.state);
}

Recording recording_of(const Schedule& schedule) {
  Schedule again(schedule.original());
  Recording recording{operation_of(again.func()), block_names(again), buffer_names(again.func()), {}};
  std::vector<std::string> blocks = recording.blocks, buffers = recording.buffers;
  for (const std::string& line : schedule.record()) {
    replay(again, {&line, 1});
    const std::vector<std::string> now_blocks = block_names(again), now_buffers = buffer_names(again.func());
    recording.lines.push_back({line, added(blocks, now_blocks), added(buffers, now_buffers)});
    blocks = now_blocks;
    buffers = now_buffers;
  }
  return recording;
}

void replay(Schedule& schedule, const Recording& recording) {
  if (const std::string here = operation_of(schedule.func()); here != recording.operation) {
    throw InputError(
        Mistake::value,
        fmt::format("the recording is of another operator: of operation {} with blocks {}, and {} is operation {} "
                    "with blocks {}",
                    recording.operation, fmt::join(recording.blocks, ", "), schedule.func()->name, here,
                    fmt::join(block_names(schedule), ", ")));
  }
  Names blocks, buffers;
  std::vector<std::string> now_blocks = block_names(schedule), now_buffers = buffer_names(schedule.func());
  correspond(blocks, recording.blocks, now_blocks, "blocks");
  correspond(buffers, recording.buffers, now_buffers, "buffers");
  Schedule result = schedule;
  for (const Recording::Line& line : recording.lines) {
    const std::string text = translate(line.text, blocks, buffers);
    replay(result, {&text, 1});
    const std::vector<std::string> later_blocks = block_names(result), later_buffers = buffer_names(result.func());
    correspond(blocks, line.blocks, added(now_blocks, later_blocks), "blocks after " + line.text);
    correspond(buffers, line.buffers, added(now_buffers, later_buffers), "buffers after " + line.text);
    now_blocks = later_blocks;
    now_buffers = later_buffers;
  }
  schedule = std::move(result);
}

namespace {

constexpr std::string_view arrow = " -> ";

std::string join_names(const std::vector<std::string>& names) {
  return fmt::format("{}", fmt::join(names, " "));
}

std::vector<std::string> split_names(std::string_view text) {
  std::vector<std::string> names;
  while (true) {
    const size_t start = text.find_first_not_of(' ');
    if (start == std::string_view::npos) return names;
    text.remove_prefix(start);
    const size_t end = std::min(text.find(' '), text.size());
    names.emplace_back(text.substr(0, end));
    text.remove_prefix(end);
  }
}

}  // namespace

std::string print(const Recording& recording) {
  std::string text = fmt::format("operation {}\nblocks {}\nbuffers {}\n", recording.operation,
                                 join_names(recording.blocks), join_names(recording.buffers));
  for (const Recording::Line& line : recording.lines) {
    text += line.text;
    if (!line.blocks.empty() || !line.buffers.empty()) {
      text += fmt::format("{}{}; {}", arrow, join_names(line.blocks), join_names(line.buffers));
    }
    text += "\n";
  }
  return text;
}

Recording parse_recording(std::string_view text, std::string_view file) {
  Recording recording;
  size_t number = 0;
  const auto fail = [&](const std::string& expected, std::string_view found) {
    throw InputError(Mistake::syntax, fmt::format("{}:{}: expected {}, found '{}'", file, number, expected, found));
  };
  const auto next = [&]() -> std::string_view {
    ++number;
    const size_t end = std::min(text.find('\n'), text.size());
    const std::string_view line = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    return line;
  };
  for (const auto& [word, list] : {std::pair<std::string, std::vector<std::string>*>{"operation", nullptr},
                                   {"blocks", &recording.blocks},
                                   {"buffers", &recording.buffers}}) {
    const std::string_view line = next();
    if (!line.starts_with(word)) fail(fmt::format("a line that begins with '{}'", word), line);
    const std::vector<std::string> names = split_names(line.substr(word.size()));
    if (list) {
      *list = names;
    } else {
      if (names.size() != 1) fail("'operation' and a digest", line);
      recording.operation = names[0];
    }
  }
  while (!text.empty()) {
    const std::string_view line = next();
    if (line.find_first_not_of(' ') == std::string_view::npos) continue;
    Recording::Line entry;
    // Layout maps have arrows too, but within the parentheses, and behind a name.
    const size_t closing = line.rfind(fmt::format("){}", arrow));
    entry.text = std::string(line.substr(0, closing == std::string_view::npos ? closing : closing + 1));
    if (closing != std::string_view::npos) {
      const std::string_view names = line.substr(closing + 1 + arrow.size());
      const size_t semicolon = names.find(';');
      if (semicolon == std::string_view::npos) fail("the blocks that the line adds, ';', the buffers", names);
      entry.blocks = split_names(names.substr(0, semicolon));
      entry.buffers = split_names(names.substr(semicolon + 1));
    }
    if (entry.text.find('(') == std::string::npos || entry.text.back() != ')') fail("PRIMITIVE(ARGUMENTS)", line);
    recording.lines.push_back(std::move(entry));
  }
  return recording;
}

}  // namespace lathe
