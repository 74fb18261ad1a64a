"""The tables as text, as Markdown between markers, and as a self-contained page."""

import html
import math
import re
import textwrap

import measure

LARGE, SCALING = 1e7, 1.85  # contractions of so many operations should gain so much by two threads
UNDER = 0.95  # of the best peer: a case whose whole interval lies below has lost


def order(table):
    return [peer.name for peer in table.peers]


def number(value, width=10):
    return (
        f"{value:{width}.{2 if value < 10 else 1 if value < 1000 else 0}f}"
        if value is not None
        else " " * (width - 1) + "-"
    )


def header(table):
    names = "".join(f"{name:>10}" for name in order(table))
    return (
        f"{'case':<36}{'lathe':>10}{names}  {'best':<9}{'ratio':>6}{'95 % interval':>16}{'compile':>9}{'of bound':>13}\n"
        f"{'':<36}{'µs':>10}{'':<{10 * len(order(table))}}  {'':<9}{'':>22}{'ms':>9}"
    )


def line(table, row):
    peers = "".join(number(micro(row["seconds"].get(name))) for name in order(table))
    return (
        f"{row['case']:<36}{number(micro(row['seconds']['lathe']))}{peers}  {verdict(row)}"
        f"{number(row['compile_ms'], 9)}{share(row):>13}{marks(row)}"
    )


def micro(seconds):
    return seconds * 1e6 if seconds else None


def verdict(row):
    if not row["ratios"]:
        return f"{'no peer':<9}{'':>22}"
    median, low, high = row["ratios"][row["best"]]
    spread = f"{low:.2f} to {high:.2f}" + (" " if row["settled"] else "~")
    return f"{row['best']:<9}{median:6.2f}{spread:>16}"


def share(row):
    if "scaling" in row:
        return f"{row['scaling']:.2f} x one"
    return f"{100 * row['roofline']:.0f} % {row['binds']}" if "roofline" in row else ""


def marks(row):
    """What a reader must know about a row, in words."""
    parts = []
    faults = {name: count for name, count in row.get("faults", {}).items() if count >= 0.5}
    if faults:
        parts.append("page faults a call: " + ", ".join(f"{name} {count:.0f}" for name, count in faults.items()))
    if row.get("least") is not None:
        parts.append(f"least {row['least']:.2f}, {len(row['under_0.8'])} under 0.8")
    parts += [f"{name}: {note}" for name, note in row["notes"].items() if isinstance(note, str)]
    return "  " + "; ".join(parts) if parts else ""


def has_lost(row):
    return bool(row["ratios"]) and row["ratios"][row["best"]][2] < UNDER


def summary(rows):
    """Geometric means of the ratios to each case's best peer, and the cases that lose."""
    every, rows = rows, [row for row in rows if row["ratios"]]
    groups = {"all": rows} | {kind: [row for row in rows if row["bound"] == kind] for kind in ("compute", "other")}
    lines = []
    for name, group in groups.items():
        if group:
            ratios = [row["ratios"][row["best"]][0] for row in group]
            mean = measure.geometric_mean(ratios)
            lines.append(f"{name}: geometric mean of {len(group)} ratios {mean:.2f}, least {min(ratios):.2f}")
    lines += products(rows)
    lost = [row["case"] for row in rows if has_lost(row)]
    lines.append(
        f"{len(lost)} of {len(rows)} lie under {UNDER} with their whole interval"
        + (": " if lost else "")
        + ", ".join(lost)
    )
    scalings = {row["case"]: row["scaling"] for row in every if row.get("scaling") and row["flops"] >= LARGE}
    if scalings:
        slow = [f"{name} {factor:.2f}" for name, factor in scalings.items() if factor < SCALING]
        lines.append(
            f"{len(slow)} of {len(scalings)} products of 10 MFLOP and more gain less than {SCALING} by all threads: {', '.join(slow)}"
        )
    unsettled = sum(not row["settled"] for row in rows)
    lines.append(f"{unsettled} intervals are wider than 1 % (~)")
    disturbed = sum(row.get("dropped", 0) > row.get("rounds", 1) for row in every)
    if disturbed:
        lines.append(f"{disturbed} cases lost more than half of their rounds to neighbours or a drifting frequency")
    return lines


def products(rows):
    """The f32 products of named shapes beside the better of oneDNN and OpenBLAS, which odd shapes are measured by too."""
    against = {
        row["case"]: min(row["ratios"][name][0] for name in ("onednn", "openblas") if name in row["ratios"])
        for row in rows
        if re.match(r"gemm \d+x", row["case"]) and {"onednn", "openblas"} & row["ratios"].keys()
    }
    if not against:
        return []
    least = min(against, key=against.get)
    mean = measure.geometric_mean(against.values())
    return [
        f"f32 products beside the better of oneDNN and OpenBLAS: geometric mean {mean:.2f}, least {against[least]:.2f} ({least})"
    ]


def markdown(result):
    peers = result["peers"]
    lines = [
        f"{result['title']}, {result['threads']} thread{'s' if result['threads'] > 1 else ''}. {result['about']}. FMA peak"
        f" {result['fma_gflops'][0]:.0f} GFLOP/s before and {result['fma_gflops'][1]:.0f} after. Times in µs.",
        "",
        "| case | Lathe | " + " | ".join(peers) + " | best | ratio | interval | compile ms | of its bound |",
        "|---|" + "--:|" * (len(peers) + 1) + "---|--:|---|--:|---|",
    ]
    for row in result["rows"]:
        cells = [row["case"]] + [number(micro(row["seconds"].get(name)), 1).strip() for name in ("lathe", *peers)]
        if row["ratios"]:
            median, low, high = row["ratios"][row["best"]]
            ratio = f"**{median:.2f}**" if has_lost(row) else f"{median:.2f}"
            cells += [row["best"], ratio, f"{low:.2f} to {high:.2f}" + ("" if row["settled"] else " ~")]
        else:
            cells += ["", "", ""]
        cells += [
            number(row["compile_ms"], 1).strip(),
            share(row),
        ]
        lines.append("| " + " | ".join(cells) + " |")
    lines += ["", *(f"- {text}" for text in summary(result["rows"]))]
    lines += [f"- {row['case']}:{marks(row).rstrip()}" for row in result["rows"] if marks(row)]
    lines += [f"- {name} was not to be had" for name in result["missing"]]
    return "\n".join(lines)


def documented(root, cpu):
    """The page that has the tables of a CPU: its own where there is one."""
    own = root / "docs" / f"performance-{cpu}.md"
    return own if own.exists() else root / "docs" / "performance.md"


def document(root, result):
    """Replaces what stands between this table's markers."""
    path = documented(root, result["about"].split(",")[0])
    replace_between(path, f"{result['table']} {'one' if result['threads'] == 1 else 'all'}", markdown(result))


TABLES = {
    "python one": "called from Python, one thread",
    "python all": "called from Python, two threads",
    "cpp one": "bound in C++, one thread",
    "cpp all": "bound in C++, two threads",
}


def in_short(text):
    """What a page's own tables come to, in a line each."""
    between = {name: body for name, body in re.findall(r"<!-- begin ([\w ]+) -->\n(.*?)<!-- end \1 -->", text, re.S)}
    lines = ["| beside the best peer of each case | cases | geometric mean | least | lost |", "|---|--:|--:|--:|---|"]
    for name, title in TABLES.items():
        total = re.search(r"- all: geometric mean of (\d+) ratios ([\d.]+), least ([\d.]+)", between.get(name, ""))
        if total:
            lost = re.search(r"lie under [\d.]+ with their whole interval: (.*)", between[name])
            lines.append(f"| {title} | {total[1]} | {total[2]} | {total[3]} | {lost[1] if lost else 'none'} |")
    compiles = re.findall(r"\| ([\w-]+) \| (.+) \| (\**)([\d.]+)\** \| (\d+) \|", between.get("compile", ""))
    if compiles:
        over = [f"{kind} {operator} {time} (of {target})" for kind, operator, bold, time, target in compiles if bold]
        text = f"{len(over)} of {len(compiles)} compile times lie over their target" + (", in ms: " if over else "") + ", ".join(over)
        lines += ["", textwrap.fill(text + ".", 120, break_on_hyphens=False)]
    return "\n".join(lines)


def replace_between(path, name, body):
    """Replaces what stands between these markers, and brings the page's summary up to it where it has one."""
    put_between(path, name, body)
    if "<!-- begin summary -->" in path.read_text():
        put_between(path, "summary", in_short(path.read_text()))


def put_between(path, name, body):
    text = path.read_text()
    begin, end = f"<!-- begin {name} -->\n", f"<!-- end {name} -->"
    if begin not in text or end not in text:
        raise SystemExit(f"{path} has no markers '{begin.strip()}' and '{end}'")
    head, rest = text.split(begin, 1)
    path.write_text(head + begin + "\n" + body + "\n\n" + end + rest.split(end, 1)[1])


STYLE = """
body { font: 14px/1.45 system-ui, sans-serif; margin: 2rem auto; max-width: 76rem; padding: 0 1rem; color: #222; background: #fff }
h1 { font-size: 1.5rem } h2 { font-size: 1.2rem; margin-top: 2.5rem }
table { border-collapse: collapse; font-variant-numeric: tabular-nums } th, td { padding: .15rem .6rem; text-align: right; white-space: nowrap }
th { border-bottom: 1px solid #888; position: sticky; top: 0; background: #fff } td:first-child, th:first-child { text-align: left }
tr:nth-child(even) { background: #f5f5f5 } .lost { color: #b00020; font-weight: 600 } .note { color: #666; font-size: .85rem }
svg text { font-size: 11px; fill: #222 } .scroll { overflow-x: auto }
"""


def page(results):
    body = "".join(section(result) for result in results)
    return (
        f"<!doctype html><html lang='en'><head><meta charset='utf-8'><title>Lathe beside its peers</title><style>{STYLE}</style></head>"
        f"<body><h1>Lathe beside its peers</h1><p>A ratio above 1 means that Lathe is faster than the best peer of the case; the bar's"
        f" end is the median of interleaved pairs, the whisker its 95 % interval. Cases in red lie under {UNDER} with their whole"
        f" interval; ~ marks an interval wider than 1 %.</p>{body}</body></html>\n"
    )


def section(result):
    escape = html.escape
    peers = result["peers"]
    heads = [
        "case",
        "Lathe µs",
        *(f"{name} µs" for name in peers),
        "best",
        "ratio",
        "interval",
        "compile ms",
        "of its bound",
    ]
    table = "".join(f"<th>{escape(head)}</th>" for head in heads)
    for row in result["rows"]:
        cells = [row["case"], number(micro(row["seconds"]["lathe"]), 1)]
        cells += [number(micro(row["seconds"].get(name)), 1) for name in peers]
        if row["ratios"]:
            median, low, high = row["ratios"][row["best"]]
            cells += [row["best"], f"{median:.2f}", f"{low:.2f} to {high:.2f}" + ("" if row["settled"] else " ~")]
        else:
            cells += ["", "", ""]
        cells += [
            number(row["compile_ms"], 1),
            share(row),
        ]
        lost = " class='lost'" if has_lost(row) else ""
        table += (
            f"<tr{lost} title='{escape(marks(row).strip(), quote=True)}'>"
            + "".join(f"<td>{escape(cell)}</td>" for cell in cells)
            + "</tr>"
        )
    summary_items = "".join(f"<li>{escape(text)}</li>" for text in summary(result["rows"]))
    threads = f"{result['threads']} thread{'s' if result['threads'] > 1 else ''}"
    roofline = bars(
        result, "of its bound", lambda row: row.get("roofline"), marks_at=(0.25, 0.5, 0.85, 1.0), logarithmic=False
    )
    return (
        f"<h2>{escape(result['title'])}, {threads}</h2><p class='note'>{escape(result['about'])}. FMA peak"
        f" {result['fma_gflops'][0]:.0f} GFLOP/s before, {result['fma_gflops'][1]:.0f} after; {result['minutes']:.1f} minutes.</p>"
        f"<ul>{summary_items}</ul><h3>Best peer's time over Lathe's</h3>"
        + bars(result, "ratio", best_ratio, marks_at=(0.25, 0.5, 0.95, 2, 4, 8), logarithmic=True)
        + ("<h3>Share of the bound</h3>" + roofline if any("roofline" in row for row in result["rows"]) else "")
        + f"<h3>Times</h3><div class='scroll'><table><tr>{table}</table></div>"
    )


def best_ratio(row):
    return row["ratios"][row["best"]] if row["ratios"] else None


def bars(result, label, value_of, marks_at, logarithmic):
    """Horizontal bars, one a case; with an interval where the value has one."""
    rows = [(row, value_of(row)) for row in result["rows"] if value_of(row) is not None]
    left, width, step = 250, 760, 16
    medians = [value[0] if isinstance(value, (list, tuple)) else value for _, value in rows]
    low = min([marks_at[0], *medians]) if logarithmic else 0.0
    high = max([marks_at[-1], *medians])

    def x(value):
        part = (math.log(value / low) / math.log(high / low)) if logarithmic else (value - low) / (high - low)
        return left + width * min(max(part, 0.0), 1.0)

    origin = x(1.0) if logarithmic else x(0.0)
    height = step * len(rows) + 24
    parts = [
        f"<svg role='img' aria-label='{html.escape(label)}' viewBox='0 0 {left + width + 60} {height}' width='100%'>"
    ]
    for at in marks_at:
        parts.append(
            f"<line x1='{x(at):.1f}' x2='{x(at):.1f}' y1='18' y2='{height}' stroke='#ccc'/><text x='{x(at):.1f}' y='12' text-anchor='middle'>{at:g}</text>"
        )
    for i, (row, value) in enumerate(rows):
        y, median = 20 + step * i, medians[i]
        colour = "#b00020" if has_lost(row) and logarithmic else "#2a6f97"
        start, end = sorted((origin, x(median)))
        beyond = max(end, origin, x(value[2]) if isinstance(value, (list, tuple)) else 0)
        parts.append(f"<text x='{left - 6}' y='{y + 10}' text-anchor='end'>{html.escape(row['case'])}</text>")
        parts.append(
            f"<rect x='{start:.1f}' y='{y + 2}' width='{max(end - start, 1):.1f}' height='{step - 5}' fill='{colour}'/>"
        )
        if isinstance(value, (list, tuple)):
            parts.append(
                f"<line x1='{x(value[1]):.1f}' x2='{x(value[2]):.1f}' y1='{y + 7.5}' y2='{y + 7.5}' stroke='#222' stroke-width='1.5'/>"
            )
        parts.append(f"<text x='{beyond + 5:.1f}' y='{y + 10}'>{median:.2f}</text>")
    return "".join(parts) + "</svg>"
