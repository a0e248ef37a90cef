// Vector mathematics of jitopt: branch-free, without headers. Each unit gets the functions that it
// calls.
typedef signed char i8;
typedef unsigned char u8;
typedef short i16;
typedef unsigned short u16;
typedef int i32;
typedef unsigned int u32;
typedef long long i64;
typedef unsigned long long u64;
#define JO static inline __attribute__((always_inline, unused))
// The arguments of a kernel; runtime/loading.rs says what each means.
typedef struct {
    const i64 *shape;
    i64 rank, kept, begin, end;
    char *const *data;
    const i64 *strides;
    const double *floats;
    const i64 *integers;
    i64 stream, prefetch, columns, phase, part, parts;
    char *found;
    const i64 *bounds;
} jo_args;

// The start of a row: its position along the dimensions before `kept`, and the offset of each of n
// accesses. One function for all kernels of a unit, with offsets in memory: as separate variables
// they would be incremented inline, and compilers took three times as long.
static __attribute__((noinline, unused)) void jo_first(const i64 *shape, i64 rank, i64 kept, i64 row, const i64 *strides, i64 n, i64 *at, i64 *place)
{
    for (i64 k = 0; k < n; k++) place[k] = 0;
    for (i64 d = kept - 1; d >= 0; d--) {
        at[d] = row % shape[d], row /= shape[d];
        for (i64 k = 0; k < n; k++) place[k] += at[d] * strides[k * rank + d];
    }
}

// Advances to the next position along the dimensions from `first` on and before `end`, the last
// of which is the innermost one.
static __attribute__((noinline, unused)) void jo_next(const i64 *shape, i64 rank, i64 first, i64 end, const i64 *strides, i64 n, i64 *at, i64 *place)
{
    for (i64 d = end - 1; d >= first; d--) {
        for (i64 k = 0; k < n; k++) place[k] += strides[k * rank + d];
        if (++at[d] < shape[d]) return;
        for (i64 k = 0; k < n; k++) place[k] -= shape[d] * strides[k * rank + d];
        at[d] = 0;
    }
}

// Whether a row is in the range of each dimension before `kept`: a first position, and an end.
static __attribute__((unused)) int jo_inside(const i64 *ranges, i64 kept, const i64 *at)
{
    for (i64 d = 0; d < kept; d++)
        if (at[d] < ranges[2 * d] || at[d] >= ranges[2 * d + 1]) return 0;
    return 1;
}

// How far an element is from the first one, at a row: in each dimension with a divisor, the number
// of the position, divided. Less than 0 where a remainder is not below the limit.
static __attribute__((unused)) i64 jo_under(const i64 *divisions, i64 kept, const i64 *at)
{
    i64 far = 0;
    for (i64 d = 0; d < kept; d++) {
        const i64 *const by = divisions + 4 * d;
        if (by[1] == 0) continue;
        if ((at[d] + by[0]) % by[1] >= by[2]) return -1;
        far += (at[d] + by[0]) / by[1] * by[3];
    }
    return far;
}

// Copies bytes with non-temporal stores, in whole cache lines.
static __attribute__((unused)) void jo_stream(void *to, const void *from, i64 bytes)
{
#if defined __AVX512F__
    typedef i64 line __attribute__((vector_size(64)));
#define JO_PUT(to, line) __builtin_ia32_movntdq512(to, line)
#elif defined __AVX__
    typedef i64 line __attribute__((vector_size(32)));
#define JO_PUT(to, line) __builtin_ia32_movntdq256(to, line)
#else
    typedef i64 line __attribute__((vector_size(16)));
#define JO_PUT(to, line) (*(to) = (line))
#endif
#if defined __has_builtin
#if __has_builtin(__builtin_nontemporal_store)
#undef JO_PUT
#define JO_PUT(to, line) __builtin_nontemporal_store(line, to)
#endif
#endif
    typedef line anywhere __attribute__((aligned(1), may_alias));
    u8 *t = to;
    const u8 *f = from;
    const i64 ahead = -(i64)t & (sizeof(line) - 1), head = ahead < bytes ? ahead : bytes;
    i64 i = 0;
    for (; i < head; i++) t[i] = f[i];
    for (; i + (i64)sizeof(line) <= bytes; i += sizeof(line)) JO_PUT((line *)(t + i), *(const anywhere *)(f + i));
    for (; i < bytes; i++) t[i] = f[i];
}

// Makes non-temporal stores visible before other threads are notified.
static __attribute__((unused)) void jo_fence(void) { __sync_synchronize(); }

// Conversions between a number and its bits.
JO u32 jo_bitsf(float x) { union { float x; u32 n; } both; both.x = x; return both.n; }

JO float jo_of_bitsf(u32 n) { union { float x; u32 n; } both; both.n = n; return both.x; }

JO u64 jo_bits(double x) { union { double x; u64 n; } both; both.x = x; return both.n; }

JO double jo_of_bits(u64 n) { union { double x; u64 n; } both; both.n = n; return both.x; }

// a * b + c, rounded once where the processor can. All contractions are explicit: compilers are not
// allowed to contract, which would give a product other digits in a sum than in memory.
JO float jo_fmaf(float a, float b, float c)
{
#if defined __FMA__ || defined __ARM_FEATURE_FMA
    return __builtin_fmaf(a, b, c);
#else
    return a * b + c;
#endif
}

JO double jo_fma(double a, double b, double c)
{
#if defined __FMA__ || defined __ARM_FEATURE_FMA
    return __builtin_fma(a, b, c);
#else
    return a * b + c;
#endif
}

// Truncates floats to integers; out of range the result is the lowest integer, as on x86.
JO i64 jo_cutf(float x) { return x >= -0x1p63f && x < 0x1p63f ? (i64)x : -0x7fffffffffffffffLL - 1; }

JO i64 jo_cut(double x) { return x >= -0x1p63 && x < 0x1p63 ? (i64)x : -0x7fffffffffffffffLL - 1; }

// The same for integers of up to 32 bits.
JO i32 jo_cut32f(float x) { return x >= -0x1p31f && x < 0x1p31f ? (i32)x : -0x7fffffff - 1; }

JO i32 jo_cut32(double x) { return x > -0x1.00000002p31 && x < 0x1p31 ? (i32)x : -0x7fffffff - 1; }

// 16-bit floats. The bits of a half are moved to the position of a float's and scaled by a power of
// two, which handles denormals as well.
JO float jo_from_half(u16 h)
{
    const u32 sign = (u32)(h & 0x8000) << 16, rest = (u32)(h & 0x7fff) << 13;
    const u32 number = jo_bitsf(jo_of_bitsf(rest) * 0x1p112f);
    return jo_of_bitsf(sign | (rest >= 0x0f800000 ? rest | 0x7f800000 : number));
}

// Rounds to nearest even. Denormals are rounded by adding a number with the same last bit.
JO u16 jo_to_half(float x)
{
    const u32 bits = jo_bitsf(x), sign = bits >> 16 & 0x8000, rest = bits & 0x7fffffff;
    const u32 small = jo_bitsf(jo_of_bitsf(rest) + 0.5f) - 0x3f000000;
    const u32 normal = (rest + 0xfff + (rest >> 13 & 1) - 0x38000000) >> 13;
    const u32 large = rest > 0x7f800000 ? 0x7e00 : 0x7c00;
    return (u16)(sign | (rest >= 0x47800000 ? large : rest < 0x38800000 ? small : normal));
}

JO float jo_from_bfloat16(u16 h) { return jo_of_bitsf((u32)h << 16); }

JO u16 jo_to_bfloat16(float x)
{
    const u32 bits = jo_bitsf(x), rounded = (bits + 0x7fff + (bits >> 16 & 1)) >> 16;
    return (u16)((bits & 0x7fffffff) > 0x7f800000 ? (bits >> 16 | 0x40) : rounded);
}

// A zero that compilers do not know to be constant.
static __attribute__((used)) u32 jo_none;

// Bounds that the compiler does not know to be constant: GCC 12 compiles constant ones to a
// comparison and a masked copy, two vector operations in place of one, and shares the mask with
// later computations. NaN passes, and so does -0.0 if the bound is 0.
JO float jo_at_leastf(float x, float bound)
{
    const float b = jo_of_bitsf(jo_bitsf(bound) ^ jo_none);
    return x < b ? b : x;
}

JO float jo_at_mostf(float x, float bound)
{
    const float b = jo_of_bitsf(jo_bitsf(bound) ^ jo_none);
    return x > b ? b : x;
}

// NaN if one of the two is, and the first if they are equal: a bound leaves -0.0 unchanged. In this
// form vectors take one comparison, which is done once if the bound is the same for all elements,
// and one masked maximum; for a constant, which is not NaN, only a maximum.
JO float jo_largerf(float a, float b)
{
    if (__builtin_constant_p(b) && b == b) return jo_at_leastf(a, b);
    const float m = a < b ? b : a;
    return b != b ? b : m;
}

JO double jo_larger(double a, double b)
{
    const double m = a < b ? b : a;
    return b != b ? b : m;
}

JO float jo_smallerf(float a, float b)
{
    if (__builtin_constant_p(b) && b == b) return jo_at_mostf(a, b);
    const float m = a > b ? b : a;
    return b != b ? b : m;
}

JO double jo_smaller(double a, double b)
{
    const double m = a > b ? b : a;
    return b != b ? b : m;
}

// Replaces infinities and NaN by 0.
JO float jo_finitef(float x) { return x - x == 0.0f ? x : 0.0f; }

// Whether the variance from a sum of n differences and the sum of their squares is too inaccurate
// for floats: less than a quarter of the squares is left without the mean, or a sum overflowed.
JO int jo_loses(float sum, float squares, float n)
{
    return !(sum * sum <= squares * n * 0.75f && squares > 1e-33f && squares < 1e33f);
}

JO float jo_absolutef(float x) { return jo_of_bitsf(jo_bitsf(x) & 0x7fffffff); }

JO double jo_absolute(double x) { return jo_of_bits(jo_bits(x) & 0x7fffffffffffffffULL); }

// -x, also where x is a sum of a product that is 0: GCC makes one instruction of a fused sum and a
// minus, which gives such a 0 the wrong sign.
JO float jo_negativef(float x) { return jo_of_bitsf(jo_bitsf(x) ^ 0x80000000u); }

JO double jo_negative(double x) { return jo_of_bits(jo_bits(x) ^ 0x8000000000000000ULL); }

// x with the sign of another number.
JO float jo_signedf(float x, float sign) { return jo_of_bitsf((jo_bitsf(x) & 0x7fffffff) | (jo_bitsf(sign) & 0x80000000u)); }

JO double jo_signed(double x, double sign)
{
    return jo_of_bits((jo_bits(x) & 0x7fffffffffffffffULL) | (jo_bits(sign) & 0x8000000000000000ULL));
}

JO float jo_sqrtf(float x) { return __builtin_sqrtf(x); }

JO double jo_sqrt(double x) { return __builtin_sqrt(x); }

// Infinite if one of the two is, whatever the other one is. Floats are computed in doubles, which
// cannot overflow; doubles are first scaled so that the larger one is near 1.
JO float jo_hypotf(float x, float y)
{
    const double a = x, b = y, c = __builtin_sqrt(a * a + b * b);
    return (jo_absolutef(x) == __builtin_inff()) | (jo_absolutef(y) == __builtin_inff()) ? __builtin_inff() : (float)c;
}

JO double jo_hypot(double x, double y)
{
    const double a = jo_absolute(x), b = jo_absolute(y), high = a < b ? b : a, low = a < b ? a : b;
    // Scales extreme numbers into the range; denormals become normal.
    const double up = high < 0x1p-500 ? 0x1p600 : high > 0x1p500 ? 0x1p-600 : 1.0;
    const double h = high * up, l = low * up, c = __builtin_sqrt(h * h + l * l) * (high < 0x1p-500 ? 0x1p-600 : high > 0x1p500 ? 0x1p600 : 1.0);
    return (a == __builtin_inf()) | (b == __builtin_inf()) ? __builtin_inf() : c;
}

JO float jo_rsqrtf(float x) { return 1.0f / __builtin_sqrtf(x); }

JO double jo_rsqrt(double x) { return 1.0 / __builtin_sqrt(x); }

// Truncates to an integer. From 2^23 on, 2^52 for doubles, all numbers are integers.
JO float jo_truncf(float x)
{
    const float y = jo_absolutef(x);
    return y < 0x1p23f ? jo_signedf((float)(i32)y, x) : x;
}

JO double jo_trunc(double x)
{
    const double y = jo_absolute(x), z = (y + 0x1p52) - 0x1p52;
    return y < 0x1p52 ? jo_signed(z > y ? z - 1.0 : z, x) : x;
}

JO float jo_floorf(float x)
{
    const float y = jo_truncf(x);
    return y > x ? y - 1.0f : y;
}

JO double jo_floor(double x)
{
    const double y = jo_trunc(x);
    return y > x ? y - 1.0 : y;
}

JO float jo_ceilf(float x) { return -jo_floorf(jo_negativef(x)); }

JO double jo_ceil(double x) { return -jo_floor(jo_negative(x)); }

// Rounds to nearest even: the addition rounds.
JO float jo_roundevenf(float x)
{
    const float y = jo_absolutef(x);
    return y < 0x1p23f ? jo_signedf((y + 0x1p23f) - 0x1p23f, x) : x;
}

JO double jo_roundeven(double x)
{
    const double y = jo_absolute(x);
    return y < 0x1p52 ? jo_signed((y + 0x1p52) - 0x1p52, x) : x;
}

// ---- polynomials: near-minimax, fitted in 240 bits (tools/polynomials/fit.py), then rounded.
// (e^r - 1 - r) / r^2 for |r| <= ln(2) / 2.
JO float jo_exp_tailf(float r)
{
    float y = 1.39262504e-03f;
    y = jo_fmaf(y, r, 8.36323295e-03f);
    y = jo_fmaf(y, r, 4.16665524e-02f);
    y = jo_fmaf(y, r, 1.66665763e-01f);
    y = jo_fmaf(y, r, 5.0e-01f);
    return y;
}

// The same.
JO double jo_exp_tail(double r)
{
    double y = 2.09147553258932e-09;
    y = jo_fma(y, r, 2.5105312729622103e-08);
    y = jo_fma(y, r, 2.755727347871858e-07);
    y = jo_fma(y, r, 2.755725517000089e-06);
    y = jo_fma(y, r, 2.480158732567746e-05);
    y = jo_fma(y, r, 0.0001984126987500228);
    y = jo_fma(y, r, 0.0013888888888883711);
    y = jo_fma(y, r, 0.008333333333326084);
    y = jo_fma(y, r, 0.04166666666666667);
    y = jo_fma(y, r, 0.1666666666666667);
    y = jo_fma(y, r, 0.5);
    return y;
}

// 2^n; an exponent out of range is split into two factors, so that denormals are rounded once.
JO double jo_power(i32 n) { return jo_of_bits((u64)(i64)(n + 1023) << 52); }

// 2^(n + more) for an integer n, given the sum of n and 3 * 2^22, whose last bits are those of n.
JO float jo_power_fromf(float shifted, i32 more) { return jo_of_bitsf((jo_bitsf(shifted) << 23) + ((u32)(more + 127) << 23)); }

// c - n ln(2). ln(2) is split in two, the first part so short that its product with n is exact.
JO float jo_restf(float c, float n) { return jo_fmaf(n, -1.42860682e-6f, jo_fmaf(n, -0.693145751953125f, c)); }

// e^x = 2^n e^r with |r| <= ln(2) / 2; 2^n is two factors, both of which are finite, and only the
// last one rounds or overflows.
JO float jo_expf(float x)
{
    const float c = jo_at_leastf(jo_at_mostf(x, 89.0f), -104.0f);
    const float shifted = jo_fmaf(c, 1.44269504f, 12582912.0f), r = jo_restf(c, shifted - 12582912.0f);
    const float y = 1.0f + jo_fmaf(r * r, jo_exp_tailf(r), r);
    return y * jo_power_fromf(shifted, c > 0.0f ? -32 : 32) * (c > 0.0f ? 0x1p32f : 0x1p-32f);
}

// The same for numbers of at most 0, such as the difference of an element and the maximum, with
// fewer operations.
JO float jo_exp_belowf(float x)
{
    const float c = jo_at_leastf(x, -104.0f);
    const float shifted = jo_fmaf(c, 1.44269504f, 12582912.0f), r = jo_restf(c, shifted - 12582912.0f);
    const float y = 1.0f + jo_fmaf(r * r, jo_exp_tailf(r), r);
    return y * jo_power_fromf(shifted, 32) * 0x1p-32f;
}

JO double jo_exp(double x)
{
    const double above = x > 710.0 ? 710.0 : x, c = above < -746.0 ? -746.0 : above;
    const double k = jo_fma(c, 1.4426950408889634, 6755399441055744.0) - 6755399441055744.0;
    const double r = jo_fma(k, -1.9082149292705877e-10, jo_fma(k, -0.6931471803691238, c));
    const double y = 1.0 + jo_fma(r * r, jo_exp_tail(r), r);
    const i32 n = (i32)k, half = n >> 1;
    return y * jo_power(half) * jo_power(n - half);
}

JO double jo_exp_below(double x) { return jo_exp(x); }

// 2^n (e^r - 1) + (2^n - 1), at half the scale so that nothing overflows before the result does.
JO float jo_expm1f(float x)
{
    const float c = jo_at_leastf(jo_at_mostf(x, 89.0f), -18.0f);
    const float shifted = jo_fmaf(c, 1.44269504f, 12582912.0f), r = jo_restf(c, shifted - 12582912.0f);
    const float y = jo_fmaf(r * r, jo_exp_tailf(r), r), scale = jo_power_fromf(shifted, -1);
    return jo_absolutef(x) < 0x1p-26f ? x : 2.0f * jo_fmaf(scale, y, scale - 0.5f);
}

JO double jo_expm1(double x)
{
    const double above = x > 710.0 ? 710.0 : x, c = above < -40.0 ? -40.0 : above;
    const double k = jo_fma(c, 1.4426950408889634, 6755399441055744.0) - 6755399441055744.0;
    const double r = jo_fma(k, -1.9082149292705877e-10, jo_fma(k, -0.6931471803691238, c));
    const double y = jo_fma(r * r, jo_exp_tail(r), r), scale = jo_power((i32)k - 1);
    return jo_absolute(x) < 0x1p-56 ? x : 2.0 * jo_fma(scale, y, scale - 0.5);
}

// 1 / (1 + e^-x), numerator and denominator scaled by 2^-32: so the denominator is finite wherever
// the result is not 0.
JO float jo_sigmoidf(float x)
{
    const float c = jo_at_leastf(jo_at_mostf(x, 60.0f), -105.0f);
    const float shifted = jo_fmaf(c, -1.44269504f, 12582912.0f), r = jo_restf(-c, shifted - 12582912.0f);
    const float y = 1.0f + jo_fmaf(r * r, jo_exp_tailf(r), r);
    return 0x1p-32f / jo_fmaf(y, jo_power_fromf(shifted, -32), 0x1p-32f);
}

// x / (1 + e^-x); where the denominator is large, both are scaled by 2^-32: a product with the
// sigmoid would lose digits where that is denormal and the result is not.
JO float jo_siluf(float x)
{
    const float c = jo_at_leastf(jo_at_mostf(x, 60.0f), -111.0f);
    const float shifted = jo_fmaf(c, -1.44269504f, 12582912.0f), r = jo_restf(-c, shifted - 12582912.0f);
    const float y = 1.0f + jo_fmaf(r * r, jo_exp_tailf(r), r), scale = c < -1.0f ? 0x1p-32f : 1.0f;
    return x * scale / jo_fmaf(y, jo_power_fromf(shifted, c < -1.0f ? -32 : 0), scale);
}

// By the exponential of a negative number, which cannot overflow.
JO double jo_sigmoid(double x)
{
    const double t = jo_exp(-jo_absolute(x));
    return (x < 0.0 ? t : 1.0) / (1.0 + t);
}

// Products with denormals lose digits, below -708.
JO double jo_silu(double x) { return x * jo_sigmoid(x); }

// E / (E + 2) with E = e^2x - 1 keeps its digits near 0; from 10 on, 20 for doubles, it is 1.
JO float jo_tanhf(float x)
{
    const float a = jo_absolutef(x), c = 2.0f * jo_at_mostf(a, 10.0f);
    const float shifted = jo_fmaf(c, 1.44269504f, 12582912.0f), r = jo_restf(c, shifted - 12582912.0f);
    const float scale = jo_power_fromf(shifted, 0), e = jo_fmaf(scale, jo_fmaf(r * r, jo_exp_tailf(r), r), scale - 1.0f);
    return jo_signedf(e / (e + 2.0f), x);
}

JO double jo_tanh(double x)
{
    const double a = jo_absolute(x), e = jo_expm1(2.0 * (a > 20.0 ? 20.0 : a));
    return jo_signed(e / (e + 2.0), x);
}

// Beyond 22 the other exponential is negligible; the square of e^(x/2) overflows only where the
// result does.
JO double jo_sinh(double x)
{
    const double a = jo_absolute(x), e = jo_expm1(a > 23.0 ? 23.0 : a), half = jo_exp(0.5 * a);
    return jo_signed(a > 22.0 ? 0.5 * half * half : 0.5 * (e + e / (e + 1.0)), x);
}

JO double jo_cosh(double x)
{
    const double a = jo_absolute(x), e = jo_exp(a > 23.0 ? 23.0 : a), half = jo_exp(0.5 * a);
    return a > 22.0 ? 0.5 * half * half : 0.5 * (e + 1.0 / e);
}

JO float jo_sinhf(float x) { return (float)jo_sinh(x); }

JO float jo_coshf(float x) { return (float)jo_cosh(x); }

// (log(1 + f) - f + f^2 / 2) / f^3 for 1 + f from sqrt(1/2) to sqrt(2).
JO float jo_log_tailf(float f)
{
    float y = 6.971612e-02f;
    y = jo_fmaf(y, f, -1.1479734e-01f);
    y = jo_fmaf(y, f, 1.168542e-01f);
    y = jo_fmaf(y, f, -1.2425687e-01f);
    y = jo_fmaf(y, f, 1.4249058e-01f);
    y = jo_fmaf(y, f, -1.6667803e-01f);
    y = jo_fmaf(y, f, 2.0000716e-01f);
    y = jo_fmaf(y, f, -2.4999997e-01f);
    y = jo_fmaf(y, f, 3.333333e-01f);
    return y;
}

// (log((1 + s) / (1 - s)) - 2 s) / s^3 = 2/3 + z (...) by z = s^2, in the same range: the factor in
// brackets.
JO double jo_log_rest(double z)
{
    double y = 0.1308707158006738;
    y = jo_fma(y, z, 0.13268730539100895);
    y = jo_fma(y, z, 0.15386241293734357);
    y = jo_fma(y, z, 0.18181795610879042);
    y = jo_fma(y, z, 0.22222222391987728);
    y = jo_fma(y, z, 0.28571428570802404);
    y = jo_fma(y, z, 0.4000000000000088);
    return y;
}

JO double jo_log_tail(double z) { return jo_fma(z, jo_log_rest(z), 0.6666666666666666); }

// x = 2^k m with m from sqrt(1/2) to sqrt(2).
JO float jo_logf(float x)
{
    const float scaled = x < 0x1p-126f ? x * 0x1p24f : x;
    const u32 bits = jo_bitsf(scaled) - 0x3f3504f3u;
    const float k = (float)((i32)bits >> 23) - (x < 0x1p-126f ? 24.0f : 0.0f);
    const float f = jo_of_bitsf((bits & 0x7fffff) + 0x3f3504f3u) - 1.0f, square = f * f;
    const float tail = jo_fmaf(-0.5f, square, jo_fmaf(f * square, jo_log_tailf(f), k * 1.42860682e-6f));
    const float y = jo_fmaf(k, 0.693145751953125f, f + tail);
    const float finite = x > 0.0f ? y : x == 0.0f ? -__builtin_inff() : __builtin_nanf("");
    return x < __builtin_inff() ? finite : x;
}

// log(1 + f) = f - s (f - s^2 P) with s = f / (2 + f).
JO double jo_log_of_mantissa(double f)
{
    const double s = f / (2.0 + f), z = s * s;
    return jo_fma(-s, jo_fma(-z, jo_log_tail(z), f), f);
}

// (x - 2^k) / 2^k, and k, for x = 2^k m with m from sqrt(1/2) to sqrt(2).
JO double jo_mantissa(double x)
{
    const double scaled = x < 0x1p-1022 ? x * 0x1p54 : x;
    const u64 bits = jo_bits(scaled) - 0x3fe6a09e667f3bcdULL;
    return jo_of_bits((bits & 0xfffffffffffffULL) + 0x3fe6a09e667f3bcdULL) - 1.0;
}

JO double jo_exponent(double x)
{
    const double scaled = x < 0x1p-1022 ? x * 0x1p54 : x;
    const i32 k = (i32)((u32)((jo_bits(scaled) - 0x3fe6a09e667f3bcdULL) >> 32)) >> 20;
    return (double)k - (x < 0x1p-1022 ? 54.0 : 0.0);
}

// Results of logarithms outside of their domain.
JO double jo_log_domain(double x, double y)
{
    const double finite = x > 0.0 ? y : x == 0.0 ? -__builtin_inf() : __builtin_nan("");
    return x < __builtin_inf() ? finite : x;
}

JO double jo_log(double x)
{
    const double f = jo_mantissa(x), k = jo_exponent(x);
    return jo_log_domain(x, jo_fma(k, 0.6931471803691238, jo_fma(k, 1.9082149292705877e-10, jo_log_of_mantissa(f))));
}

JO double jo_log2(double x)
{
    const double y = jo_log_of_mantissa(jo_mantissa(x));
    return jo_log_domain(x, jo_exponent(x) + jo_fma(y, 1.4426950408889634, y * 2.0355273740931033e-17));
}

JO double jo_log10(double x)
{
    const double y = jo_log_of_mantissa(jo_mantissa(x)), k = jo_exponent(x);
    return jo_log_domain(x, jo_fma(k, 0.3010299955494702, jo_fma(y, 0.4342944819032518, k * 1.1451100898021838e-10)));
}

// Adds the rounding error of 1 + x.
JO double jo_log1p(double x)
{
    const double u = 1.0 + x, lost = jo_absolute(x) < 1.0 ? x - (u - 1.0) : 1.0 - (u - x);
    const double y = jo_log(u) + (u > 0.0 && u < __builtin_inf() ? lost / u : 0.0);
    return jo_absolute(x) < 0x1p-54 ? x : y;
}

JO float jo_log2f(float x) { return (float)jo_log2(x); }

JO float jo_log10f(float x) { return (float)jo_log10(x); }

JO float jo_log1pf(float x) { return (float)jo_log1p(x); }

// log(a + sqrt(a^2 + 1)) by log1p; beyond 2^28 that is the logarithm of 2 a.
JO double jo_asinh(double x)
{
    const double a = jo_absolute(x), z = a * a;
    const double near = jo_log1p(a + z / (1.0 + jo_sqrt(z + 1.0))), far = jo_log(a) + 0.6931471805599453;
    return jo_signed(a > 0x1p28 ? far : near, x);
}

JO double jo_acosh(double x)
{
    const double t = x - 1.0, near = jo_log1p(t + jo_sqrt(2.0 * t + t * t)), far = jo_log(x) + 0.6931471805599453;
    return x < 1.0 ? __builtin_nan("") : x > 0x1p28 ? far : near;
}

JO double jo_atanh(double x)
{
    const double a = jo_absolute(x), twice = a + a, z = a < 0.5 ? twice + twice * a / (1.0 - a) : twice / (1.0 - a);
    return jo_signed(0.5 * jo_log1p(z), x);
}

JO float jo_asinhf(float x) { return (float)jo_asinh(x); }

JO float jo_acoshf(float x) { return (float)jo_acosh(x); }

JO float jo_atanhf(float x) { return (float)jo_atanh(x); }

// (sin(r) - r) / r^3 by z = r^2, for |r| <= pi / 4.
JO double jo_sin_tail(double z)
{
    double y = -7.586576648405261e-13;
    y = jo_fma(y, z, 1.6058529573291737e-10);
    y = jo_fma(y, z, -2.5052106219528367e-08);
    y = jo_fma(y, z, 2.7557319219301936e-06);
    y = jo_fma(y, z, -0.00019841269841265017);
    y = jo_fma(y, z, 0.008333333333333331);
    y = jo_fma(y, z, -0.16666666666666666);
    return y;
}

// (cos(r) - 1 + z / 2) / z^2.
JO double jo_cos_tail(double z)
{
    double y = -1.1382456865840483e-11;
    y = jo_fma(y, z, 2.0876143829213935e-09);
    y = jo_fma(y, z, -2.755731726001471e-07);
    y = jo_fma(y, z, 2.480158729874308e-05);
    y = jo_fma(y, z, -0.0013888888888887382);
    y = jo_fma(y, z, 0.041666666666666664);
    return y;
}

JO double jo_sin_near_0(double r)
{
    const double z = r * r;
    return jo_fma(r * z, jo_sin_tail(z), r);
}

// Adds the rounding error of 1 - z/2.
JO double jo_cos_near_0(double r)
{
    const double z = r * r, half = 0.5 * z, w = 1.0 - half;
    return w + jo_fma(z * z, jo_cos_tail(z), (1.0 - w) - half);
}

// The bits of 2 / pi, after 64 zeros.
static const u32 jo_two_over_pi[43] = {
    0, 0,
    0xa2f9836e, 0x4e441529, 0xfc2757d1, 0xf534ddc0, 0xdb629599, 0x3c439041, 0xfe5163ab, 0xdebbc561,
    0xb7246e3a, 0x424dd2e0, 0x06492eea, 0x09d1921c, 0xfe1deb1c, 0xb129a73e, 0xe88235f5, 0x2ebb4484,
    0xe99c7026, 0xb45f7e41, 0x3991d639, 0x835339f4, 0x9c845f8b, 0xbdf9283b, 0x1ff897ff, 0xde05980f,
    0xef2f118b, 0x5a0a6d1f, 0x6d367ecf, 0x27cb09b7, 0x4f463f66, 0x9e5fea2d, 0x7527bac7, 0xebe5f17b,
    0x3d0739f7, 0x8a5292ea, 0x6bfb5fb1, 0x1f8d5d08, 0x56033046, 0xfc7b6bab, 0xf0cfbc20, 0x9af4361d,
    0xa9e39161,
};

// A positive number from pi / 4 on in quarter rotations, modulo 4, in units of 2^-62 (Payne and
// Hanek, 1983): its 24 bits times the 96 bits of 2 / pi that matter.
JO u64 jo_turnf(float x)
{
    const u32 bits = jo_bitsf(x) & 0x7fffffff, e = bits >> 23 < 126 ? 126 : bits >> 23;
    const u64 m = (bits & 0x7fffff) | 0x800000;
    const u32 at = e - 150 - 2 + 64, word = at >> 5, shift = at & 31;
    const u64 t0 = jo_two_over_pi[word], t1 = jo_two_over_pi[word + 1];
    const u64 t2 = jo_two_over_pi[word + 2], t3 = jo_two_over_pi[word + 3];
    const u64 w0 = ((t0 << 32 | t1) << shift) >> 32, w1 = ((t1 << 32 | t2) << shift) >> 32, w2 = ((t2 << 32 | t3) << shift) >> 32;
    return (m * w0 << 32) + m * w1 + (m * w2 >> 32);
}

// The sine of a number plus some quarter rotations.
JO double jo_sin_from(double x, u64 turn, double small, u32 quarters)
{
    const u64 q = (turn + 0x2000000000000000ULL) >> 62, rest = turn - (q << 62);
    const u32 is_small = jo_absolute(x) < 0.78;
    const double r = is_small ? small : (double)(i64)rest * (1.5707963267948966 * 0x1p-62);
    const u32 n = (is_small ? 0 : (u32)q) + quarters;
    const double y = (n & 1) ? jo_cos_near_0(r) : jo_sin_near_0(r);
    return (n & 2) ? -y : y;
}

JO float jo_sinf(float x)
{
    const double a = jo_absolutef(x), y = jo_sin_from(a, jo_turnf(x), a, 0);
    const float sine = (float)y;
    return a < __builtin_inf() ? jo_of_bitsf(jo_bitsf(sine) ^ (jo_bitsf(x) & 0x80000000u)) : x - x;
}

JO float jo_cosf(float x)
{
    const double a = jo_absolutef(x);
    return a < __builtin_inf() ? (float)jo_sin_from(a, jo_turnf(x), a, 1) : x - x;
}

JO float jo_tanf(float x)
{
    const double a = jo_absolutef(x);
    const u64 turn = jo_turnf(x);
    const float y = (float)(jo_sin_from(a, turn, a, 0) / jo_sin_from(a, turn, a, 1));
    return a < __builtin_inf() ? jo_of_bitsf(jo_bitsf(y) ^ (jo_bitsf(x) & 0x80000000u)) : x - x;
}

// 64 bits of 2 / pi, starting at a bit.
JO u64 jo_pi_bits(u32 at)
{
    const u32 word = at >> 5, shift = at & 31;
    const u64 high = (u64)jo_two_over_pi[word] << 32 | jo_two_over_pi[word + 1];
    return shift ? high << shift | (u64)jo_two_over_pi[word + 2] >> (32 - shift) : high;
}

// As for floats, with 53 bits times 192; not vectorised, because there is no vector product of 128
// bits. Returns the reduced argument and the quarter.
static double jo_reduced(double x, u32 *quarter)
{
    const u64 bits = jo_bits(x) & 0x7fffffffffffffffULL, m = (bits & 0xfffffffffffffULL) | 0x10000000000000ULL;
    const u32 e = (u32)(bits >> 52);
    *quarter = 0;
    if (jo_absolute(x) < 0.78) return jo_absolute(x);
    if (e == 0x7ff) return x - x;
    const u32 from = e - 1075 - 2 + 64;
    typedef unsigned __int128 u128;
    u128 turn = ((u128)(m * jo_pi_bits(from)) << 64) + (u128)m * jo_pi_bits(from + 64) + ((u128)m * jo_pi_bits(from + 128) >> 64);
    *quarter = (u32)(((u64)(turn >> 64) + 0x2000000000000000ULL) >> 62) & 3;
    const u128 rest = turn - ((u128)*quarter << 126);
    const i64 high = (i64)(rest >> 64);
    return ((double)high * 0x1p-62 + (double)(u64)rest * 0x1p-126) * 1.5707963267948966;
}

static double jo_sin_of(double x, u32 quarters)
{
    u32 n;
    const double r = jo_reduced(x, &n);
    n += quarters;
    const double y = (n & 1) ? jo_cos_near_0(r) : jo_sin_near_0(r);
    return (n & 2) ? -y : y;
}

JO double jo_sin(double x)
{
    const double y = jo_sin_of(x, 0);
    return jo_of_bits(jo_bits(y) ^ (jo_bits(x) & 0x8000000000000000ULL));
}

JO double jo_cos(double x) { return jo_sin_of(x, 1); }

JO double jo_tan(double x) { return jo_sin(x) / jo_sin_of(x, 1); }

// (atan(t) - t) / t^3 by z = t^2, for |t| <= tan(pi / 8).
JO double jo_atan_tail(double z)
{
    double y = 0.016258132064979208;
    y = jo_fma(y, z, -0.034545610104858494);
    y = jo_fma(y, z, 0.045506220391755364);
    y = jo_fma(y, z, -0.052302411507894);
    y = jo_fma(y, z, 0.05878900032342983);
    y = jo_fma(y, z, -0.06666422364033206);
    y = jo_fma(y, z, 0.07692296234491514);
    y = jo_fma(y, z, -0.09090908748635232);
    y = jo_fma(y, z, 0.1111111110505757);
    y = jo_fma(y, z, -0.14285714285658824);
    y = jo_fma(y, z, 0.199999999999998);
    y = jo_fma(y, z, -0.3333333333333333);
    return y;
}

// atan(x) = pi/2 - atan(1/x) = pi/4 + atan((x - 1) / (x + 1)).
JO double jo_atan(double x)
{
    const double a = jo_absolute(x);
    const u32 large = a > 2.414213562373095, middle = a > 0.41421356237309503;
    const double up = large ? -1.0 : middle ? a - 1.0 : a, down = large ? a : middle ? a + 1.0 : 1.0;
    const double t = up / down, z = t * t;
    const double base = large ? 1.5707963267948966 : middle ? 0.7853981633974483 : 0.0;
    const double lost = large ? 6.123233995736766e-17 : middle ? 3.061616997868383e-17 : 0.0;
    return jo_signed(base + (t + jo_fma(t * z, jo_atan_tail(z), lost)), x);
}

JO float jo_atanf(float x) { return (float)jo_atan(x); }

// The angle of a point: that of the shorter side over the longer, reflected into its octant.
JO double jo_atan2(double y, double x)
{
    const double a = jo_absolute(x), b = jo_absolute(y), high = a > b ? a : b, low = a > b ? b : a;
    const double ratio = high == 0.0 ? 0.0 : high == low ? 1.0 : low / high;
    const double first = jo_atan(ratio), steep = b > a ? 1.5707963267948966 - (first - 6.123233995736766e-17) : first;
    const double left = (jo_bits(x) >> 63) ? 3.141592653589793 - (steep - 1.2246467991473532e-16) : steep;
    return (x != x) | (y != y) ? x + y : jo_signed(left, y);
}

JO float jo_atan2f(float y, float x) { return (float)jo_atan2(y, x); }

// (asin(t) - t) / t^3 by z = t^2, for |t| <= 1/2.
JO double jo_asin_tail(double z)
{
    double y = 0.029727286869498975;
    y = jo_fma(y, z, -0.01942149876336336);
    y = jo_fma(y, z, 0.019678367430162);
    y = jo_fma(y, z, 0.002995311657156326);
    y = jo_fma(y, z, 0.009332327156165665);
    y = jo_fma(y, z, 0.009619629203687472);
    y = jo_fma(y, z, 0.01156672237119713);
    y = jo_fma(y, z, 0.013963758735074137);
    y = jo_fma(y, z, 0.01735281769074104);
    y = jo_fma(y, z, 0.02237215740373685);
    y = jo_fma(y, z, 0.030381944476347046);
    y = jo_fma(y, z, 0.04464285714254326);
    y = jo_fma(y, z, 0.07500000000000122);
    y = jo_fma(y, z, 0.16666666666666666);
    return y;
}

// Beyond a half, asin(x) = pi/2 - 2 asin(sqrt((1 - x) / 2)); beyond 1 the root is NaN.
JO double jo_asin(double x)
{
    const double a = jo_absolute(x);
    const u32 large = a > 0.5;
    const double z = large ? 0.5 * (1.0 - a) : a * a, t = large ? jo_sqrt(z) : a, y = jo_fma(t * z, jo_asin_tail(z), t);
    return jo_signed(large ? 1.5707963267948966 - (jo_fma(2.0, y, -6.123233995736766e-17)) : y, x);
}

JO double jo_acos(double x)
{
    const double a = jo_absolute(x);
    const u32 large = a > 0.5, left = x < 0.0;
    const double z = large ? 0.5 * (1.0 - a) : a * a, t = large ? jo_sqrt(z) : a, y = jo_fma(t * z, jo_asin_tail(z), t);
    const double steep = left ? 3.141592653589793 - (jo_fma(2.0, y, -1.2246467991473532e-16)) : 2.0 * y;
    return large ? steep : 1.5707963267948966 - ((left ? -y : y) - 6.123233995736766e-17);
}

JO float jo_asinf(float x) { return (float)jo_asin(x); }

JO float jo_acosf(float x) { return (float)jo_acos(x); }

// erf(x) / x - 1 by z = x^2, for |x| < 0.92.
JO float jo_erf_tailf(float z)
{
    float y = -1.0264746e-05f;
    y = jo_fmaf(y, z, 1.1446789e-04f);
    y = jo_fmaf(y, z, -8.5054926e-04f);
    y = jo_fmaf(y, z, 5.2222833e-03f);
    y = jo_fmaf(y, z, -2.6865805e-02f);
    y = jo_fmaf(y, z, 1.1283788e-01f);
    y = jo_fmaf(y, z, -3.7612638e-01f);
    y = jo_fmaf(y, z, 1.2837917e-01f);
    return y;
}

// log(1 - erf(x)) for x from 0.9 to 4.
JO float jo_erfc_logf(float x)
{
    float y = -5.1294048e-08f;
    y = jo_fmaf(y, x, 1.2246635e-06f);
    y = jo_fmaf(y, x, -1.1230304e-05f);
    y = jo_fmaf(y, x, 3.2217977e-05f);
    y = jo_fmaf(y, x, 2.917346e-04f);
    y = jo_fmaf(y, x, -3.9640837e-03f);
    y = jo_fmaf(y, x, 2.50159e-02f);
    y = jo_fmaf(y, x, -1.0841958e-01f);
    y = jo_fmaf(y, x, -6.330826e-01f);
    y = jo_fmaf(y, x, -1.1296833f);
    y = jo_fmaf(y, x, 2.1420854e-04f);
    return y;
}

JO float jo_erff(float x)
{
    const float a = jo_absolutef(x), c = a > 4.0f ? 4.0f : a < 0.9f ? 0.9f : a;
    const float near = jo_fmaf(x, jo_erf_tailf(x * x), x), far = jo_signedf(1.0f - jo_expf(jo_erfc_logf(c)), x);
    return a < 0.92f ? near : x != x ? x : far;
}

// erf(x) / x - 1 by z = x^2, for |x| <= 1.
JO double jo_erf_tail(double z)
{
    double y = -4.211645973279951e-12;
    y = jo_fma(y, z, 8.696914869509161e-11);
    y = jo_fma(y, z, -1.216119306825887e-09);
    y = jo_fma(y, z, 1.4791857980184993e-08);
    y = jo_fma(y, z, -1.6364585736775698e-07);
    y = jo_fma(y, z, 1.6462041494400115e-06);
    y = jo_fma(y, z, -1.4925647378433174e-05);
    y = jo_fma(y, z, 0.00012055332896705783);
    y = jo_fma(y, z, -0.0008548327021799754);
    y = jo_fma(y, z, 0.00522397762542141);
    y = jo_fma(y, z, -0.026866170645129684);
    y = jo_fma(y, z, 0.11283791670955119);
    y = jo_fma(y, z, -0.37612638903183754);
    y = jo_fma(y, z, 0.1283791670955126);
    return y;
}

// (1 + 2 x) e^(x^2) erfc(x) by t = (x - 4) / (x + 4), for x from 0.8 to 28.
JO double jo_erfc_tail(double t)
{
    double y = 9.686258471023172e-10;
    y = jo_fma(y, t, 2.7974623614528354e-09);
    y = jo_fma(y, t, -1.3200841788383781e-08);
    y = jo_fma(y, t, -2.074317313373673e-08);
    y = jo_fma(y, t, 1.0876412436822533e-07);
    y = jo_fma(y, t, 7.827699628937628e-08);
    y = jo_fma(y, t, -8.242982961806487e-07);
    y = jo_fma(y, t, 2.9112639495952494e-07);
    y = jo_fma(y, t, 5.709080435347437e-06);
    y = jo_fma(y, t, -1.122079605056025e-05);
    y = jo_fma(y, t, -2.439896032200668e-05);
    y = jo_fma(y, t, 0.00015062131115557573);
    y = jo_fma(y, t, -0.00019925675992791183);
    y = jo_fma(y, t, -0.000757773219356864);
    y = jo_fma(y, t, 0.005031969988602758);
    y = jo_fma(y, t, -0.01619773406602358);
    y = jo_fma(y, t, 0.037167515536456266);
    y = jo_fma(y, t, -0.06633036581164257);
    y = jo_fma(y, t, 0.09373283499840314);
    y = jo_fma(y, t, -0.10103906603632522);
    y = jo_fma(y, t, 0.06809705425469142);
    y = jo_fma(y, t, 0.015379652102620042);
    y = jo_fma(y, t, -0.1396211168405625);
    y = jo_fma(y, t, 1.2329951186255526);
    return y;
}

// e^(-x^2) needs more than 53 bits of the square: x is split after 26.
JO double jo_erfc_far(double a)
{
    const double c = a > 28.0 ? 28.0 : a < 0.8 ? 0.8 : a, cut = jo_of_bits(jo_bits(c) & 0xfffffffff8000000ULL);
    const double tail = jo_erfc_tail((c - 4.0) / (c + 4.0)) / jo_fma(2.0, c, 1.0);
    return jo_exp(-cut * cut) * (jo_exp(-(c - cut) * (c + cut)) * tail);
}

JO double jo_erf(double x)
{
    const double a = jo_absolute(x), far = jo_signed(1.0 - jo_erfc_far(a), x);
    return a < 0.9 ? jo_fma(x, jo_erf_tail(x * x), x) : x != x ? x : far;
}

JO double jo_erfc(double x)
{
    const double a = jo_absolute(x), far = jo_erfc_far(a), side = x < 0.0 ? 2.0 - far : far;
    return a < 0.8 ? 1.0 - jo_fma(x, jo_erf_tail(x * x), x) : x != x ? x : side;
}

JO float jo_erfcf(float x) { return (float)jo_erfc(x); }

// log(gamma(1 + f)) / (f (f - 1)) by t = f - 1/2, for 1 + f from 0.7 to 2.3.
JO double jo_lgamma_tail(double t)
{
    double y = -2.4450962490931177e-06;
    y = jo_fma(y, t, 3.7800857982080097e-06);
    y = jo_fma(y, t, 5.1044540747745016e-06);
    y = jo_fma(y, t, -7.873445446554778e-06);
    y = jo_fma(y, t, -9.753897849928396e-06);
    y = jo_fma(y, t, 1.5091550922469403e-05);
    y = jo_fma(y, t, 2.424268612720713e-06);
    y = jo_fma(y, t, -3.639906579534823e-06);
    y = jo_fma(y, t, -1.4414520657020059e-05);
    y = jo_fma(y, t, 2.2576234455401022e-05);
    y = jo_fma(y, t, -2.493205225126906e-05);
    y = jo_fma(y, t, 3.9511598623127375e-05);
    y = jo_fma(y, t, -6.670939224883422e-05);
    y = jo_fma(y, t, 0.00010623460798323624);
    y = jo_fma(y, t, -0.0001688205353458461);
    y = jo_fma(y, t, 0.0002711632123131035);
    y = jo_fma(y, t, -0.00043800440031565755);
    y = jo_fma(y, t, 0.0007115365794588448);
    y = jo_fma(y, t, -0.00116441372174363);
    y = jo_fma(y, t, 0.001922914979156207);
    y = jo_fma(y, t, -0.0032120741135916323);
    y = jo_fma(y, t, 0.0054464579007228505);
    y = jo_fma(y, t, -0.009425622447554056);
    y = jo_fma(y, t, 0.01679709862977359);
    y = jo_fma(y, t, -0.03130848750102005);
    y = jo_fma(y, t, 0.0629114010745789);
    y = jo_fma(y, t, -0.14595989591430605);
    y = jo_fma(y, t, 0.4831289505409809);
    return y;
}

// log(gamma(x)) of positive numbers: a polynomial between its zeros, 1 and 2, else Stirling's
// series at 8 and above.
JO double jo_lgamma_positive(double x)
{
    const u32 low = x < 8.0;
    const double product = low ? x * (x + 1.0) * (x + 2.0) * (x + 3.0) * ((x + 4.0) * (x + 5.0) * (x + 6.0) * (x + 7.0)) : 1.0;
    const double w = low ? x + 8.0 : x, u = 1.0 / w, z = u * u;
    const double series = u * (1.0 / 12.0 - z * (1.0 / 360.0 - z * (1.0 / 1260.0 - z * (1.0 / 1680.0 - z * (1.0 / 1188.0
        - z * (691.0 / 360360.0 - z / 156.0))))));
    const double far = jo_fma(w - 0.5, jo_log(w) - 1.0, 0.41893853320467274 + series) - jo_log(product);
    const double near = (x - 1.0) * (x - 2.0) * jo_lgamma_tail(x - 1.5);
    return (x > 0.7) & (x < 2.3) ? near + 0.0 : far;
}

// By the reflection gamma(x) gamma(-x) = -pi / (x sin(pi x)) where x is negative.
JO double jo_lgamma(double x)
{
    const double a = jo_absolute(x), y = jo_lgamma_positive(a), f = jo_absolute(a - jo_roundeven(a));
    const double sine = f > 0.25 ? jo_cos_near_0(3.141592653589793 * (0.5 - f)) : jo_sin_near_0(3.141592653589793 * f);
    const double reflected = jo_log(3.141592653589793 / (a * sine)) - y;
    const double finite = x > 0.0 ? y : sine == 0.0 ? __builtin_inf() : a < 0x1p-60 ? -jo_log(a) : reflected;
    return a < __builtin_inf() ? finite : a == a ? a : x;
}

JO float jo_lgammaf(float x) { return (float)jo_lgamma(x); }

// Powers outside of the domain of logarithms: of 1, to 0, of negative numbers. `odd`: the exponent
// is an odd integer.
JO double jo_power_sign(double x, double y, double size)
{
    const double b = jo_absolute(y), half = 0.5 * b;
    const u32 whole = jo_trunc(b) == b, odd = whole & (b < 0x1p53) & (jo_trunc(half) != half), left = (u32)(jo_bits(x) >> 63);
    const double one = (jo_absolute(x) == 1.0) & (b == __builtin_inf()) ? 1.0 : size;
    const double out = left & odd ? -one : (x < 0.0) & (whole == 0) & (x > -__builtin_inf()) ? __builtin_nan("") : one;
    return (x == 1.0) | (y == 0.0) ? 1.0 : (x != x) | (y != y) ? x + y : out;
}

// 24 bits computed in doubles: the error of the logarithm is negligible.
JO float jo_powf(float x, float y)
{
    const double size = jo_exp((double)y * jo_log(jo_absolute(x)));
    return (float)jo_power_sign(x, y, size);
}

// The rounding error of a product: each factor is split in two halves, whose products are exact.
JO double jo_product_loss(double a, double b, double product)
{
    const double ah = jo_of_bits(jo_bits(a) & 0xfffffffff8000000ULL), al = a - ah;
    const double bh = jo_of_bits(jo_bits(b) & 0xfffffffff8000000ULL), bl = b - bh;
    return ((ah * bh - product) + ah * bl + al * bh) + al * bl;
}

// The logarithm as a sum of two doubles: 2 s + s^3 (2/3 + ...), where the first terms have two
// parts.
JO double jo_pow(double x, double y)
{
    const double a = jo_absolute(x), f = jo_mantissa(a), k = jo_exponent(a), d = 2.0 + f, dl = f - (d - 2.0);
    const double s = f / d, sd = s * d, sl = (((f - sd) - jo_product_loss(s, d, sd)) - s * dl) / d;
    const double z = s * s, zl = jo_product_loss(s, s, z) + 2.0 * s * sl;
    const double rest = z * jo_log_rest(z), p = 0.6666666666666666 + rest;
    const double pl = (0.6666666666666666 - p) + rest + 3.700743415417188e-17;
    const double sz = s * z, szl = jo_product_loss(s, z, sz) + s * zl + sl * z;
    const double t = sz * p, tl = jo_product_loss(sz, p, t) + sz * pl + szl * p;
    const double k1 = k * 0.6931471803691238, k2 = k * 1.9082149292705877e-10;
    const double h0 = k1 + 2.0 * s, l0 = k != 0.0 ? (k1 - h0) + 2.0 * s : 0.0;
    const double h1 = h0 + t, l1 = (h0 - h1) + t, low = l1 + (l0 + (2.0 * sl + tl + k2));
    const double log_high = h1 + low, log_low = (h1 - log_high) + low;
    const double e = y * log_high, el = jo_product_loss(y, log_high, e) + y * log_low;
    const double first = jo_exp(e);
    const u32 is_number = (first < __builtin_inf()) & (e >= -746.0);
    const double size = is_number ? jo_fma(first, el, first) : first;
    const double of_zero = y > 0.0 ? 0.0 : __builtin_inf(), of_infinity = y > 0.0 ? __builtin_inf() : 0.0;
    const double grows = (a > 1.0) == (y > 0.0) ? __builtin_inf() : 0.0;
    const double far = (jo_absolute(y) > 0x1p70) & (a != 1.0) ? grows : size;
    return jo_power_sign(x, y, a == 0.0 ? of_zero : a == __builtin_inf() ? of_infinity : far);
}

// Exact. Quotients of 28 bits at a time, in most cases one; not vectorised.
static float jo_fmodf(float x, float y)
{
    double a = jo_absolutef(x);
    const double b = jo_absolutef(y);
    if (!(a < __builtin_inf()) || !(b > 0.0)) return __builtin_nanf("");
    while (a >= b && b < __builtin_inf()) {
        const i32 above = (i32)(jo_bits(a) >> 52) - (i32)(jo_bits(b) >> 52) - 27;
        const double step = b * (above > 0 ? jo_power(above) : 1.0), rest = a - (double)(i64)(a / step) * step;
        a = rest < 0.0 ? rest + step : rest;
    }
    return jo_signedf((float)a, x);
}

// By subtraction of multiples that are powers of two: exact.
static double jo_fmod(double x, double y)
{
    double a = jo_absolute(x);
    const double b = jo_absolute(y);
    if (!(a < __builtin_inf()) || !(b > 0.0)) return __builtin_nan("");
    while (a >= b && b < __builtin_inf()) {
        double step = b;
        const i32 above = (i32)(jo_bits(a) >> 52) - (i32)(jo_bits(b) >> 52) - 1;
        for (i32 n = above; n > 0; n -= 1000) step *= jo_power(n < 1000 ? n : 1000);
        while (a - step >= step) step += step;
        a -= step;
    }
    return jo_signed(a, x);
}

// With the sign of the divisor.
static float jo_remainderf(float x, float y)
{
    const float rest = jo_fmodf(x, y);
    return rest != 0.0f && (rest < 0.0f) != (y < 0.0f) ? rest + y : rest;
}

static double jo_remainder(double x, double y)
{
    const double rest = jo_fmod(x, y);
    return rest != 0.0 && (rest < 0.0) != (y < 0.0) ? rest + y : rest;
}

// Rounded down as in PyTorch: computed from the remainder, so that it is right where the quotient
// would be rounded to an integer. Halves and floats are computed in floats.
static float jo_floor_quotientf(float x, float y)
{
    const float rest = jo_fmodf(x, y), whole = (x - rest) / y;
    const float quotient = rest != 0.0f && (rest < 0.0f) != (y < 0.0f) ? whole - 1.0f : whole, floor = jo_floorf(quotient);
    const float near = quotient - floor > 0.5f ? floor + 1.0f : floor;
    return y == 0.0f ? x / y : quotient == 0.0f ? jo_signedf(0.0f, x / y) : near;
}

static double jo_floor_quotient(double x, double y)
{
    const double rest = jo_fmod(x, y), whole = (x - rest) / y;
    const double quotient = rest != 0.0 && (rest < 0.0) != (y < 0.0) ? whole - 1.0 : whole, floor = jo_floor(quotient);
    const double near = quotient - floor > 0.5 ? floor + 1.0 : floor;
    return y == 0.0 ? x / y : quotient == 0.0 ? jo_signed(0.0, x / y) : near;
}

// Integer division. Launches check for zero divisors; the lowest integer divided by -1 is itself,
// because results wrap.
static i32 jo_quotient32(i32 x, i32 y)
{
    return y == 0 ? 0 : y == -1 ? (i32)(0 - (u32)x) : x / y;
}

// With the sign of the dividend.
static i32 jo_rest32(i32 x, i32 y)
{
    return y == 0 ? 0 : y == -1 ? 0 : x % y;
}

// With the sign of the divisor.
static i32 jo_rest_up32(i32 x, i32 y)
{
    const i32 rest = jo_rest32(x, y);
    return (rest != 0) & ((rest < 0) != (y < 0)) ? rest + y : rest;
}

// Rounded down.
static i32 jo_quotient_down32(i32 x, i32 y)
{
    const i32 rest = jo_rest32(x, y), whole = jo_quotient32(x, y);
    return (rest != 0) & ((rest < 0) != (y < 0)) ? whole - 1 : whole;
}

// Wraps. Negative powers are those of 1 and -1, and 0 of all else, as in PyTorch.
static i32 jo_raised32(i32 x, i32 y)
{
    if (y < 0) return x == 1 ? 1 : x == -1 ? (y % 2 == 0 ? 1 : -1) : 0;
    u32 base = (u32)x, power = 1;
    for (u32 n = (u32)y; n != 0; n >>= 1) {
        power = n & 1 ? power * base : power;
        base *= base;
    }
    return (i32)power;
}

// Integer division. Launches check for zero divisors; the lowest integer divided by -1 is itself,
// because results wrap.
static i64 jo_quotient64(i64 x, i64 y)
{
    return y == 0 ? 0 : y == -1 ? (i64)(0 - (u64)x) : x / y;
}

// With the sign of the dividend.
static i64 jo_rest64(i64 x, i64 y)
{
    return y == 0 ? 0 : y == -1 ? 0 : x % y;
}

// With the sign of the divisor.
static i64 jo_rest_up64(i64 x, i64 y)
{
    const i64 rest = jo_rest64(x, y);
    return (rest != 0) & ((rest < 0) != (y < 0)) ? rest + y : rest;
}

// Rounded down.
static i64 jo_quotient_down64(i64 x, i64 y)
{
    const i64 rest = jo_rest64(x, y), whole = jo_quotient64(x, y);
    return (rest != 0) & ((rest < 0) != (y < 0)) ? whole - 1 : whole;
}

// Wraps. Negative powers are those of 1 and -1, and 0 of all else, as in PyTorch.
static i64 jo_raised64(i64 x, i64 y)
{
    if (y < 0) return x == 1 ? 1 : x == -1 ? (y % 2 == 0 ? 1 : -1) : 0;
    u64 base = (u64)x, power = 1;
    for (u64 n = (u64)y; n != 0; n >>= 1) {
        power = n & 1 ? power * base : power;
        base *= base;
    }
    return (i64)power;
}
