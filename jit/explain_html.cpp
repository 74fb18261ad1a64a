#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "ir/text/print.h"
#include "ir/visitor.h"
#include "jit/explain.h"

namespace lathe {
namespace {

std::string escape(const std::string& text) {
  std::string out;
  for (const char c : text) {
    switch (c) {
      case '&':
        out += "&amp;";
        break;
      case '<':
        out += "&lt;";
        break;
      case '>':
        out += "&gt;";
        break;
      case '"':
        out += "&quot;";
        break;
      default:
        out += c;
    }
  }
  return out;
}

struct BufferRow {
  Buffer buffer;
  std::string role, reads, writes;
};

std::string provenance_note(const Region& region) {
  switch (region.provenance) {
    case Provenance::inferred:
      return "";
    case Provenance::checked:
      return " (checked hint)";
    case Provenance::trusted:
      return " (trusted hint)";
  }
  return "";
}

/// Every buffer of the program in order of appearance, with the regions that its blocks declare.
std::vector<BufferRow> buffer_rows(const Func& func) {
  std::vector<BufferRow> rows;
  std::map<const BufferNode*, size_t> index;
  const auto row = [&](const Buffer& buffer, const char* role) -> BufferRow& {
    const auto [found, inserted] = index.emplace(buffer.get(), rows.size());
    if (inserted) rows.push_back({buffer, role, "", ""});
    return rows[found->second];
  };
  for (const Buffer& buffer : buffer_params(func)) row(buffer, "parameter");
  for (const Buffer& buffer : allocations(func)) row(buffer, "allocation");
  for_each_stmt(func->body, [&](const Stmt& s) {
    if (const Block* block = s.as<Block>()) {
      const auto add = [&](const Region& region, std::string BufferRow::* list) {
        std::string& text = row(region.buffer, "planned").*list;
        text += (text.empty() ? "" : "\n") + block->f.name + ": " + print(region) + provenance_note(region);
      };
      for (const Region& region : block->f.reads) add(region, &BufferRow::reads);
      for (const Region& region : block->f.writes) add(region, &BufferRow::writes);
    }
    if (const Store* store = s.as<Store>()) row(store->buffer, "planned");
  });
  for_each_expr(func->body, [&](const Expr& e) {
    if (const Load* load = e.as<Load>()) row(load->buffer, "planned");
  });
  return rows;
}

std::string type_text(const Buffer& buffer) {
  std::string text = to_string(buffer->dtype) + "[";
  for (size_t d = 0; d < buffer->rank(); ++d) text += (d ? ", " : "") + print(buffer->shape[d]);
  return text + "]";
}

std::string size_text(const Buffer& buffer) {
  std::int64_t bytes = buffer->dtype.bytes();
  for (const Expr& extent : buffer->shape) {
    const IntImm* constant = extent.as<IntImm>();
    if (!constant) return "symbolic";
    bytes *= constant->value;
  }
  return fmt::format("{} B", bytes);
}

std::string buffer_table(const Func& func) {
  std::string html =
      "<table><thead><tr><th>buffer</th><th>type</th><th>space</th><th>size</th><th>role</th><th>read by</th>"
      "<th>written by</th></tr></thead><tbody>";
  for (const BufferRow& row : buffer_rows(func)) {
    html += fmt::format(
        "<tr><td>{}</td><td>{}</td><td>{}</td><td>{}</td><td>{}</td><td class=regions>{}</td>"
        "<td class=regions>{}</td></tr>",
        escape(row.buffer->name), escape(type_text(row.buffer)), escape(row.buffer->space), size_text(row.buffer),
        row.role, escape(row.reads), escape(row.writes));
  }
  return html + "</tbody></table>";
}

const char* line_class(DiffLine::Kind kind) {
  switch (kind) {
    case DiffLine::Kind::same:
      return "same";
    case DiffLine::Kind::indented:
      return "indented";
    case DiffLine::Kind::removed:
      return "removed";
    case DiffLine::Kind::added:
      return "added";
    case DiffLine::Kind::changed:
      return "changed";
  }
  return "same";
}

std::string side_by_side(const std::vector<DiffLine>& lines) {
  std::string html = "<div class=code>";
  for (const DiffLine& line : lines) {
    html += fmt::format("<div class={0}><pre>{1}</pre><pre>{2}</pre></div>", line_class(line.kind), escape(line.before),
                        escape(line.after));
  }
  return html + "</div>";
}

constexpr const char* style = R"css(
:root { color-scheme: light dark; --ink: light-dark(#1b1f24, #e3e6ea); --dim: light-dark(#667080, #929ba8);
  --page: light-dark(#fff, #15181c); --panel: light-dark(#f5f6f8, #1d2126); --line: light-dark(#dde1e6, #31373e);
  --gone: light-dark(#ffe5e3, #45201e); --come: light-dark(#dcf5e1, #173a22); --moved: light-dark(#5a4b8a, #b9abea);
  --accent: light-dark(#0b5cad, #7db7f2); }
* { box-sizing: border-box; }
body { margin: 0; display: grid; grid-template-columns: 19rem minmax(0, 1fr); height: 100vh; color: var(--ink);
  background: var(--page); font: 14px/1.45 system-ui, sans-serif; }
nav { overflow-y: auto; background: var(--panel); border-right: 1px solid var(--line); padding: .75rem 0; }
nav h1 { font-size: 1rem; margin: 0 1rem .5rem; overflow-wrap: anywhere; }
nav h2 { font-size: .75rem; color: var(--dim); margin: .75rem 1rem .15rem; font-weight: 600; }
nav button { display: flex; gap: .5rem; width: 100%; border: 0; background: none; color: inherit; text-align: left;
  padding: .15rem 1rem; cursor: pointer; font: 12.5px/1.45 ui-monospace, monospace; overflow-wrap: anywhere; }
nav button span:last-child { margin-left: auto; color: var(--dim); white-space: nowrap; }
nav button:hover { background: var(--line); }
nav button[aria-current=true] { background: var(--accent); color: var(--page); }
nav button[aria-current=true] span:last-child { color: inherit; }
main { overflow: auto; padding: 1rem 1.25rem 2rem; }
section { display: none; }
section.shown { display: block; }
section h2 { margin: 0; font: 600 1.05rem/1.4 ui-monospace, monospace; overflow-wrap: anywhere; }
section p { margin: .15rem 0 .9rem; color: var(--dim); }
section h3 { font-size: .9rem; margin: 1.4rem 0 .4rem; }
.code { border: 1px solid var(--line); border-radius: 6px; overflow-x: auto; }
.code > div { display: grid; grid-template-columns: minmax(max-content, 1fr) minmax(max-content, 1fr); min-width: 100%; }
.code.whole > div { grid-template-columns: 1fr; }
pre { margin: 0; padding: 0 .6rem; min-height: 1.4em; font: 12px/1.4 ui-monospace, monospace; white-space: pre-wrap;
  overflow-wrap: anywhere; width: calc((100vw - 23rem) / 2); }
.code.whole pre { width: auto; }
.code pre + pre { border-left: 1px solid var(--line); }
.indented pre { color: var(--moved); }
.removed pre:first-child, .changed pre:first-child { background: var(--gone); }
.added pre:last-child, .changed pre:last-child { background: var(--come); }
table { border-collapse: collapse; font: 12px/1.4 ui-monospace, monospace; width: 100%; }
th, td { text-align: left; padding: .25rem .6rem; border-bottom: 1px solid var(--line); vertical-align: top; }
th { color: var(--dim); font-weight: 600; white-space: nowrap; }
.regions { white-space: pre-wrap; overflow-wrap: anywhere; }
kbd { border: 1px solid var(--line); border-radius: 3px; padding: 0 .3rem; }
)css";

constexpr const char* script = R"js(
const sections = [...document.querySelectorAll('section')], buttons = [...document.querySelectorAll('nav button')];
let shown = 0;
function show(i) {
  shown = Math.max(0, Math.min(sections.length - 1, i));
  sections.forEach((s, k) => s.classList.toggle('shown', k === shown));
  buttons.forEach((b, k) => b.setAttribute('aria-current', k === shown));
  buttons[shown].scrollIntoView({block: 'nearest'});
  const first = sections[shown].querySelector('.removed, .added, .changed');
  document.querySelector('main').scrollTop = 0;
  if (first && shown) first.scrollIntoView({block: 'center'});
  history.replaceState(null, '', '#' + shown);
}
buttons.forEach((b, k) => b.addEventListener('click', () => show(k)));
addEventListener('keydown', e => {
  if (e.key === 'ArrowDown' || e.key === 'j') { show(shown + 1); e.preventDefault(); }
  if (e.key === 'ArrowUp' || e.key === 'k') { show(shown - 1); e.preventDefault(); }
});
show(parseInt(location.hash.slice(1)) || 0);
)js";

std::string heading(const ExplainStep& step) {
  if (step.origin == "trace") return "the program";
  return step.origin == "schedule" ? "schedule" : "lowering: " + step.origin;
}

}  // namespace

std::string explain_html(const std::vector<ExplainStep>& steps) {
  std::string nav, sections, group, before;
  for (size_t i = 0; i < steps.size(); ++i) {
    const ExplainStep& step = steps[i];
    const std::string text = print(step.func);
    const std::vector<DiffLine> lines = diff_lines(i ? before : text, text);
    const auto changed = std::count_if(lines.begin(), lines.end(), [](const DiffLine& line) {
      return line.kind != DiffLine::Kind::same && line.kind != DiffLine::Kind::indented;
    });
    if (group != heading(step)) nav += fmt::format("<h2>{}</h2>", escape(group = heading(step)));
    nav += fmt::format("<button><span>{}</span><span>{}</span></button>", escape(step.title),
                       i ? fmt::format("{}", changed) : "");
    std::string code;
    if (i == 0) {
      code = "<div class='code whole'>";
      for (const DiffLine& line : lines) code += fmt::format("<div><pre>{}</pre></div>", escape(line.after));
      code += "</div>";
    } else {
      code = side_by_side(lines);
    }
    std::string decisions;
    for (const std::string& decision : step.decisions) decisions += fmt::format("<p>{}</p>", escape(decision));
    sections += fmt::format("<section><h2>{}</h2><p>{}</p>{}{}<h3>Buffers</h3>{}</section>\n", escape(step.title),
                            i ? fmt::format("step {} of {}, {}: {} lines differ from the step before (left)", i,
                                            steps.size() - 1, escape(heading(step)), changed)
                              : "as it came in; <kbd>↑</kbd> <kbd>↓</kbd> go from step to step",
                            decisions, code, buffer_table(step.func));
    before = text;
  }
  return fmt::format(
      "<!doctype html>\n<html lang=en><head><meta charset=utf-8><meta name=viewport content='width=device-width'>"
      "<title>{0}: lathe explain</title><style>{1}</style></head>\n<body><nav><h1>{0}</h1>{2}</nav><main>{3}</main>"
      "<script>{4}</script></body></html>\n",
      escape(steps.empty() ? "" : steps.front().func->name), style, nav, sections, script);
}

}  // namespace lathe
