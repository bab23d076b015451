/* 1 / (1 + exp(-x)), with an exponent of at most 0 so that it cannot overflow. */
static void apply_sigmoid(int n, float *values)
{
    for (int i = 0; i < n; i++) {
        float shrunk = expf(-fabsf(values[i]));
        values[i] = (values[i] >= 0 ? 1 : shrunk) / (1 + shrunk);
    }
}
