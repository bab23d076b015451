/* Computes at one place, for each unit, the sum of the products of the signs of its window and its
   kernel: the number of products minus twice the number of bits that differ. For each pixel and
   word of the window, the kernel contains one word per unit, so that the loop over the units reads
   consecutive words. Pixels on the border have the signs `border`, or with ZERO_BORDER the value
   0. */
static void multiply_bits(const uint32_t *image, const window_t *w, int place,
                          const uint32_t *kernel, const uint32_t *border, int units,
                          float *DANN_RESTRICT sums)
{
    int words = (w->channels + 31) / 32;
    for (int first = 0; first < units; first += 128) {
        int lanes = units - first < 128 ? units - first : 128;
        const uint32_t *weights = kernel + first;
        uint32_t different[128] = {0};
        int32_t products = 0;
        for (int row = 0; row < w->size[0]; row++)
            for (int column = 0; column < w->size[1]; column++, weights += words * units) {
                int pixel = find_pixel(w, place, row, column);
                const uint32_t *signs = pixel < 0 ? border : image + pixel * words;
                if (!signs)
                    continue;
                products += w->channels;
                if (lanes == 128) {  /* a constant length, which compilers vectorize */
                    for (int word = 0; word < words; word++)
                        for (int unit = 0; unit < 128; unit++)
                            different[unit] += count_bits(signs[word] ^ weights[word * units + unit]);
                } else {
                    for (int word = 0; word < words; word++)
                        for (int unit = 0; unit < lanes; unit++)
                            different[unit] += count_bits(signs[word] ^ weights[word * units + unit]);
                }
            }
        for (int unit = 0; unit < lanes; unit++)
            sums[first + unit] = (float)(products - 2 * (int32_t)different[unit]);
    }
}
