/* Pools `n` words of bits: the maximum is +1 where any pixel is +1. `count` pixels were pooled
   before. */
static void max_pool_bits(const uint32_t *words, int count, int n, uint32_t *DANN_RESTRICT bits)
{
    for (int i = 0; i < n; i++)
        bits[i] = count ? bits[i] | words[i] : words[i];
}
