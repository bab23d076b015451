/* Reshapes rows of `length` bits to rows of `n` bits and writes row `place`. Each input row begins
   a new word, so the last word of a row may be partly unused. */
static void repack_bits(const uint32_t *rows, int length, int place, int n, uint32_t *DANN_RESTRICT bits)
{
    int words = (length + 31) / 32;
    for (int i = 0; i < n; i++) {
        int row = (place * n + i) / length, column = (place * n + i) % length;
        uint32_t bit = rows[row * words + column / 32] >> column % 32 & 1;
        bits[i / 32] = (i % 32 ? bits[i / 32] : 0) | bit << i % 32;
    }
}
