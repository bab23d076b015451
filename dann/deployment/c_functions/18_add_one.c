/* Adds one number to each of the `n` values. */
static void add_one(const float *number, int n, float *DANN_RESTRICT values)
{
    for (int i = 0; i < n; i++)
        values[i] += *number;
}
