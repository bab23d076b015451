/* Divides `n` sums over `count` pixels by their number. */
static void divide(int count, int n, float *values)
{
    for (int i = 0; i < n; i++)
        values[i] /= (float)count;
}
