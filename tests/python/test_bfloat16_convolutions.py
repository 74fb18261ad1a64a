"""Convolutions of bf16, which run on dot products of pairs where the host has them, beside torch's of f32."""

import re

import pytest

import lathe

torch = pytest.importorskip("torch")

FORMS = [  # channels, filters, taps, stride, groups, size
    (64, 16, 5, 1, 1, 12),
    (64, 48, 3, 2, 1, 15),
    (16, 96, 1, 1, 1, 14),
    (10, 7, 3, 1, 1, 9),
    (40, 64, 1, 1, 4, 12),
    (64, 80, 1, 1, 4, 10),
    (12, 12, 3, 1, 4, 9),
    (32, 40, 3, 1, 4, 10),
    (6, 6, 3, 1, 6, 11),
    (128, 256, 3, 1, 1, 17),
]


def convolution(x, w, stride, groups):
    n, _, height, width = x.shape
    k, per_group, r, s = w.shape
    return lathe.compute(
        (n, k, (height - r) // stride + 1, (width - s) // stride + 1),
        lambda b, f, i, j: lathe.reduce(
            "sum",
            (per_group, r, s),
            lambda c, p, q: (
                x[b, c if groups == 1 else f // (k // groups) * per_group + c, i * stride + p, j * stride + q]
                * w[f, c, p, q]
            ),
        ),
    )


def arrays(channels, filters, taps, groups, size, last):
    generator = torch.Generator().manual_seed(1)
    x = torch.randn(2, channels, size, size, generator=generator).to(torch.bfloat16)
    w = torch.randn(filters, channels // groups, taps, taps, generator=generator).to(torch.bfloat16)
    return x.to(memory_format=torch.channels_last) if last else x, w


@pytest.mark.parametrize("last", [False, True])
@pytest.mark.parametrize(("channels", "filters", "taps", "stride", "groups", "size"), FORMS)
def test_beside_torch(channels, filters, taps, stride, groups, size, last):
    x, w = arrays(channels, filters, taps, groups, size, last)
    expected = torch.nn.functional.conv2d(x.float(), w.float(), stride=stride, groups=groups)
    f = lathe.jit(lambda x, w: convolution(x, w, stride, groups))
    result = f(x, w)
    assert result.dtype == torch.bfloat16
    # One rounding of sums that are within f32's error of each other.
    torch.testing.assert_close(result.float(), expected, rtol=2**-8, atol=1e-4)
    turned = torch.empty_like(result, memory_format=torch.contiguous_format if last else torch.channels_last)
    torch.testing.assert_close(f(x, w, out=turned), result, rtol=2**-7, atol=1e-4)


def test_vectors_have_as_many_lanes_as_instructions():
    """A row of 15 results is one vector of 16 lanes, whose last is left out."""
    x, w = arrays(128, 256, 3, 1, 17, False)
    text = lathe.jit(lambda x, w: convolution(x, w, 1, 1)).lower(x[:1], w).text("scheduled")
    widths = {int(extent) for extent in re.findall(r"vectorized for \S+ in \[0, (\d+)\)", text)}
    assert widths and all(width & (width - 1) == 0 for width in widths), widths


@pytest.mark.parametrize(("channels", "filters", "taps", "stride", "groups", "size"), FORMS[:3] + FORMS[4:6])
def test_pairs_with_channels_last(channels, filters, taps, stride, groups, size):
    if "avx512bf16" not in lathe.device_info()["features"]:
        pytest.skip("no dot products of bf16")
    x, w = arrays(channels, filters, taps, groups, size, True)
    text = lathe.jit(lambda x, w: convolution(x, w, stride, groups)).lower(x, w).text("before_emit")
    assert "dot_halves(" in text, "pairs of channels are words"
    rounded = [line for line in text.splitlines() if "cast<bf16>(" in line]
    assert rounded
    assert not any("compute: f32" in line and "@register" not in line for line in text.splitlines()), "from registers"
