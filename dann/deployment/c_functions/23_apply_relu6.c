/* min(max(x, 0), 6) */
static void apply_relu6(int n, float *values)
{
    for (int i = 0; i < n; i++)
        values[i] = values[i] < 0 ? 0 : values[i] > 6 ? 6 : values[i];
}
