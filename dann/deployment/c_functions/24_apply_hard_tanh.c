/* min(max(x, -1), 1) */
static void apply_hard_tanh(int n, float *values)
{
    for (int i = 0; i < n; i++)
        values[i] = values[i] < -1 ? -1 : values[i] > 1 ? 1 : values[i];
}
