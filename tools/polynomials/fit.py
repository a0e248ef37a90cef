#!/usr/bin/env python3
"""The polynomials of src/codegen/prelude.c and src/tensor/gemm/element_functions.rs: interpolation
at Chebyshev's points in 240 bits, which is within a factor of two of the best, then each
coefficient rounded. Needs mpmath. Prints the name, the binary logarithm of the largest error, and
the coefficients, lowest first.
"""

from mpmath import *

mp.prec = 240
TINY = mpf(10) ** -22


def near_zero(limit, f):
    """A quotient with a removable pole at 0."""
    return lambda x: limit if abs(x) < TINY else f(x)


def of_square(limit, f):
    """A function of z = x^2, given as one of x."""
    return near_zero(limit, lambda z: f(sqrt(z)))


def erfc_tail(t):
    x = 4 * (1 + t) / (1 - t)
    return exp(x * x) * erfc(x) * (1 + 2 * x)


def lgamma_tail(t):
    f = t + mpf(1) / 2
    if abs(f) < TINY:
        return euler
    if abs(f - 1) < TINY:
        return 1 - euler
    return loggamma(1 + f).real / (f * (f - 1))


HALF_LN2 = log(mpf(2)) / 2 * mpf("1.001")
EIGHTH = tan(pi / 8) * mpf("1.001")
EXP = near_zero(mpf(1) / 2, lambda r: (expm1(r) - r) / r**2)
LOGF = near_zero(mpf(1) / 3, lambda f: (log1p(f) - f + f * f / 2) / f**3)
COS = lambda z: mpf(1) / 24 - z / 720 if z < mpf(10) ** -14 else (cos(sqrt(z)) - 1 + z / 2) / z**2
ERF = of_square(2 / sqrt(pi) - 1, lambda s: erf(s) / s - 1)

# Name, function, range, number of coefficients, bits of a coefficient.
ROWS = [
    ("exp_tailf", EXP, (-HALF_LN2, HALF_LN2), 5, 24),
    ("exp_tail", EXP, (-HALF_LN2, HALF_LN2), 11, 53),
    ("log_tailf", LOGF, (sqrt(mpf(1) / 2) - 1, sqrt(mpf(2)) - 1), 9, 24),
    ("log_tail", of_square(mpf(2) / 3, lambda s: (2 * atanh(s) - 2 * s) / s**3), (0, mpf("0.1716") ** 2), 8, 53),
    ("sin_tail", of_square(-mpf(1) / 6, lambda s: (sin(s) - s) / s**3), (0, (pi / 4) ** 2 * mpf("1.002")), 7, 53),
    ("cos_tail", COS, (0, (pi / 4) ** 2 * mpf("1.002")), 6, 53),
    ("atan_tail", of_square(-mpf(1) / 3, lambda s: (atan(s) - s) / s**3), (0, EIGHTH**2), 12, 53),
    ("asin_tail", of_square(mpf(1) / 6, lambda s: (asin(s) - s) / s**3), (0, mpf("0.2505")), 14, 53),
    ("erf_tailf", ERF, (0, mpf("0.86")), 8, 24),
    ("erf_tail", ERF, (0, mpf("1.01")), 14, 53),
    ("erfc_logf", lambda x: log(erfc(x)), (mpf("0.9"), mpf(4)), 11, 24),
    ("erfc_tailf", erfc_tail, (mpf("-3.2") / mpf("4.8"), mpf("6.5") / mpf("14.5")), 10, 24),
    ("erfc_tail", erfc_tail, (mpf("-3.2") / mpf("4.8"), mpf(24) / 32), 24, 53),
    ("lgamma_tail", lgamma_tail, (mpf("-0.8"), mpf("0.8")), 28, 53),
]

for name, f, (low, high), count, bits in ROWS:
    coefficients, error = chebyfit(f, [low, high], count, error=True)
    with workprec(bits):
        shown = ", ".join(nstr(+c, 9 if bits == 24 else 17) for c in coefficients[::-1])
    print(name, nstr(log(error, 2), 5))
    print("   ", shown)
