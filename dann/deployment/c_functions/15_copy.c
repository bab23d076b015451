/* Copies `n` numbers. */
static void copy(const float *numbers, int n, float *DANN_RESTRICT values)
{
    for (int i = 0; i < n; i++)
        values[i] = numbers[i];
}
