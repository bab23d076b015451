/* Converts `n` bits to the numbers -1 and +1. */
static void to_signs(const uint32_t *bits, int n, float *DANN_RESTRICT values)
{
    for (int i = 0; i < n; i++)
        values[i] = bits[i / 32] >> i % 32 & 1 ? 1.0f : -1.0f;
}
