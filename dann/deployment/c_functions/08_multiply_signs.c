/* Computes the same sums as multiply_numbers with a kernel of signs, which contains one bit per
   unit for each pixel of the window and channel of a group. */
static void multiply_signs(const float *image, const window_t *w, int place, const uint32_t *kernel,
                           const float *border, int units, float *DANN_RESTRICT values)
{
    int channels = w->channels / w->groups, words = (units + 31) / 32;
    for (int unit = 0; unit < units; unit++)
        values[unit] = 0;
    for (int row = 0; row < w->size[0]; row++)
        for (int column = 0; column < w->size[1]; column++) {
            const float *numbers = find_numbers(image, w, place, row, column, border);
            for (int channel = 0; channel < channels; channel++, kernel += words)
                for (int word = 0; numbers && word < words; word++) {
                    int lanes = units - 32 * word < 32 ? units - 32 * word : 32;
                    float *sums = values + 32 * word;
                    if (w->groups == 1) {
                        float number = numbers[channel];
                        if (lanes == 32)  /* a constant length, which compilers vectorize */
                            for (int unit = 0; unit < 32; unit++)
                                sums[unit] += kernel[word] >> unit & 1 ? number : -number;
                        else
                            for (int unit = 0; unit < lanes; unit++)
                                sums[unit] += kernel[word] >> unit & 1 ? number : -number;
                    } else
                        for (int unit = 0; unit < lanes; unit++) {
                            int group = (32 * word + unit) * w->groups / units;
                            float number = numbers[group * channels + channel];
                            sums[unit] += kernel[word] >> unit & 1 ? number : -number;
                        }
                }
        }
}
