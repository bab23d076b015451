/* count_bits: how many bits of a word are set. __POPCNT__ is not asked, because gcc and clang take the
   steps below for a popcount, if there is an instruction. */
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

/* find_pixel: the number of a pixel of the window that gives the output `place`, or -1 where it lies
   on the border. */
static inline int find_pixel(const window_t *w, int place, int row, int column)
{
    int y = place / w->output_width * w->strides[0] - w->pads[0] + row * w->dilation[0];
    int x = place % w->output_width * w->strides[1] - w->pads[1] + column * w->dilation[1];
    return y < 0 || y >= w->image[0] || x < 0 || x >= w->image[1] ? -1 : y * w->image[1] + x;
}

/* next_pixel: the number of the next pixel of the window, from `tap` on, that lies on the image, or -1
   after the last. */
static inline int next_pixel(const window_t *w, int place, int *tap)
{
    while (*tap < w->size[0] * w->size[1]) {
        int pixel = find_pixel(w, place, *tap / w->size[1], *tap % w->size[1]);
        (*tap)++;
        if (pixel >= 0)
            return pixel;
    }
    return -1;
}

/* multiply_bits: at one place, for each unit the sum of products of the signs of its window and its
   kernel: the number of products, less twice the bits that differ. The kernel holds, for each pixel
   and word of the window, one word a unit, so units stand side by side. What lies on the border has
   the signs `border`; with ZERO_BORDER it counts as 0. */
static void multiply_bits(const uint32_t *image, const window_t *w, int place,
                          const uint32_t *kernel, const uint32_t *border, int units, float *restrict sums)
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
                if (lanes == 128) {  /* a length that the compiler knows */
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

/* multiply_bits_in_groups: at one place, for each unit the sum of products of signs, of the channels
   of its own group alone. The kernel holds, for each pixel of the window and channel of a group, one
   bit a unit. What lies on the border has the signs `border`; with ZERO_BORDER it counts as 0. */
static void multiply_bits_in_groups(const uint32_t *image, const window_t *w, int place,
                                    const uint32_t *kernel, const uint32_t *border, int units,
                                    float *restrict sums)
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

/* find_numbers: the numbers of a pixel of the window, `border` where it lies on the border. */
static inline const float *find_numbers(const float *image, const window_t *w, int place, int row,
                                        int column, const float *border)
{
    int pixel = find_pixel(w, place, row, column);
    return pixel < 0 ? border : image + pixel * w->channels;
}

/* multiply_numbers: at one place, for each unit the sum of products of numbers, of the channels of its
   own group. The kernel holds, for each pixel of the window and channel of a group, one number a
   unit. What lies on the border has the numbers `border`; with ZERO_BORDER it counts as 0. */
static void multiply_numbers(const float *image, const window_t *w, int place,
                             const float *kernel, const float *border, int units,
                             float *restrict values)
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

/* multiply_signs: multiply_numbers with a kernel of signs: for each pixel of the window and channel of a
   group, one bit a unit. */
static void multiply_signs(const float *image, const window_t *w, int place, const uint32_t *kernel,
                           const float *border, int units, float *restrict values)
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
                        if (lanes == 32)  /* a length that the compiler knows */
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

/* max_pool_numbers: the larger of each of `n` numbers and what is kept of `count` pixels before. */
static void max_pool_numbers(const float *numbers, int count, int n, float *restrict values)
{
    for (int i = 0; i < n; i++) {
        int larger = !count || numbers[i] > values[i] || numbers[i] != numbers[i];  /* or NaN */
        values[i] = larger ? numbers[i] : values[i];
    }
}

/* max_pool_bits: the same for `n` words of bits: +1 where any pixel has it. */
static void max_pool_bits(const uint32_t *words, int count, int n, uint32_t *restrict bits)
{
    for (int i = 0; i < n; i++)
        bits[i] = count ? bits[i] | words[i] : words[i];
}

/* average_pool_numbers: adds `n` numbers to the sums of `count` pixels before. */
static void average_pool_numbers(const float *numbers, int count, int n, float *restrict values)
{
    for (int i = 0; i < n; i++)
        values[i] = count ? values[i] + numbers[i] : numbers[i];
}

/* divide: the means of `n` sums of `count` pixels. */
static void divide(int count, int n, float *values)
{
    for (int i = 0; i < n; i++)
        values[i] /= (float)count;
}

/* compare: a bit for each sum: whether it reaches its threshold, or where `flips` has a 1, because
   batch normalization turned the sum around, whether it does not. Sums and thresholds are whole
   numbers, stored as float like the numbers of any layer. Bits after the last are 0. */
static void compare(const float *sums, const float *thresholds, const uint32_t *flips, int n,
                    uint32_t *restrict bits)
{
    for (int first = 0; first < n; first += 32) {
        int left = n - first < 32 ? n - first : 32;
        uint32_t word = 0;
        for (int i = 0; i < left; i++)
            word |= (uint32_t)(sums[first + i] >= thresholds[first + i]) << i;
        bits[first / 32] = word ^ flips[first / 32];
    }
}

/* take_signs: a bit for each number: whether it is at least 0. Bits after the last are 0. */
static void take_signs(const float *values, int n, uint32_t *restrict bits)
{
    for (int first = 0; first < n; first += 32) {
        int left = n - first < 32 ? n - first : 32;
        uint32_t word = 0;
        for (int i = 0; i < left; i++)
            word |= (uint32_t)(values[first + i] >= 0) << i;
        bits[first / 32] = word;
    }
}

/* copy: a row. */
static void copy(const float *numbers, int n, float *restrict values)
{
    for (int i = 0; i < n; i++)
        values[i] = numbers[i];
}

/* to_signs: -1 or +1 for each bit. */
static void to_signs(const uint32_t *bits, int n, float *restrict values)
{
    for (int i = 0; i < n; i++)
        values[i] = bits[i / 32] >> i % 32 & 1 ? 1.0f : -1.0f;
}

/* add: adds a row to another. */
static void add(const float *numbers, int n, float *restrict values)
{
    for (int i = 0; i < n; i++)
        values[i] += numbers[i];
}

/* add_one: adds one number to a row. */
static void add_one(const float *number, int n, float *restrict values)
{
    for (int i = 0; i < n; i++)
        values[i] += *number;
}

/* multiply: multiplies a row by another. */
static void multiply(const float *factors, int n, float *restrict values)
{
    for (int i = 0; i < n; i++)
        values[i] *= factors[i];
}

/* multiply_one: multiplies a row by one number. */
static void multiply_one(const float *factor, int n, float *restrict values)
{
    for (int i = 0; i < n; i++)
        values[i] *= *factor;
}

/* prelu: multiplies what is below 0 by slopes. */
static void prelu(const float *slopes, int n, float *restrict values)
{
    for (int i = 0; i < n; i++)
        values[i] = values[i] > 0 ? values[i] : values[i] * slopes[i];
}

/* apply_relu: max(x, 0). */
static void apply_relu(int n, float *values)
{
    for (int i = 0; i < n; i++)
        values[i] = values[i] < 0 ? 0 : values[i];
}

/* apply_relu6: min(max(x, 0), 6). */
static void apply_relu6(int n, float *values)
{
    for (int i = 0; i < n; i++)
        values[i] = values[i] < 0 ? 0 : values[i] > 6 ? 6 : values[i];
}

/* apply_hard_tanh: min(max(x, -1), 1). */
static void apply_hard_tanh(int n, float *values)
{
    for (int i = 0; i < n; i++)
        values[i] = values[i] < -1 ? -1 : values[i] > 1 ? 1 : values[i];
}

/* apply_sigmoid: 1 / (1 + exp(-x)). */
static void apply_sigmoid(int n, float *values)
{
    for (int i = 0; i < n; i++) {
        float shrunk = expf(-fabsf(values[i]));
        values[i] = (values[i] >= 0 ? 1 : shrunk) / (1 + shrunk);
    }
}

/* apply_tanh: tanh(x). */
static void apply_tanh(int n, float *values)
{
    for (int i = 0; i < n; i++)
        values[i] = tanhf(values[i]);
}

/* apply_softmax: exp(x) / sum of exp(x). */
static void apply_softmax(int n, float *values)
{
    float largest = values[0], total = 0;
    for (int i = 1; i < n; i++)
        largest = values[i] > largest ? values[i] : largest;
    for (int i = 0; i < n; i++)
        total += values[i] = expf(values[i] - largest);
    for (int i = 0; i < n; i++)
        values[i] /= total;
}

/* repack_bits: the bits of rows of `length`, whose last words may not be full, one after the other make
   rows of `n` bits; writes the one of a place. */
static void repack_bits(const uint32_t *rows, int length, int place, int n, uint32_t *restrict bits)
{
    int words = (length + 31) / 32;
    for (int i = 0; i < n; i++) {
        int row = (place * n + i) / length, column = (place * n + i) % length;
        uint32_t bit = rows[row * words + column / 32] >> column % 32 & 1;
        bits[i / 32] = (i % 32 ? bits[i / 32] : 0) | bit << i % 32;
    }
}
