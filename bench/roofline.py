"""The least time that a case can take on one core: max(compulsory bytes / copy rate, operations / issue rate)."""

import lathe

# Products a vector instruction makes, over those of f32: half for f64; more where the host has dot products of the type.
# f16 without its own arithmetic is widened to f32.
DOT_PRODUCTS = {"f64": 0.5, "bf16": ("avx512bf16", 2), "i8": ("avx512vnni", 4), "f16": ("avx512fp16", 2)}


def rate_over_f32(arithmetic):
    entry = DOT_PRODUCTS.get(arithmetic, 1)
    if isinstance(entry, tuple):
        feature, factor = entry
        return factor if feature in lathe.device_info()["features"] else 1
    return entry


def traffic(case, outputs):
    """Each input read once and each output written once."""
    return case.traffic or sum(x.nbytes for x in case.inputs) + sum(y.nbytes for y in outputs)


def bound(case, outputs, native, gflops):
    """Seconds, and which of the two binds: "copy" or "issue". `gflops` is the FMA peak measured beside the case."""
    size = traffic(case, outputs)
    copying = size / native.copy_rate(size)
    issuing = case.flops / (gflops * 1e9 * rate_over_f32(case.arithmetic))
    issuing += case.lane_operations / (gflops * 1e9 / 2)  # an fma is two operations and one instruction
    return max(copying, issuing), "copy" if copying >= issuing else "issue"
