"""erf and erfc."""

from __future__ import annotations

from minijit.kernels.math.device import device
from minijit.kernels.math.exponential import (
    exp_medium,
    exp_nonpositive,
    expm1_of_sum,
    scale,
)
from minijit.kernels.math.intrinsics import absolute, copysign, fma, select, to_float32, to_float64
from minijit.kernels.math.polynomial import polynomial
from minijit.kernels.math.value import FLOAT32, FLOAT64, Value

# erf(x) / x - 1 in z = x**2 for |x| <= 1 (Remez).
# float32: degree 6, error 2**-29.7; float64: degree 12, 2**-62.8.
_ERF = {
    FLOAT32: (
        1.2837917e-01,
        -3.7612626e-01,
        1.12836e-01,
        -2.6854446e-02,
        5.1895366e-03,
        -8.0208457e-04,
        7.889119e-05,
    ),
    FLOAT64: (
        0.12837916709551259,
        -0.3761263890318375,
        0.11283791670954885,
        -0.026866170645077875,
        0.005223977624828431,
        -0.0008548326981425542,
        0.0001205533113295582,
        -1.4925595772180906e-05,
        1.64610084778027e-06,
        -1.6350396222864617e-07,
        1.466032872274226e-08,
        -1.137495573607015e-09,
        5.960685338520971e-11,
    ),
}

# log(erfc(x)) for 0.99 <= x <= 4 (Remez), degree 7, error 2**-26.9 once multiplied by erfc(x).
_LOG_ERFC_FLOAT32 = (
    -2.1050044e-04,
    -1.127902e00,
    -6.361507e-01,
    -1.0565954e-01,
    2.3697423e-02,
    -3.722892e-03,
    3.5843812e-04,
    -1.5735022e-05,
)

# (1 + 2 * x) * exp(x**2) * erfc(x) in t = (x - c) / (x + c) (Remez). For float32 x <= 10.2, c = 3,
# degree 10, error 2**-28.7; for float64 x <= 27.3, c = 3.5, degree 23, 2**-58.
_ERFC_FOR_FLOAT32 = (
    1.2530080591456907,
    -0.13562113923706953,
    -0.04756240389786086,
    0.12964640848777412,
    -0.11927086782057257,
    0.06829590930193243,
    -0.02379820191233364,
    0.0025662740424539773,
    0.002002753367857294,
    -0.0007750942841028083,
    -0.0002669782540071792,
)
_ERFC_FLOAT64 = (
    1.2423492448711544,
    -0.1400091801376194,
    -0.010555596332216862,
    0.09751909515325519,
    -0.11508959816028273,
    0.08798315382500652,
    -0.04882332582563203,
    0.019099330939837324,
    -0.004215019937161453,
    -0.0003022678523232905,
    0.0005643846413994656,
    -0.00012151256816531084,
    -4.2783300692932596e-05,
    2.426148198021712e-05,
    2.331605553985495e-06,
    -3.815750554395321e-06,
    -5.0775628141708716e-08,
    6.024199358165351e-07,
    1.282208245019971e-10,
    -9.54381107393502e-08,
    -5.045622292746189e-09,
    1.1915522882198698e-08,
    1.6940620251454383e-09,
    -4.2561058136814504e-10,
)


def _near(x: Value) -> Value:
    """erf(x) for |x| <= 1."""
    return fma(x, polynomial(x * x, _ERF[x.kind]), x)


def _erfc_float64(size: Value) -> Value:
    """erfc(size) for 0 <= size <= 27.3."""
    square = size * size
    rounded, q = expm1_of_sum(-square, -fma(size, size, -square))
    e = q + 1.0
    e_low = (1.0 - e) + q

    t = (size - 3.5) / (size + 3.5)
    over = polynomial(t, _ERFC_FLOAT64)
    under = fma(size, 2.0, 1.0)
    under_low = fma(size, 2.0, 1.0 - under)
    inverse = 1.0 / under
    ratio = over * inverse
    ratio_low = (fma(ratio, -under, over) - ratio * under_low) * inverse
    return scale(fma(e, ratio, fma(e_low, ratio, e * ratio_low)), rounded)


@device(FLOAT32)
def erf_float32(x: Value) -> Value:
    """The error function."""
    size = absolute(x)
    size = select(size > 4.0, 4.0, size)
    far = 1.0 - exp_nonpositive(polynomial(size, _LOG_ERFC_FLOAT32))
    return copysign(select(size <= 1.0, _near(x), far), x)


@device(FLOAT64)
def erf_float64(x: Value) -> Value:
    """The error function."""
    size = absolute(x)
    size = select(size > 6.0, 6.0, size)
    return copysign(select(size <= 1.0, _near(x), 1.0 - _erfc_float64(size)), x)


@device(FLOAT32)
def erfc_float32(x: Value) -> Value:
    """1 - erf(x), accurate where that is tiny."""
    wide = to_float64(x)
    size = absolute(wide)
    size = select(size > 10.2, 10.2, size)
    t = (size - 3.0) / (size + 3.0)
    ratio = polynomial(t, _ERFC_FOR_FLOAT32) / fma(size, 2.0, 1.0)
    y = exp_medium(-(size * size)) * ratio
    return to_float32(select(wide < 0.0, 2.0 - y, y))


@device(FLOAT64)
def erfc_float64(x: Value) -> Value:
    """1 - erf(x), accurate where that is tiny."""
    size = absolute(x)
    size = select(size > 27.3, 27.3, size)
    y = _erfc_float64(size)
    # Around zero the factors of y cost more than the difference from 1.
    return select(size < 0.25, 1.0 - _near(x), select(x < 0.0, 2.0 - y, y))
