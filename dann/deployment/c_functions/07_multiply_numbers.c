/* Computes at one place, for each unit, the sum of the products of floats over the channels of its
   group. For each pixel of the window and channel of a group, the kernel contains one float per
   unit. Pixels on the border have the values `border`, or with ZERO_BORDER the value 0. */
static void multiply_numbers(const float *image, const window_t *w, int place,
                             const float *kernel, const float *border, int units,
                             float *DANN_RESTRICT values)
{
    int channels = w->channels / w->groups;
    for (int unit = 0; unit < units; unit++)
        values[unit] = 0;
    for (int row = 0; row < w->size[0]; row++)
        for (int column = 0; column < w->size[1]; column++) {
            const float *numbers = find_numbers(image, w, place, row, column, border);
            for (int channel = 0; channel < channels; channel++, kernel += units)
                if (numbers && w->groups == 1) {
                    for (int unit = 0; unit < units; unit++)
                        values[unit] += numbers[channel] * kernel[unit];
                } else if (numbers) {
                    for (int unit = 0; unit < units; unit++)
                        values[unit] += numbers[unit * w->groups / units * channels + channel] * kernel[unit];
                }
        }
}
