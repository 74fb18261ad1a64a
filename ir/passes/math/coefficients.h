#pragma once
/// Written by minimax.py beside this file, which says how; lowest degree first.
// clang-format off

namespace lathe::math::coefficients {

/// (e^r - 1 - r) / r^2 for |r| <= ln(2)/2; relative to e^r; error 2^-28.2.
inline constexpr float exp[] = {
    0x1.fffffc0000000p-2f, 0x1.5554900000000p-3f, 0x1.5558b40000000p-5f, 0x1.123b2a0000000p-7f,
    0x1.6a4b8e0000000p-10f};

/// the same, relative to e^r - 1; error 2^-30.7.
inline constexpr float expm1[] = {
    0x1.0000000000000p-1f, 0x1.5555540000000p-3f, 0x1.5554f60000000p-5f, 0x1.1113e00000000p-7f,
    0x1.6d3b200000000p-10f, 0x1.9c4d840000000p-13f};

/// (2^r - 1) / r for |r| <= 1/2; relative to 2^r; error 2^-28.3.
inline constexpr float exp2[] = {
    0x1.62e4300000000p-1f, 0x1.ebfbdc0000000p-3f, 0x1.c6af780000000p-5f, 0x1.3b2dde0000000p-7f,
    0x1.5f0b160000000p-10f, 0x1.4170d40000000p-13f};

/// (log(1+f) - f) / f^2 for |f| <= 1/3; relative to log(1+f); error 2^-27.7.
inline constexpr float log[] = {
    -0x1.0000000000000p-1f, 0x1.5555060000000p-2f, -0x1.fffefc0000000p-3f, 0x1.99d0440000000p-3f,
    -0x1.559c440000000p-3f, 0x1.1ed6620000000p-3f, -0x1.f331c60000000p-4f, 0x1.1e679e0000000p-3f,
    -0x1.07ce6a0000000p-3f};

/// erf(x)/x - 1 in u = x^2 for x <= 1.1875; relative to erf(x)/x; error 2^-30.1.
inline constexpr float erf_small[] = {
    0x1.06eba80000000p-3f, -0x1.8127420000000p-2f, 0x1.ce2e3c0000000p-4f, -0x1.b81b140000000p-6f,
    0x1.55a2940000000p-8f, -0x1.b795600000000p-11f, 0x1.be50d80000000p-14f, -0x1.0fc3180000000p-17f};

/// erfc(t)^(1/8) in t - 2 for 1.1875 <= t <= 4; its 8th power relative to erf(t); error 2^-29.1.
inline constexpr float erf_large[] = {
    0x1.05d5400000000p-1f, -0x1.21348a0000000p-2f, 0x1.3648b20000000p-6f, 0x1.19e2760000000p-6f,
    -0x1.6f22420000000p-9f, -0x1.5b15f60000000p-11f, 0x1.7171fa0000000p-13f, 0x1.3f24ca0000000p-17f};

/// (sin(r) - r) / r^3 in u = r^2 for |r| <= pi/4; relative to sin(r); error 2^-27.8.
inline constexpr float sin[] = {
    -0x1.5555440000000p-3f, 0x1.1106c60000000p-7f, -0x1.991c280000000p-13f};

/// (cos(r) - 1 + r^2/2) / r^4 in u = r^2 for |r| <= pi/4; relative to cos(r); error 2^-32.5.
inline constexpr float cos[] = {
    0x1.55554a0000000p-5f, -0x1.6c0c220000000p-10f, 0x1.99e3ce0000000p-16f};

/// log2(1+f) / f for 1+f in [sqrt(1/2), sqrt(2)], in f64; relative; error 2^-38.4.
inline constexpr double pow_log2[] = {
    0x1.71547652b56f0p+0, -0x1.71547651af08dp-1, 0x1.ec709de49134bp-2, -0x1.71547896fee3bp-2, 0x1.2776b64427fc6p-2,
    -0x1.ec6f26127e78dp-3, 0x1.a61ba294a76b8p-3, -0x1.7189bae922626p-3, 0x1.481dc81e31434p-3, -0x1.23ca23ecc3fd6p-3,
    0x1.0ad4d86adad36p-3, -0x1.13fbcd78e6761p-3, 0x1.0f751b09d031cp-3, -0x1.1d05d28cff394p-4};

/// 2^r for |r| <= 1/2, in f64; relative; error 2^-34.5.
inline constexpr double pow_exp2[] = {
    0x1.ffffffffa9180p-1, 0x1.62e42ff121c16p-1, 0x1.ebfbe0a8ca148p-3, 0x1.c6b08a9ebd419p-5, 0x1.3b29d8d74fff7p-7,
    0x1.5d8a7a2ae1f26p-10, 0x1.446cdf7537a99p-13, 0x1.fe144bee1710ap-17};

}  // namespace lathe::math::coefficients
