/* Sets one bit per sum: 1 if the sum is at least its threshold. `flips` inverts the bits of the
   channels in which the folded function decreases with the sum. Sums and thresholds are integers,
   stored as float like all other numbers. Unused bits of the last word are 0. */
static void compare(const float *sums, const float *thresholds, const uint32_t *flips, int n,
                    uint32_t *DANN_RESTRICT bits)
{
    for (int first = 0; first < n; first += 32) {
        int left = n - first < 32 ? n - first : 32;
        uint32_t word = 0;
        for (int i = 0; i < left; i++)
            word |= (uint32_t)(sums[first + i] >= thresholds[first + i]) << i;
        bits[first / 32] = word ^ flips[first / 32];
    }
}
