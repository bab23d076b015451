/* Sets one bit per number: 1 if the number is at least 0. Unused bits of the last word are 0. */
static void take_signs(const float *values, int n, uint32_t *DANN_RESTRICT bits)
{
    for (int first = 0; first < n; first += 32) {
        int left = n - first < 32 ? n - first : 32;
        uint32_t word = 0;
        for (int i = 0; i < left; i++)
            word |= (uint32_t)(values[first + i] >= 0) << i;
        bits[first / 32] = word;
    }
}
