/* Computes at one place, for each unit, the sum of the products of signs over the channels of its
   group. For each pixel of the window and channel of a group, the kernel contains one bit per
   unit. Pixels on the border have the signs `border`, or with ZERO_BORDER the value 0. */
static void multiply_bits_in_groups(const uint32_t *image, const window_t *w, int place,
                                    const uint32_t *kernel, const uint32_t *border, int units,
                                    float *DANN_RESTRICT sums)
{
    int words = (w->channels + 31) / 32, channels = w->channels / w->groups;
    for (int unit = 0; unit < units; unit++)
        sums[unit] = 0;
    for (int row = 0; row < w->size[0]; row++)
        for (int column = 0; column < w->size[1]; column++) {
            int pixel = find_pixel(w, place, row, column);
            const uint32_t *signs = pixel < 0 ? border : image + pixel * words;
            for (int channel = 0; channel < channels; channel++, kernel += (units + 31) / 32)
                for (int unit = 0; signs && unit < units; unit++) {
                    int input = unit * w->groups / units * channels + channel;
                    uint32_t differs = signs[input / 32] >> input % 32 ^ kernel[unit / 32] >> unit % 32;
                    sums[unit] += differs & 1 ? -1.0f : 1.0f;
                }
        }
}
