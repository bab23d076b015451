/* tanh(x) */
static void apply_tanh(int n, float *values)
{
    for (int i = 0; i < n; i++)
        values[i] = tanhf(values[i]);
}
