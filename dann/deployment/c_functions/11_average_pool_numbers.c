/* Adds the `n` numbers of the next pixel to the sums. `count` pixels were pooled before. */
static void average_pool_numbers(const float *numbers, int count, int n, float *DANN_RESTRICT values)
{
    for (int i = 0; i < n; i++)
        values[i] = count ? values[i] + numbers[i] : numbers[i];
}
