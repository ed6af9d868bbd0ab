// Factor of a row in the gradient, and its field. shift: the intercept.
__device__ inline float factor_of(float product, double h0, double sign, double shift, double scale, int weight, int mode,
                                  double &field) {
    field = field_at<double>(product, h0, sign, ROOT, shift);
    if (mode & PRODUCT) return (float)(h0 * field);   // of the spectral start, whose weights are handed over as h0
    return weight ? (float)coefficient<double>(scale, weight, loss_dv<double>(field, h0)) : 0.0f;
}
