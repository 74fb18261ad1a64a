"""Windows that leave their operand: borders written by hand give what padding gives, in value and in the program."""

import numpy as np
import pytest

import lathe

x = np.random.default_rng(0).standard_normal((3, 40)).astype(np.float32)
w = np.array([0.5, -1, 2, 0.25, 1], np.float32)
PLACES = {
    "edge": lambda t: lathe.clip(t, 0, 39),
    "wrap": lambda t: (t + 40) % 40,
    "reflect": lambda t: lathe.where(t < 0, -t, lathe.where(t < 40, t, 78 - t)),
}


def windows(place):
    return lambda x, w: lathe.compute(
        x.shape, lambda i, t: lathe.reduce("sum", 5, lambda r: x[i, place(t + r - 2)] * w[r])
    )


def reference(x, w, mode):
    padded = np.pad(x, [(0, 0), (2, 2)], mode=mode)
    return sum(padded[:, r : r + x.shape[1]] * w[r] for r in range(5))


@pytest.mark.parametrize("mode", PLACES)
def test_windows_repeat_elements_at_the_border(mode):
    np.testing.assert_allclose(lathe.jit(windows(PLACES[mode]))(x, w), reference(x, w, mode), rtol=1e-4, atol=1e-5)


def zero(x, w):
    def element(i, t):
        return lathe.where((t >= 0) & (t < 40), x[i, lathe.clip(t, 0, 39)], 0.0)

    return lathe.compute(x.shape, lambda i, t: lathe.reduce("sum", 5, lambda r: element(i, t + r - 2) * w[r]))


def padded(x, w):
    y = lathe.pad(x, [(0, 0), (2, 2)])
    return lathe.compute(x.shape, lambda i, t: lathe.reduce("sum", 5, lambda r: y[i, t + r] * w[r]))


def test_a_choice_of_zero_beyond_the_border_is_padding():
    np.testing.assert_allclose(lathe.jit(zero)(x, w), reference(x, w, "constant"), rtol=1e-4, atol=1e-5)
    mine = lathe.jit(zero, name="kernel").lower(x, w).text("scheduled")
    theirs = lathe.jit(padded, name="kernel").lower(x, w).text("scheduled")
    assert mine.partition("{")[2] == theirs.partition("{")[2]


def test_either_arm_of_a_choice_may_hold_the_element():
    @lathe.jit
    def f(x):
        return lathe.compute(x.shape, lambda i, t: lathe.where(t < 3, 7.0, x[i, lathe.maximum(t - 3, 0)]))

    np.testing.assert_array_equal(f(x), np.concatenate([np.full((3, 3), 7, np.float32), x[:, :-3]], 1))


def test_an_element_that_is_also_used_without_the_choice_keeps_its_bound():
    @lathe.jit
    def f(x):
        def element(i, t):
            before = x[i, lathe.maximum(t - 1, 0)]
            return lathe.where(t > 0, before, 0.0) + 10.0 * before

        return lathe.compute(x.shape, element)

    before = np.concatenate([x[:, :1], x[:, :-1]], 1)
    np.testing.assert_allclose(f(x), np.where(np.arange(40) > 0, before, 0) + 10 * before, rtol=1e-6)


def test_an_element_outside_is_not_read_where_the_choice_does_not_want_it():
    @lathe.jit
    def f(x):
        return lathe.compute(
            x.shape, lambda i, t: lathe.where(t > 0, x[i, t - 1], lathe.where(i < 2, x[i + 1, t], 0.0))
        )

    below = np.concatenate([x[1:, :1], np.zeros((1, 1), np.float32)])
    np.testing.assert_array_equal(f(x), np.concatenate([below, x[:, :-1]], 1))


def test_an_index_that_leaves_its_tensor_is_refused():
    for place, reached in ((lambda t: t + 1, 40), (lambda t: t - 1, -1), (lambda t: 2 * t - 39, -39)):
        with pytest.raises(IndexError, match=rf"compute: the index .* reaches {reached} on axis 1; expected 0 to 39"):
            lathe.jit(lambda x, place=place: lathe.compute(x.shape, lambda i, t: x[i, place(t)]))(x)
    with pytest.raises(IndexError, match="reaches 42 on axis 1"):
        lathe.jit(lambda x: lathe.compute((3, 40), lambda i, t: lathe.reduce("sum", 4, lambda r: x[i, t + r])))(x)


def test_residues_say_that_an_index_stays_within_its_tensor():
    swap = lathe.jit(lambda x: lathe.compute(x.shape, lambda i, t: x[i, t + 1 - 2 * (t % 2)]))
    ahead = lathe.jit(lambda x: lathe.compute(
        x.shape, lambda i, t: lathe.where(t % 4 < 3, x[i, t + 1], x[i, t - 3])))  # fmt: skip
    np.testing.assert_array_equal(swap(x), x.reshape(3, 20, 2)[:, :, ::-1].reshape(3, 40))
    np.testing.assert_array_equal(ahead(x), np.roll(x.reshape(3, 10, 4), -1, 2).reshape(3, 40))
    assert (
        swap.lower(x).text("traced").count("block") == ahead.lower(x).text("traced").count("block") == 2
    )  # one and root
    beyond = lathe.jit(lambda x: lathe.compute(x.shape, lambda i, t: x[i, t + 3 - 2 * (t % 2)]))
    with pytest.raises(IndexError, match="index 41 is out of range on axis 1"):
        beyond(x)


def test_an_index_that_is_loaded_is_checked():
    rows = lathe.jit(lambda x, places: lathe.compute((4, 40), lambda i, t: x[places[i], t]))
    bags = lathe.jit(lambda x, places: lathe.compute(
        (40,), lambda t: lathe.reduce("sum", 4, lambda r: lathe.where(r > 0, x[places[r], t], 0.0))))  # fmt: skip
    places = np.array([2, 0, 1, 2])
    np.testing.assert_array_equal(rows(x, places), x[places])
    np.testing.assert_allclose(bags(x, places), x[places[1:]].sum(0), rtol=1e-5, atol=1e-6)
    for wrong in (3, -1, 1 << 40):
        with pytest.raises(IndexError, match=f"index {wrong} is out of range on axis 0"):
            rows(x, np.array([2, 0, wrong, 2]))
        with pytest.raises(IndexError, match=f"index {wrong} is out of range on axis 0"):
            bags(x, np.array([2, 0, wrong, 2]))
    # The first place is not asked for.
    np.testing.assert_allclose(bags(x, np.array([1 << 40, 0, 0, 0])), 3 * x[0], rtol=1e-5, atol=1e-6)


def test_an_element_may_be_its_own_index():
    picked = lathe.jit(lambda x: lathe.compute((20,), lambda i: x[1, lathe.arange(40)[i]] + x[0, i]))
    np.testing.assert_array_equal(picked(x), x[1, :20] + x[0, :20])


def test_a_bound_that_the_choice_does_not_make_needless_stays():
    @lathe.jit
    def f(x):
        return lathe.compute(x.shape, lambda i, t: lathe.where(t < 20, x[i, lathe.minimum(t + 25, 39)], 0.0))

    expected = np.zeros_like(x)
    expected[:, :20] = x[:, np.minimum(np.arange(20) + 25, 39)]
    np.testing.assert_array_equal(f(x), expected)


TURNED = {
    "edge": lambda t, n: lathe.clip(t, 0, n - 1),
    "wrap": lambda t, n: (t + n) % n,
    "reflect": lambda t, n: (lambda k: lathe.where(k >= n, 2 * n - 2 - k, k))(lathe.where(t < 0, -t, t)),
    "reflect, arm by arm": lambda t, n: lathe.where(t < 0, -t, lathe.where(t < n, t, 2 * n - 2 - t)),
    "reflect, by distances": lambda t, n: n - 1 - lathe.abs(n - 1 - lathe.abs(t)),
    "symmetric": lambda t, n: (lambda k: lathe.where(k >= n, 2 * n - 1 - k, k))(lathe.where(t < 0, -1 - t, t)),
}


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.uint8])
@pytest.mark.parametrize("mode", TURNED)
@pytest.mark.parametrize("shape, ahead, behind", [((2, 9, 56), 3, 3), ((1, 70, 200), 1, 2), ((3, 4, 5), 3, 2), ((2, 3, 300), 2, 299)])
def test_padding_by_places(mode, shape, ahead, behind, dtype):
    behind = min(behind, shape[1] - 1)
    x = np.random.default_rng(1).integers(0, 200, shape).astype(dtype)
    place = TURNED[mode]

    @lathe.jit
    def f(x):
        n, h, w = x.shape
        return lathe.compute(
            (n, h + ahead + behind, w + ahead + behind),
            lambda b, i, j: x[b, place(i - ahead, h), place(j - ahead, w)],
        )

    np.testing.assert_array_equal(f(x), np.pad(x, [(0, 0), (ahead, behind), (ahead, behind)], mode=mode.split(",")[0]))
    traced = f.lower(x).text("traced")
    assert "assert" not in traced, "places that turn back at a border are known to stay within"
    if shape[2] in (56, 200) and dtype == np.float32:
        assert "vectorized" in f.lower(x).text("scheduled"), "the middle of a row is a copy"


def test_places_that_turn_back_too_late_are_checked():
    f = lathe.jit(lambda x: lathe.compute((3, 50), lambda i, t: x[i, lathe.where(t >= 42, 82 - t, t)]))
    with pytest.raises(IndexError, match="index 40 is out of range on axis 1"):
        f(x)


@pytest.mark.parametrize("shape", [(2, 40, 50), (1, 7, 9), (1, 33, 16)])
def test_costly_windows_beyond_the_border(shape):
    image = np.random.default_rng(2).standard_normal(shape, np.float32)

    @lathe.jit
    def smoothed(x):
        _, h, w = x.shape

        def near(b, i, j):
            return x[b, TURNED["reflect"](i, h), TURNED["reflect"](j, w)]

        def weight(b, i, j, r, s):
            return lathe.exp(-((near(b, i + r - 2, j + s - 2) - x[b, i, j]) ** 2))

        total = lathe.compute(x.shape, lambda b, i, j: lathe.reduce("sum", (5, 5), lambda r, s: weight(b, i, j, r, s)))
        return lathe.compute(x.shape, lambda b, i, j: lathe.reduce(
            "sum", (5, 5), lambda r, s: weight(b, i, j, r, s) * near(b, i + r - 2, j + s - 2))) / total  # fmt: skip

    around = np.pad(image.astype(np.float64), [(0, 0), (2, 2), (2, 2)], mode="reflect")
    windows = np.lib.stride_tricks.sliding_window_view(around, (5, 5), (1, 2))
    weights = np.exp(-((windows - image[..., None, None]) ** 2))
    expected = (weights * windows).sum((-1, -2)) / weights.sum((-1, -2))
    np.testing.assert_allclose(smoothed(image), expected, rtol=1e-5, atol=1e-5)
    if shape == (2, 40, 50):
        assert "exp" not in smoothed.lower(image).text("scheduled").split("vectorized")[0], "neighbours side by side"


@pytest.mark.parametrize("length", [5, 16, 203])
def test_places_that_are_guarded_twice_are_read_as_they_lie(length):
    rng = np.random.default_rng(length)
    x, m = rng.standard_normal((7, length), np.float32), rng.standard_normal((7, 12), np.float32)
    ask = rng.integers(0, 2, (7, length)).astype(bool)

    def terms(lib, x, m, ask, i, t, k):
        safe = lib.where(t - k >= 0, t - k, 0)
        moving = lib.where(t - k >= 0, x[i, safe], 0.0) * m[i, k]
        asked = lib.where((t - k >= 0) & ask[i, lib.where(t - k >= 0, t - k, 0)], x[i, safe], -1.0)
        return moving, asked

    def sums(x, m, ask, which):
        return lathe.compute(
            x.shape, lambda i, t: lathe.reduce("sum", 12, lambda k: terms(lathe, x, m, ask, i, t, k)[which])
        )

    f = lathe.jit(lambda x, m, ask: (sums(x, m, ask, 0), sums(x, m, ask, 1)))
    moving, asked = f(x, m, ask)
    i, t, k = np.ix_(range(7), range(length), range(12))
    expected = terms(np, x.astype(np.float64), m.astype(np.float64), ask, i, t, k)
    np.testing.assert_allclose(moving, expected[0].sum(2), rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(asked, expected[1].sum(2), rtol=1e-5, atol=1e-5)
    assert "select(vk" not in f.lower(x, m, ask).text("traced").replace(" ", "")


@pytest.mark.parametrize("channels", [1, 3, 17, 64])
def test_rows_of_pixels_are_padded_as_one_run(channels):
    x = np.random.default_rng(channels).integers(-99, 99, (2, 7, 41, channels), np.int8)
    f = lathe.jit(lambda x: lathe.pad(x, [(0, 0), (1, 1), (2, 1), (0, 0)], value=-7))
    np.testing.assert_array_equal(f(x), np.pad(x, [(0, 0), (1, 1), (2, 1), (0, 0)], constant_values=-7))
    if channels == 17:
        assert "// 17" in f.lower(x).text("scheduled"), "a loop through pixels and their channels"


@pytest.mark.parametrize("rows", [13, 1])
def test_choices_between_both_ends_need_no_check(rows):
    """Each arm lies inside where it is taken, which the sum of the choices alone does not say."""
    image = np.random.default_rng(1).standard_normal((rows, 40))

    def around(t, n):
        return lathe.where(t < 0, t + n, lathe.where(t >= n, t - n, t))

    @lathe.jit
    def f(x):
        def element(i, j):
            above, below = around(i - 1, rows), around(i + 1, rows)
            return x[above, j] + x[below, j] + x[i, around(j - 1, 40)] + x[i, around(j + 1, 40)]

        return lathe.compute(x.shape, element)

    expected = sum(np.roll(image, shift, axis) for axis in (0, 1) for shift in (-1, 1))
    np.testing.assert_allclose(f(image), expected, rtol=1e-5, atol=1e-5)
    assert "index" not in f.lower(image).text("traced")


def test_data_is_not_mirrored_past_the_ends_of_its_integers():
    """10 less the least integer wraps: the greater of both is no more than that."""
    f = lathe.jit(lambda x, p: lathe.compute((1,), lambda i: x[lathe.minimum(lathe.maximum(p[i], 10 - p[i]), 15)]))
    image = np.arange(16, dtype=np.uint8)
    np.testing.assert_array_equal(f(image, np.array([3])), [7])
    with pytest.raises(IndexError, match="out of range"):
        f(image, np.array([np.iinfo(np.int64).min]))


def test_rows_of_clipped_places_beside_columns_that_wrap():
    image = np.arange(36.0).reshape(9, 4)

    @lathe.jit
    def f(x):
        def element(i, k):
            row, first, second = lathe.clip(2 * i - 1, 0, 2), (2 * k + 1) % 4, (2 * k + 2) % 4
            return lathe.where(k < 2, x[row, first], x[row, second]) + x[row, first]

        return lathe.compute((3, 4), element)

    rows = image[[0, 1, 2]]
    expected = [[rows[i, (2 * k + 1 + (k >= 2)) % 4] + rows[i, (2 * k + 1) % 4] for k in range(4)] for i in range(3)]
    np.testing.assert_array_equal(f(image), expected)


def test_maxima_of_long_terms_are_compiled_once():
    """Steps whose terms look up several elements are not all written one behind the other."""

    def mirrored(t, n):
        q = lathe.abs(t)
        return lathe.clip(lathe.minimum(q, 2 * (n - 1) - q), 0, n - 1)

    def wrapped(t, n):
        return lathe.clip(lathe.where(t < 0, t + n, lathe.where(t >= n, t - n, t)), 0, n - 1)

    @lathe.jit
    def f(x):
        def element(i, j):
            taps = [x[wrapped(203 - 2 * i + s % 5, 100), mirrored(j + s % 7 - 3, 16)] * (s + 1) for s in range(6)]
            return sum(taps)

        return lathe.compute((103, 14), element).max(axis=-1)

    image = np.random.default_rng(0).standard_normal((100, 16)).astype(np.float32)
    i, j = np.arange(103)[:, None], np.arange(14)
    expected = np.zeros((103, 14), np.float32)
    for s in range(6):
        row = 203 - 2 * i + s % 5
        row = np.clip(np.where(row < 0, row + 100, np.where(row >= 100, row - 100, row)), 0, 99)
        expected += image[row, np.minimum(abs(column := j + s % 7 - 3), 30 - abs(column))] * (s + 1)
    np.testing.assert_allclose(f(image), expected.max(-1), rtol=1e-4, atol=1e-4)
    assert len(f.lower(image).text("end").splitlines()) < 200
