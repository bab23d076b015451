/* Multiplies the values by `n` factors. */
static void multiply(const float *factors, int n, float *DANN_RESTRICT values)
{
    for (int i = 0; i < n; i++)
        values[i] *= factors[i];
}
