/* Multiplies each of the `n` values by one factor. */
static void multiply_one(const float *factor, int n, float *DANN_RESTRICT values)
{
    for (int i = 0; i < n; i++)
        values[i] *= *factor;
}
