/* max(x, 0) */
static void apply_relu(int n, float *values)
{
    for (int i = 0; i < n; i++)
        values[i] = values[i] < 0 ? 0 : values[i];
}
