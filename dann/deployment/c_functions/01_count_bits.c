/* Returns the number of bits that are set in a word. __POPCNT__ is not tested, because gcc and
   clang compile the arithmetic below to a popcount instruction where there is one. */
static inline uint32_t count_bits(uint32_t word)
{
#if defined(__GNUC__) && (defined(__AVX512VPOPCNTDQ__) || defined(__ARM_NEON) || defined(__riscv_zbb))
    return (uint32_t)__builtin_popcount(word);
#else
    word -= word >> 1 & 0x55555555u;
    word = (word & 0x33333333u) + (word >> 2 & 0x33333333u);
    word = (word + (word >> 4)) & 0x0f0f0f0fu;
    return word * 0x01010101u >> 24;
#endif
}
