/* exp(x) / sum of exp(x). The maximum is subtracted first so that exp cannot overflow. */
static void apply_softmax(int n, float *values)
{
    float largest = values[0], total = 0;
    for (int i = 1; i < n; i++)
        largest = values[i] > largest ? values[i] : largest;
    for (int i = 0; i < n; i++)
        total += values[i] = expf(values[i] - largest);
    for (int i = 0; i < n; i++)
        values[i] /= total;
}
