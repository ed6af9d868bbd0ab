// Coefficient of a row in the gradient, and its field. shift: the intercept.
__device__ inline float coefficient(float product, double h0, double sign, double shift, double scale, int weight, int mode,
                                    double &field) {
#if ANCHORED
    field = sign * h0 + ROOT * (double)product;
#else
    field = ROOT * (double)product + shift;
#endif
    if (mode & PRODUCT) return (float)(h0 * field);   // of the spectral start, whose weights are handed over as h0
    return weight ? (float)(scale * weight * loss_dv<double>(field, h0)) : 0.0f;
}
