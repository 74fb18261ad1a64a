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

/// tanh(x) in cells, which bits from 21 on of x + 0.625 name: centers, then coefficients; relative; error 2^-24.3.
inline constexpr float tanh_cells[][16] = {
    {
        0x1.9fdd000000000p+0f, 0x1.1020800000000p+1f, 0x1.4fe0000000000p+1f, 0x1.8ff8000000000p+1f,
        0x1.f01c800000000p+1f, 0x1.37fb800000000p+2f, 0x1.7816400000000p+2f, 0x1.b7e7000000000p+2f,
        0x1.0bf3800000000p+3f, 0x0.0p+0f, 0x1.7fe8000000000p-3f, 0x1.3f90000000000p-2f, 0x1.0084000000000p-1f,
        0x1.804a000000000p-1f, 0x1.fff2000000000p-1f, 0x1.4047000000000p+0f},
    {
        0x1.d9bcea0000000p-1f, 0x1.f1a0820000000p-1f, 0x1.faa4ea0000000p-1f, 0x1.fe06ac0000000p-1f,
        0x1.ff8f540000000p-1f, 0x1.fff0b60000000p-1f, 0x1.fffdf00000000p-1f, 0x1.ffffb80000000p-1f,
        0x1.fffffc0000000p-1f, 0x0.0p+0f, 0x1.7b78cc0000000p-3f, 0x1.3593ca0000000p-2f, 0x1.da04c40000000p-2f,
        0x1.455e600000000p-1f, 0x1.85e9ca0000000p-1f, 0x1.b27a040000000p-1f},
    {
        0x1.26a8aa0000000p-3f, 0x1.c57b120000000p-5f, 0x1.54fa8c0000000p-6f, 0x1.f85aaa0000000p-8f,
        0x1.c2813c0000000p-10f, 0x1.e93ba80000000p-13f, 0x1.0801c40000000p-15f, 0x1.1f7fca0000000p-18f,
        0x1.caecdc0000000p-23f, 0x1.0000000000000p+0f, 0x1.ee6c080000000p-1f, 0x1.d1343c0000000p-1f,
        0x1.92494e0000000p-1f, 0x1.313ba00000000p-1f, 0x1.ae1faa0000000p-2f, 0x1.1e9e100000000p-2f},
    {
        -0x1.10a75a0000000p-3f, -0x1.b8be280000000p-5f, -0x1.5164e80000000p-6f, -0x1.f660460000000p-8f,
        -0x1.c18f680000000p-10f, -0x1.e891400000000p-13f, -0x1.07adfa0000000p-15f, -0x1.1b01fc0000000p-18f,
        -0x1.5425da0000000p-23f, 0x1.44d58c0000000p-22f, -0x1.6e716a0000000p-3f, -0x1.1948320000000p-2f,
        -0x1.7470360000000p-2f, -0x1.83f12e0000000p-2f, -0x1.478ffa0000000p-2f, -0x1.e671760000000p-3f},
    {
        0x1.3422d40000000p-4f, 0x1.15394a0000000p-5f, 0x1.b871260000000p-7f, 0x1.4c56be0000000p-8f,
        0x1.2b38660000000p-10f, 0x1.45b3240000000p-13f, 0x1.5f8c720000000p-16f, 0x1.7e92120000000p-19f,
        0x1.2aaf520000000p-23f, -0x1.555b0c0000000p-2f, -0x1.27a54c0000000p-2f, -0x1.c22a6e0000000p-3f,
        -0x1.7f3db40000000p-4f, 0x1.58421e0000000p-5f, 0x1.a8529c0000000p-4f, 0x1.bb6d2e0000000p-4f},
    {
        -0x1.973edc0000000p-6f, -0x1.eba8ce0000000p-7f, -0x1.a971540000000p-8f, -0x1.4aaae20000000p-9f,
        -0x1.386c5e0000000p-11f, -0x1.55498e0000000p-14f, -0x1.708ad60000000p-17f, -0x1.c6452c0000000p-20f,
        -0x1.0def3a0000000p-23f, 0x1.e80ee60000000p-12f, 0x1.ce1abc0000000p-4f, 0x1.42d72c0000000p-3f,
        0x1.4ebdb40000000p-3f, 0x1.97be720000000p-4f, 0x1.cd26880000000p-6f, -0x1.94e69a0000000p-7f},
    {
        0x1.27cc2c0000000p-10f, 0x1.240d780000000p-8f, 0x1.3511700000000p-9f, 0x1.ff498a0000000p-11f,
        0x1.ee9ba80000000p-13f, 0x1.0f46180000000p-15f, 0x1.2669b60000000p-18f, 0x1.44f2c60000000p-21f,
        0x1.24462a0000000p-25f, 0x1.0a46a20000000p-3f, 0x1.7dadf20000000p-4f, 0x1.5fe1640000000p-5f,
        -0x1.a3d22c0000000p-6f, -0x1.02c25e0000000p-4f, -0x1.7bd5200000000p-5f, -0x1.3ca5ee0000000p-6f},
};

/// erf(x) in cells, which bits from 20 on of x + 1.5 name: centers, then coefficients; relative; error 2^-25.9.
inline constexpr float erf_cells[][16] = {
    {
        0x1.400e000000000p-1f, 0x1.bf4c000000000p-1f, 0x1.2036000000000p+0f, 0x1.5fad000000000p+0f,
        0x1.9fe3000000000p+0f, 0x1.dff0000000000p+0f, 0x1.1025000000000p+1f, 0x1.300a800000000p+1f,
        0x1.602c000000000p+1f, 0x1.a00c800000000p+1f, 0x1.dfce000000000p+1f, 0x0.0p+0f, 0x0.0p+0f,
        0x1.7de0000000000p-3f, 0x1.40e0000000000p-2f, 0x1.c048000000000p-2f},
    {
        0x1.3f241e0000000p-1f, 0x1.9113b80000000p-1f, 0x1.c6fd2a0000000p-1f, 0x1.e55a380000000p-1f,
        0x1.f4f1e80000000p-1f, 0x1.fbe50c0000000p-1f, 0x1.fea5f40000000p-1f, 0x1.ff998c0000000p-1f,
        0x1.fff2ea0000000p-1f, 0x1.ffff700000000p-1f, 0x1.fffffc0000000p-1f, 0x0.0p+0f, 0x0.0p+0f,
        0x1.a9f5240000000p-3f, 0x1.5e8f220000000p-2f, 0x1.db4b320000000p-2f},
    {
        0x1.86dc0e0000000p-1f, 0x1.0d50c00000000p-1f, 0x1.454f040000000p-2f, 0x1.5e1d100000000p-3f,
        0x1.4a16b40000000p-4f, 0x1.130f220000000p-5f, 0x1.9272920000000p-7f, 0x1.062b500000000p-8f,
        0x1.31217e0000000p-11f, 0x1.e895940000000p-16f, 0x1.df24b40000000p-21f, 0x0.0p+0f, 0x1.06eba80000000p-3f,
        0x1.16fe8c0000000p+0f, 0x1.05d9640000000p+0f, 0x1.dcf9200000000p-1f},
    {
        -0x1.e8a7480000000p-2f, -0x1.d68fa40000000p-2f, -0x1.6e3df40000000p-2f, -0x1.e0f7aa0000000p-3f,
        -0x1.0c208e0000000p-3f, -0x1.01d60c0000000p-4f, -0x1.abd3100000000p-6f, -0x1.375b8c0000000p-7f,
        -0x1.a2fe000000000p-10f, -0x1.8b0af60000000p-14f, -0x1.9861300000000p-19f, 0x0.0p+0f, 0x1.11f1c60000000p-22f,
        -0x1.a02cdc0000000p-3f, -0x1.4834d00000000p-2f, -0x1.a19cf80000000p-2f},
    {
        -0x1.c78b540000000p-5f, 0x1.7a0c100000000p-4f, 0x1.4ce31c0000000p-3f, 0x1.43c4bc0000000p-3f,
        0x1.d6bfd40000000p-4f, 0x1.14692e0000000p-4f, 0x1.0dab920000000p-5f, 0x1.c15dc20000000p-7f,
        0x1.671bb20000000p-9f, 0x1.9864a40000000p-13f, 0x1.0b0b7c0000000p-17f, 0x0.0p+0f, -0x1.812aec0000000p-2f,
        -0x1.5a1bea0000000p-2f, -0x1.189d660000000p-2f, -0x1.882b340000000p-3f},
    {
        0x1.67830c0000000p-3f, 0x1.cd50300000000p-4f, 0x1.cbc1980000000p-6f, -0x1.e8a56e0000000p-6f,
        -0x1.94ac9a0000000p-5f, -0x1.5991e80000000p-5f, -0x1.af65280000000p-6f, -0x1.b01b280000000p-7f,
        -0x1.bba8f40000000p-9f, -0x1.446d060000000p-12f, -0x1.4114ba0000000p-16f, 0x0.0p+0f, 0x1.15e3de0000000p-12f,
        0x1.95d7d20000000p-4f, 0x1.324a5a0000000p-3f, 0x1.6bacf40000000p-3f},
    {
        -0x1.b380a40000000p-6f, -0x1.1029f40000000p-4f, -0x1.f407a40000000p-5f, -0x1.f686480000000p-6f,
        -0x1.2c0adc0000000p-9f, 0x1.7382a20000000p-7f, 0x1.97c59a0000000p-7f, 0x1.1200e20000000p-7f,
        0x1.72af440000000p-9f, 0x1.5ce3a40000000p-12f, 0x1.604fde0000000p-16f, 0x0.0p+0f, 0x1.c6ec3a0000000p-4f,
        0x1.74b6380000000p-4f, 0x1.259d500000000p-4f, 0x1.7d677c0000000p-6f},
};

}  // namespace lathe::math::coefficients
