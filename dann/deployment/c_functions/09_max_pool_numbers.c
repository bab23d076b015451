/* Replaces each of `n` values by the number of the next pixel if that is larger. `count` pixels
   were pooled before. */
static void max_pool_numbers(const float *numbers, int count, int n, float *DANN_RESTRICT values)
{
    for (int i = 0; i < n; i++) {
        int larger = !count || numbers[i] > values[i] || numbers[i] != numbers[i];  /* NaN stays NaN */
        values[i] = larger ? numbers[i] : values[i];
    }
}
