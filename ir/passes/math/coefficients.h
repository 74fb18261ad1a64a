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

/// the same for |r| <= 1/32; error 2^-29.2.
inline constexpr float exp2_sixteenth[] = {
    0x1.62e4300000000p-1f, 0x1.ebfffc0000000p-3f, 0x1.c6ace20000000p-5f};

/// 2^(k/16); error 2^-24.3.
inline constexpr float sixteenths[] = {
    0x1.0000000000000p+0f, 0x1.0b55860000000p+0f, 0x1.172b840000000p+0f, 0x1.2387a60000000p+0f, 0x1.306fe00000000p+0f,
    0x1.3dea640000000p+0f, 0x1.4bfdae0000000p+0f, 0x1.5ab07e0000000p+0f, 0x1.6a09e60000000p+0f, 0x1.7a11480000000p+0f,
    0x1.8ace540000000p+0f, 0x1.9c49180000000p+0f, 0x1.ae89fa0000000p+0f, 0x1.c199be0000000p+0f, 0x1.d5818e0000000p+0f,
    0x1.ea4afa0000000p+0f};

/// what these lack, as a part of them; error 2^-49.3.
inline constexpr float sixteenths_rest[] = {
    0x0.0p+0f, 0x1.8d96d40000000p-25f, -0x1.9c0c220000000p-27f, 0x1.9649040000000p-25f, 0x1.1250020000000p-25f,
    0x1.370be40000000p-25f, -0x1.0a35500000000p-25f, -0x1.00d8ac0000000p-27f, 0x1.26055c0000000p-26f,
    -0x1.05cb440000000p-25f, 0x1.67a1ca0000000p-28f, 0x1.a3b5e40000000p-28f, -0x1.f9c3040000000p-27f,
    -0x1.6961b40000000p-28f, -0x1.a5217c0000000p-28f, 0x1.61428e0000000p-28f};

/// (e^r - 1 - r) / r^2 for |r| <= ln(2)/32; relative to e^r; error 2^-29.2.
inline constexpr float exp_sixteenth[] = {
    0x1.0002220000000p-1f, 0x1.55559a0000000p-3f};

/// (log(1+f) - f) / f^2 for 1+f in [3/4, 3/2); relative to log(1+f); error 2^-26.3.
inline constexpr float log[] = {
    -0x1.0000000000000p-1f, 0x1.5555a40000000p-2f, -0x1.00004a0000000p-2f, 0x1.99691a0000000p-3f,
    -0x1.550e020000000p-3f, 0x1.28f32c0000000p-3f, -0x1.0c03760000000p-3f, 0x1.9d96a00000000p-4f,
    -0x1.53c2600000000p-5f};

/// log2(1+f) / f less the nearest float to log2(e), for 1+f in [3/4, 3/2); relative; error 2^-27.6.
inline constexpr float log2[] = {
    0x1.c7f8a40000000p-27f, -0x1.7154760000000p-1f, 0x1.ec71360000000p-2f, -0x1.7155540000000p-2f,
    0x1.2750d40000000p-2f, -0x1.ebbee00000000p-3f, 0x1.abd7160000000p-3f, -0x1.85d94c0000000p-3f,
    0x1.36cea40000000p-3f, -0x1.0c13320000000p-4f};

/// log10(1+f) / f less the nearest float to log10(e), for 1+f in [3/4, 3/2); relative; error 2^-27.8.
inline constexpr float log10[] = {
    -0x1.9915e20000000p-27f, -0x1.bcb7b20000000p-3f, 0x1.287ad80000000p-3f, -0x1.bcb80a0000000p-4f,
    0x1.63958a0000000p-4f, -0x1.281bcc0000000p-4f, 0x1.01ce6c0000000p-4f, -0x1.d529f60000000p-5f,
    0x1.73a4280000000p-5f, -0x1.3db95e0000000p-6f};

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

/// (tan(r) - r) / r^3 in u = r^2 for |r| <= pi/4; relative to tan(r); error 2^-29.3.
inline constexpr float tan[] = {
    0x1.5555620000000p-2f, 0x1.110d180000000p-3f, 0x1.baf17a0000000p-5f, 0x1.5bc9b00000000p-6f, 0x1.67dc4a0000000p-7f,
    -0x1.a53ef20000000p-14f, 0x1.2514760000000p-8f};

/// (atan(t) - t) / t^3 in u = t^2 for t <= 1; relative to atan(t); error 2^-28.2.
inline constexpr float atan[] = {
    -0x1.55553e0000000p-2f, 0x1.9991e40000000p-3f, -0x1.2420a80000000p-3f, 0x1.c092e60000000p-4f,
    -0x1.58336e0000000p-4f, 0x1.db15080000000p-5f, -0x1.0003c20000000p-5f, 0x1.6796f80000000p-7f,
    -0x1.dab4220000000p-10f};

/// (asin(s) - s) / s^3 in u = s^2 for s <= 1/2; relative to asin(s); error 2^-27.7.
inline constexpr float asin[] = {
    0x1.5555c60000000p-3f, 0x1.3302c60000000p-4f, 0x1.7467660000000p-5f, 0x1.8d0c000000000p-6f, 0x1.58aca40000000p-5f};

/// (e^r - 1 - r) / r^2 for |r| <= ln(2)/2, in f64; relative to e^r; error 2^-57.7.
inline constexpr double wide_exp[] = {
    0x1.000000000000ap-1, 0x1.55555555554f9p-3, 0x1.5555555550603p-5, 0x1.1111111127f00p-7, 0x1.6c16c184b94c5p-10,
    0x1.a01a0129bf11dp-13, 0x1.a0199878da686p-16, 0x1.71df251d0a732p-19, 0x1.28aef497120bcp-22, 0x1.ad829b2341207p-26};

/// the same, relative to e^r - 1; error 2^-61.6.
inline constexpr double wide_expm1[] = {
    0x1.0000000000000p-1, 0x1.5555555555559p-3, 0x1.555555555554bp-5, 0x1.111111110f61dp-7, 0x1.6c16c16c1ba8cp-10,
    0x1.a01a01b02a375p-13, 0x1.a01a018900d70p-16, 0x1.71ddf78baef41p-19, 0x1.27e51dfbae60ep-22, 0x1.af604511a4177p-26,
    0x1.1f0a1773ab418p-29};

/// (log(1+f) - 2s) / s^3 in u = s^2 with s = f/(2+f), for 1+f in [3/4, 3/2); relative to log(1+f); error 2^-61.7.
inline constexpr double wide_log[] = {
    0x1.555555555554fp-1, 0x1.999999999c140p-2, 0x1.24924921e97d2p-2, 0x1.c71c748a365b8p-3, 0x1.745c4c4b1ecddp-3,
    0x1.3b358ee9f00ecp-3, 0x1.0dcefe5bebc05p-3, 0x1.1b69e084102d0p-3};

/// as sin, in f64; error 2^-57.8.
inline constexpr double wide_sin[] = {
    -0x1.5555555555547p-3, 0x1.111111110f5efp-7, -0x1.a01a019bc629ep-13, 0x1.71de3539a16afp-19,
    -0x1.ae5e376debdb4p-26, 0x1.5d85d1666c840p-33};

/// as tan, in f64; error 2^-56.2.
inline constexpr double wide_tan[] = {
    0x1.55555555554edp-2, 0x1.1111111118900p-3, 0x1.ba1ba1b41a7d0p-5, 0x1.664f49b8a91f0p-6, 0x1.226e1077c0119p-7,
    0x1.d6d97ad29b9b3p-9, 0x1.7d57dc1ca57a7p-10, 0x1.3818f7415276cp-11, 0x1.d0ffb5f77e21bp-13, 0x1.2134dbb98f7cdp-13,
    -0x1.dc1d5d49ed3f5p-16, 0x1.7f0b83d01bb05p-14, -0x1.811b3558f2cf9p-15, 0x1.624486d6892a9p-16};

/// as atan, in f64; error 2^-57.4.
inline constexpr double wide_atan[] = {
    -0x1.5555555555520p-2, 0x1.9999999994dedp-3, -0x1.2492492363673p-3, 0x1.c71c7179721e2p-4, -0x1.745d113f1b78ep-4,
    0x1.3b1361955e0b8p-4, -0x1.110e289ba5046p-4, 0x1.e1b9c90532e10p-5, -0x1.ae56392ee75c0p-5, 0x1.82bf266c978ebp-5,
    -0x1.595bf3874d7f4p-5, 0x1.2b9c92cfb8fe8p-5, -0x1.e82e87e66f9ecp-6, 0x1.660b261f6d8b0p-6, -0x1.c3728a3030873p-7,
    0x1.d1eb69d2e91f3p-8, -0x1.744519a23c795p-9, 0x1.ab978f1d9b9fcp-11, -0x1.37f6bfaba972bp-13, 0x1.b05752ce86c4dp-17};

/// as asin, in f64; error 2^-56.1.
inline constexpr double wide_asin[] = {
    0x1.55555555553bep-3, 0x1.3333333369df8p-4, 0x1.6db6db4533365p-5, 0x1.f1c72b67c08d7p-6, 0x1.6e8a06be5e83ep-6,
    0x1.1c6ad85c4283ap-6, 0x1.c71156e170fd7p-7, 0x1.8e477a73a9b71p-7, 0x1.afd4f646d6d4cp-8, 0x1.3d4bf41f1d0ecp-6,
    -0x1.05c899d726536p-6, 0x1.04155a31000fdp-5};

/// as cos, in f64; error 2^-63.9.
inline constexpr double wide_cos[] = {
    0x1.555555555554ap-5, -0x1.6c16c16c14e14p-10, 0x1.a01a019c5f919p-16, -0x1.27e4f7d060132p-22,
    0x1.1ee9c5c8e5001p-29, -0x1.8f9b4de1ef7e5p-37};

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

/// tanh(x) in cells, which bits from 22 on of 0.828125 x + 0.5 name: centers, then coefficients; relative; error 2^-25.9.
inline constexpr float tanh_few_cells[][8] = {
    {
        0x1.353b500000000p+1f, 0x1.cfce380000000p+1f, 0x1.5bc00a0000000p+2f, 0x1.f66ff20000000p+2f, 0x0.0p+0f,
        0x1.d02eb80000000p-2f, 0x1.d01ab80000000p-1f, 0x1.8259440000000p+0f},
    {
        0x1.f7e6900000000p-1f, 0x1.ff45660000000p-1f, 0x1.fffb000000000p-1f, 0x1.fffff60000000p-1f, 0x0.0p+0f,
        0x1.b2cd160000000p-2f, 0x1.7058960000000p-1f, 0x1.d0471a0000000p-1f},
    {
        0x1.0121460000000p-5f, 0x1.74eff40000000p-9f, 0x1.3ff4520000000p-14f, 0x1.45d1080000000p-21f,
        0x1.0000000000000p+0f, 0x1.a3b0800000000p-1f, 0x1.ee01300000000p-2f, 0x1.6bfc5c0000000p-3f},
    {
        -0x1.fa1cbc0000000p-6f, -0x1.746a440000000p-9f, -0x1.40a6c40000000p-14f, -0x1.5689720000000p-21f,
        -0x1.2499000000000p-23f, -0x1.6468b60000000p-2f, -0x1.6366ac0000000p-2f, -0x1.4a0f2c0000000p-3f},
    {
        0x1.46ada40000000p-6f, 0x1.ef22e60000000p-10f, 0x1.ab54820000000p-15f, 0x1.b2e9ba0000000p-22f,
        -0x1.55531e0000000p-2f, -0x1.00ebfc0000000p-3f, 0x1.6c13680000000p-4f, 0x1.63ef180000000p-4f},
    {
        -0x1.3207980000000p-7f, -0x1.ebb9160000000p-11f, -0x1.9facea0000000p-16f, -0x1.4f71580000000p-23f,
        -0x1.6c360a0000000p-13f, 0x1.5aadaa0000000p-3f, 0x1.a89a620000000p-5f, -0x1.9b06bc0000000p-6f},
    {
        0x1.a8f4f20000000p-9f, 0x1.8501620000000p-12f, 0x1.4e134e0000000p-17f, 0x1.561dea0000000p-24f,
        0x1.145d000000000p-3f, -0x1.7ce88a0000000p-7f, -0x1.cc98ea0000000p-5f, -0x1.2a92300000000p-9f},
    {
        -0x1.710bbc0000000p-11f, -0x1.088e0a0000000p-13f, -0x1.14f6d80000000p-18f, -0x1.a45ac40000000p-25f,
        -0x1.d715be0000000p-8f, -0x1.df73d40000000p-5f, 0x1.c434d60000000p-7f, 0x1.cbe2180000000p-8f},
    {
        0x1.5f08e40000000p-18f, 0x1.1d70d20000000p-15f, 0x1.35fb0e0000000p-20f, 0x1.362f920000000p-27f,
        -0x1.4c2f060000000p-5f, 0x1.3722e40000000p-6f, 0x1.355e920000000p-7f, -0x1.f9acdc0000000p-9f},
};

/// erf(x) in cells, which bits from 21 on of 0.46875 x + 0.625 name: centers, then coefficients; relative; error 2^-25.4.
inline constexpr float erf_few_cells[][8] = {
    {
        0x1.bb95bc0000000p+1f, 0x0.0p+0f, 0x1.9ad59a0000000p-2f, 0x1.55e1560000000p-1f, 0x1.10c2120000000p+0f,
        0x1.99409a0000000p+0f, 0x1.10f6120000000p+1f, 0x1.5584d60000000p+1f},
    {
        0x1.ffffe00000000p-1f, 0x0.0p+0f, 0x1.b7dc300000000p-2f, 0x1.4f5b540000000p-1f, 0x1.bc7c400000000p-1f,
        0x1.f3d4600000000p-1f, 0x1.feb0160000000p-1f, 0x1.ffeae20000000p-1f},
    {
        0x1.d9d72e0000000p-18f, 0x1.06eba80000000p-3f, 0x1.ebd57a0000000p-1f, 0x1.71e6d20000000p-1f,
        0x1.7350580000000p-2f, 0x1.66d83a0000000p-4f, 0x1.87a8480000000p-7f, 0x1.df079a0000000p-11f},
    {
        -0x1.91fed60000000p-16f, -0x1.a12e160000000p-21f, -0x1.8aa7260000000p-2f, -0x1.edfe040000000p-2f,
        -0x1.8b9edc0000000p-2f, -0x1.1ed53e0000000p-3f, -0x1.a19bbe0000000p-6f, -0x1.3f844e0000000p-9f},
    {
        0x1.8c83020000000p-15f, -0x1.811bf00000000p-2f, -0x1.bca8d20000000p-3f, -0x1.ab48980000000p-6f,
        0x1.3a5eba0000000p-3f, 0x1.ebe1da0000000p-4f, 0x1.0847780000000p-5f, 0x1.08046c0000000p-8f},
    {
        -0x1.4e82bc0000000p-14f, -0x1.8e4b3a0000000p-11f, 0x1.604e880000000p-3f, 0x1.5b1e5a0000000p-3f,
        0x1.8128bc0000000p-5f, -0x1.93ab700000000p-5f, -0x1.a854840000000p-6f, -0x1.2b36660000000p-8f},
    {
        0x1.1eeb220000000p-13f, 0x1.e5fc360000000p-4f, 0x1.3269260000000p-5f, -0x1.2d9d840000000p-5f,
        -0x1.086b6c0000000p-4f, -0x1.575d8a0000000p-8f, 0x1.8f4f5c0000000p-7f, 0x1.eb1df20000000p-9f},
    {
        -0x1.e21d580000000p-14f, -0x1.4c8be00000000p-6f, -0x1.9f5d1c0000000p-5f, -0x1.27ff520000000p-5f,
        0x1.4c1c7c0000000p-7f, 0x1.f821d20000000p-7f, -0x1.caafc40000000p-10f, -0x1.0bfae00000000p-9f},
};

/// tanh(x) in cells, which bits from 23 on of 1.59375 x + 1.0 name: centers, then coefficients; relative; error 2^-26.5.
inline constexpr float tanh_four_cells[][4] = {
    {
        0x1.4170420000000p+0f, 0x1.91b0120000000p+1f, 0x1.b9ac7a0000000p+2f, 0x0.0p+0f},
    {
        0x1.b31fc80000000p-1f, 0x1.fe140a0000000p-1f, 0x1.ffffbc0000000p-1f, 0x0.0p+0f},
    {
        0x1.1c6afa0000000p-2f, 0x1.eb087c0000000p-8f, 0x1.112efa0000000p-18f, 0x1.0000000000000p+0f},
    {
        -0x1.e36d100000000p-3f, -0x1.e930e80000000p-8f, -0x1.1072000000000p-18f, 0x1.8be9020000000p-27f},
    {
        0x1.ba753c0000000p-4f, 0x1.43bc700000000p-8f, 0x1.634d540000000p-19f, -0x1.5555840000000p-2f},
    {
        -0x1.adf7640000000p-7f, -0x1.3edc880000000p-9f, -0x1.66d04e0000000p-20f, 0x1.d842140000000p-17f},
    {
        -0x1.3226f60000000p-6f, 0x1.ecfb880000000p-11f, 0x1.3baa060000000p-21f, 0x1.10ca460000000p-3f},
    {
        0x1.ec59f00000000p-7f, -0x1.33cf120000000p-12f, -0x1.98ae140000000p-23f, 0x1.6964760000000p-11f},
    {
        -0x1.34f3d40000000p-8f, 0x1.44d9b40000000p-14f, 0x1.2c04c20000000p-25f, -0x1.c941600000000p-5f},
    {
        -0x1.cb97100000000p-11f, -0x1.e8ab2e0000000p-17f, -0x1.4f0d140000000p-27f, 0x1.e335f40000000p-10f},
    {
        0x1.badef40000000p-10f, -0x1.003be00000000p-19f, 0x1.69b24c0000000p-28f, 0x1.942c640000000p-6f},
    {
        -0x1.5156f80000000p-11f, 0x1.bbff220000000p-20f, -0x1.0f5c320000000p-30f, -0x1.3eb2e40000000p-7f},
};

/// erf(x) in cells, which bits from 21 on of 0.3125 x + 1.25 name: centers, then coefficients; relative; error 2^-26.5.
inline constexpr float erf_four_cells[][4] = {
    {
        0x1.999e1a0000000p+1f, 0x0.0p+0f, 0x1.32d5340000000p+0f, 0x1.fff7000000000p+0f},
    {
        0x1.ffff360000000p-1f, 0x0.0p+0f, 0x1.d1e2540000000p-1f, 0x1.fd9a820000000p-1f},
    {
        0x1.50c7f40000000p-15f, 0x1.06eba80000000p-3f, 0x1.12b43a0000000p-2f, 0x1.52cb400000000p-6f},
    {
        -0x1.0e4ae80000000p-13f, 0x1.4e88c00000000p-21f, -0x1.49403a0000000p-2f, -0x1.52c5440000000p-5f},
    {
        0x1.14ba8e0000000p-12f, -0x1.812cca0000000p-2f, 0x1.5709a60000000p-3f, 0x1.8b327e0000000p-5f},
    {
        -0x1.8911860000000p-12f, 0x1.0a663a0000000p-12f, 0x1.bdcbbe0000000p-8f, -0x1.1a40c40000000p-5f},
    {
        0x1.969f740000000p-12f, 0x1.c7fffe0000000p-4f, -0x1.b67f9a0000000p-5f, 0x1.aceba20000000p-7f},
    {
        -0x1.5b1be60000000p-12f, 0x1.476aba0000000p-8f, 0x1.3fb22e0000000p-6f, 0x1.f392120000000p-12f},
    {
        0x1.f0de200000000p-13f, -0x1.2aa03c0000000p-5f, 0x1.95270c0000000p-8f, -0x1.bc5df80000000p-9f},
    {
        -0x1.7be0a60000000p-14f, 0x1.53065e0000000p-7f, -0x1.70a26c0000000p-8f, 0x1.862e940000000p-10f},
};

/// erf(x) in cells, which bits from 48 on of x + 6.0 name: centers, then coefficients; relative; error 2^-54.1.
inline constexpr double wide_erf_cells[][16] = {
    {
        0x1.1fffffffda800p+1, 0x1.6000000024800p+1, 0x1.9fffffffd1000p+1, 0x1.e00000002b000p+1, 0x1.0fffffffef400p+2,
        0x1.2fffffffe7000p+2, 0x1.4fffffffe7000p+2, 0x1.6fffffffe7000p+2, 0x0.0p+0, 0x1.7ffffffef4000p-2,
        0x1.3fffffff50000p-1, 0x1.bffffffffe000p-1, 0x1.2000000011000p+0, 0x1.6000000027000p+0, 0x1.a00000004b000p+0,
        0x1.e000000011000p+0},
    {
        0x1.ff40476030890p-1, 0x1.fff2cfb045538p-1, 0x1.ffff6f9f67e3fp-1, 0x1.fffffc2f171e4p-1, 0x1.fffffff01a8b6p-1,
        0x1.ffffffffd759dp-1, 0x1.ffffffffffc05p-1, 0x1.ffffffffffffcp-1, 0x0.0p+0, 0x1.9dd0d2b61b378p-2,
        0x1.3f196dcc88b31p-1, 0x1.91724951b7efbp-1, 0x1.c6dad282a9986p-1, 0x1.e5768c3b57898p-1, 0x1.f4f693b687e99p-1,
        0x1.fbe61eef4e1aap-1},
    {
        0x1.d4143aa067c3ap-8, 0x1.3360ccd05a7a4p-11, 0x1.e9b5e8d4a4fb5p-16, 0x1.d9371e2b69d24p-21,
        0x1.155a0907d890fp-26, 0x1.8a61745631f81p-33, 0x1.5422ef1cabbbdp-40, 0x1.63daf783bf561p-48,
        0x1.06eba8214db69p-3, 0x1.f5f0cdaf77b7bp-1, 0x1.86e96941dcb22p-1, 0x1.0cab61f0868f6p-1, 0x1.45e99bcb86df3p-2,
        0x1.5ce595c3c3857p-3, 0x1.499d478a909bdp-4, 0x1.12ceb37fb54d4p-5},
    {
        -0x1.074b60fa18276p-6, -0x1.a6a5199ea9104p-10, -0x1.8de3cd2c98d96p-14, -0x1.bba3ac489c230p-19,
        -0x1.26afa9990d35cp-24, -0x1.d45048e8ac603p-31, -0x1.bd87170f45205p-38, -0x1.5711268a5bc16p-46,
        -0x1.11014eb856729p-48, -0x1.78749a42930e0p-2, -0x1.e8a3c391471f7p-2, -0x1.d62beb64e9619p-2,
        -0x1.6ea6cf450d5f9p-2, -0x1.dfbbaded61fe8p-3, -0x1.0bcfca20c5c60p-3, -0x1.01a1c847c31a7p-4},
    {
        0x1.63ef61e989a79p-6, 0x1.69cf466b67126p-9, 0x1.9aa489e5a5ba7p-13, 0x1.0b6a7b09cacbbp-17,
        0x1.95ea7017529a3p-23, 0x1.6a8aed39a254ep-29, 0x1.7f8a16f200b8fp-36, 0x1.e2d08f6cd85b4p-44,
        -0x1.812746b03634fp-2, -0x1.e106c51e83e3dp-3, -0x1.c81050292a979p-5, 0x1.7c9d756a09ecap-4,
        0x1.4cb3cf0aafeadp-3, 0x1.4374d82ddec36p-3, 0x1.d6631e193a43cp-4, 0x1.143d1c6f21062p-4},
    {
        -0x1.38a983286450cp-6, -0x1.ab0c27391cc9fp-9, -0x1.2c7d5ef1fbaaep-12, -0x1.d06f585f1763fp-17,
        -0x1.96ba7375294bbp-22, -0x1.9b388fff7def8p-28, -0x1.f3377f451baddp-35, -0x1.a50aa4c17ee5dp-40,
        -0x1.871f4abffdd7bp-37, 0x1.5529abcc881c9p-3, 0x1.6963c8a403441p-3, 0x1.cc60567d7e311p-4,
        0x1.ca5083152bbd5p-6, -0x1.f3b8d52eb2f7ap-6, -0x1.974c036889e02p-5, -0x1.5a316520903f5p-5},
    {
        0x1.5d3b17c57eb00p-7, 0x1.693595c4d61f1p-9, 0x1.490a4d8b7cf81p-12, 0x1.3436bd54fa457p-16,
        0x1.3b46799b4bf32p-21, 0x1.6b4397609f0d9p-27, 0x1.e043beb45b74cp-34, 0x1.70b4e38df12d0p-41,
        0x1.ce2f21aabf5bcp-4, 0x1.7488b8a971256p-5, -0x1.c1242dfcd9a08p-6, -0x1.1350f4b1d20fap-4,
        -0x1.f65d15f19e4eap-5, -0x1.f572c4c82c935p-6, -0x1.17d430b0431ccp-9, 0x1.779b1e57bca93p-7},
    {
        -0x1.7cae0dbba397bp-9, -0x1.b2755bb693456p-10, -0x1.1454651251e33p-12, -0x1.4357b56682a09p-16,
        -0x1.8868dfddafaadp-21, -0x1.013bb710cf975p-26, -0x1.7c3c59fe18d68p-34, 0x1.1ba4cbbb08f86p-34,
        0x1.2c2a3aeee04bdp-31, -0x1.9a7945d3f3943p-5, -0x1.52b266a339b13p-5, -0x1.53bb4a5b7a45ep-7,
        0x1.fd1c6c13b7689p-7, 0x1.6b16f52c089cap-6, 0x1.d857f2e260c14p-7, 0x1.0d099c3ee5861p-8},
    {
        -0x1.5f83323ec1df2p-11, 0x1.52b65d315fb81p-11, 0x1.647f464fb19d9p-13, 0x1.110dbd5768953p-16,
        0x1.916ff712bbe10p-21, 0x1.35e1db60d9717p-26, 0x1.066671b85234ep-32, 0x1.f3ff52fd0567ap-40,
        -0x1.b82d17002705bp-6, -0x1.65c1080091d9dp-8, 0x1.c7cd9d99d10bcp-7, 0x1.30ac20d561fa4p-6,
        0x1.3acc78ad5352fp-7, -0x1.73ffa172fb255p-10, -0x1.954ab10e5296ap-8, -0x1.42fcbb83498c1p-8},
    {
        0x1.06030f6a4a4eep-10, -0x1.7558388060f8fp-14, -0x1.567469f1c598bp-14, -0x1.75669b24e880bp-17,
        -0x1.566f5892f82d8p-21, -0x1.86e76f8c2cea8p-26, -0x1.6f82ad59be108p-29, -0x1.e1fd67e477724p-30,
        0x1.904091080fbb1p-21, 0x1.709ac2e16ba86p-7, 0x1.b62f8f3f65449p-8, -0x1.e3f4ce727fe50p-10,
        -0x1.8b43c511d77b2p-8, -0x1.174047360723fp-8, -0x1.2e44c0e26ee26p-11, 0x1.76ffbb85dd3aap-10},
    {
        -0x1.834c850764d54p-12, -0x1.2ae907350720bp-14, 0x1.b2e7b9f5d179dp-16, 0x1.9a060c71c483fp-18,
        0x1.ea6a832f3ece2p-22, 0x1.0cbecff18fe36p-26, 0x1.2cdce197904d0p-32, 0x1.6a1ccdd69b4c4p-39,
        0x1.55f4a9958b133p-8, 0x1.0411061f89127p-13, -0x1.dc3b23d9bfaecp-9, -0x1.aae0640d4e2e2p-9,
        -0x1.79b9506b1a683p-12, 0x1.9da0afaf81737p-10, 0x1.71cdaeda26cb1p-10, 0x1.7be0184e20437p-12},
    {
        -0x1.82d5472d49b0dp-17, 0x1.cd7d714e1d837p-15, -0x1.38ac62135e98cp-19, -0x1.5d7cc02d4f340p-19,
        -0x1.27491e39df1cep-22, 0x1.938e9554f679ep-25, 0x1.05acf722caf49p-25, 0x1.810abb6f72bbdp-26,
        0x1.013ac319b6e8dp-15, -0x1.076166834b440p-9, -0x1.81871a718dfadp-11, 0x1.d6e16251bc6bfp-11,
        0x1.2e52c8aef04b7p-10, 0x1.5350fde04769ep-12, -0x1.74f00b38e704dp-12, -0x1.996c0b585d09ap-12},
    {
        0x1.0ff83e724d79ap-14, -0x1.00a80a878e547p-16, -0x1.8f28268fafecep-19, 0x1.99d0bc6bd72ddp-21,
        0x1.2f4bf7cdb9eecp-23, 0x1.1007f04325d4cp-27, 0x1.b68ac6bac2260p-33, 0x1.64a8b1ac61390p-39,
        -0x1.f0ef9310cd436p-11, 0x1.e84f670495761p-14, 0x1.61e74c3917ba1p-11, 0x1.96e5b9672fad9p-12,
        -0x1.6e8c7ffd8203cp-13, -0x1.613aaab4cd20cp-12, -0x1.07f02e080eaa4p-13, 0x1.30cb2f3b1bc3bp-14},
    {
        -0x1.70524c7a0fb1cp-16, -0x1.547dbcff9a38bp-20, 0x1.0017c8b74c9b0p-19, -0x1.5fdf5e6065ca7p-24,
        -0x1.e5dbf1e40e434p-25, -0x1.3a9372a6b25f1p-22, -0x1.44dfd4125caf1p-23, -0x1.d9f5d52fe8bc4p-24,
        0x1.4e0e753d4d167p-13, 0x1.3dab5c5891fa2p-12, 0x1.e75207b3b1280p-15, -0x1.91f59d16486eep-13,
        -0x1.28635ddb9b7c6p-13, 0x1.d8e3ccdacf8eep-16, 0x1.555164a093768p-14, 0x1.6009158813bb8p-15},
};

}  // namespace lathe::math::coefficients
