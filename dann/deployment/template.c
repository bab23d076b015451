/* A network of dann.deployment in C99.

   input                $input_shape numbers, channels last
   output               $output_shape numbers
   constants (flash)    $flash bytes
   buffers (RAM)        $ram bytes

   Signs are bits of 32-bit words: 1 for +1, 0 for -1, the first in the lowest bit. Images are rows
   of pixels, whose channels stand side by side. */

#include <math.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#define DANN_INPUT_SIZE $input_size
#define DANN_OUTPUT_SIZE $output_size

void dann_predict(const float *input, float *output);

#if defined(__GNUC__)  /* a network calls only some of these functions */
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wunused-function"
#endif

#if defined(__GNUC__) && defined(__AVX512F__)  /* a vector of this processor then lies in one line of its cache */
#define DANN_ALIGNED __attribute__((aligned(64)))
#else
#define DANN_ALIGNED
#endif

/* A window at one place of an image: `rows` x `columns` pixels of `channels` numbers or signs. */
typedef struct {
    int height, width, channels;  /* of the image */
    int rows, columns;            /* of the window */
    int down, right;              /* from one window to the next */
    int row_step, column_step;    /* from one pixel of a window to the next */
    int top, left;                /* width of the border */
    int across;                   /* windows side by side */
    int groups;                   /* of channels, in a convolution */
} window_t;

/* How many bits of a word are set. */
static inline uint32_t count_bits(uint32_t word)
{
#if defined(__AVX512VPOPCNTDQ__) || defined(__ARM_NEON) || defined(__riscv_zbb)
    return (uint32_t)__builtin_popcount(word);
#else
    word -= word >> 1 & 0x55555555u;
    word = (word & 0x33333333u) + (word >> 2 & 0x33333333u);
    word = (word + (word >> 4)) & 0x0f0f0f0fu;
    return word * 0x01010101u >> 24;
#endif
}

/* The number of a pixel of a window, or -1 where it lies on the border. */
static inline int find_pixel(const window_t *w, int place, int row, int column)
{
    int y = place / w->across * w->down - w->top + row * w->row_step;
    int x = place % w->across * w->right - w->left + column * w->column_step;
    return y < 0 || y >= w->height || x < 0 || x >= w->width ? -1 : y * w->width + x;
}

/* Sums of products of signs, one for each unit. Signs are bits: 1 for +1, 0 for -1. The kernel
   holds, for each pixel and word of the window, one word a unit. A border of NULL counts as 0. */
static void multiply_bits(const uint32_t *image, const window_t *w, int place,
                          const uint32_t *kernel, const uint32_t *border, int units, float *restrict sums)
{
    int words = (w->channels + 31) / 32;
    for (int first = 0; first < units; first += 128) {
        int lanes = units - first < 128 ? units - first : 128;
        const uint32_t *weights = kernel + first;
        uint32_t different[128] = {0};
        int32_t products = 0;
        for (int row = 0; row < w->rows; row++)
            for (int column = 0; column < w->columns; column++, weights += words * units) {
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

/* The same for groups: each unit takes the channels of its own group alone. The kernel holds, for
   each pixel of the window and channel of a group, one bit a unit. */
static void multiply_bits_in_groups(const uint32_t *image, const window_t *w, int place,
                                    const uint32_t *kernel, const uint32_t *border, int units,
                                    float *restrict sums)
{
    int words = (w->channels + 31) / 32, channels = w->channels / w->groups;
    for (int unit = 0; unit < units; unit++)
        sums[unit] = 0;
    for (int row = 0; row < w->rows; row++)
        for (int column = 0; column < w->columns; column++) {
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

/* Sums of products of numbers, one for each unit. */
static void multiply_numbers(const float *image, const window_t *w, int place,
                             const float *kernel, const float *border, int units,
                             float *restrict values)
{
    int channels = w->channels / w->groups;
    for (int unit = 0; unit < units; unit++)
        values[unit] = 0;
    for (int row = 0; row < w->rows; row++)
        for (int column = 0; column < w->columns; column++) {
            int pixel = find_pixel(w, place, row, column);
            const float *numbers = pixel < 0 ? border : image + pixel * w->channels;
            for (int channel = 0; channel < channels; channel++, kernel += units)
                if (numbers && w->groups == 1)
                    for (int unit = 0; unit < units; unit++)
                        values[unit] += numbers[channel] * kernel[unit];
                else if (numbers)
                    for (int unit = 0; unit < units; unit++)
                        values[unit] += numbers[unit * w->groups / units * channels + channel] * kernel[unit];
        }
}

/* The same with a kernel of signs: for each pixel and channel of a group, one bit a unit. */
static void multiply_signs(const float *image, const window_t *w, int place, const uint32_t *kernel,
                           const float *border, int units, float *restrict values)
{
    int channels = w->channels / w->groups, words = (units + 31) / 32;
    for (int unit = 0; unit < units; unit++)
        values[unit] = 0;
    for (int row = 0; row < w->rows; row++)
        for (int column = 0; column < w->columns; column++) {
            int pixel = find_pixel(w, place, row, column);
            const float *numbers = pixel < 0 ? border : image + pixel * w->channels;
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

/* What a pooling keeps of `n` numbers, or words of bits, after `count` others. */
static void keep_largest_float(const float *numbers, int count, int n, float *restrict values)
{
    for (int i = 0; i < n; i++) {
        int larger = !count || numbers[i] > values[i] || numbers[i] != numbers[i];  /* or NaN */
        values[i] = larger ? numbers[i] : values[i];
    }
}

static void keep_largest_bits(const uint32_t *words, int count, int n, uint32_t *restrict bits)
{
    for (int i = 0; i < n; i++)
        bits[i] = count ? bits[i] | words[i] : words[i];
}

static void keep_sum(const float *numbers, int count, int n, float *restrict values)
{
    for (int i = 0; i < n; i++)
        values[i] = count ? values[i] + numbers[i] : numbers[i];
}

static void divide(int count, int n, float *values)
{
    for (int i = 0; i < n; i++)
        values[i] /= (float)count;
}

/* A bit for each sum: whether it reaches its threshold, or does not where `flips` has a bit. */
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

/* A bit for each number: whether it is at least 0. */
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

/* -1 or +1 for each bit. */
static void to_signs(const uint32_t *bits, int n, float *restrict values)
{
    for (int i = 0; i < n; i++)
        values[i] = bits[i / 32] >> i % 32 & 1 ? 1.0f : -1.0f;
}

static void add(const float *numbers, int n, float *restrict values)
{
    for (int i = 0; i < n; i++)
        values[i] += numbers[i];
}

static void add_one(const float *number, int n, float *restrict values)
{
    for (int i = 0; i < n; i++)
        values[i] += *number;
}

static void multiply(const float *factors, int n, float *restrict values)
{
    for (int i = 0; i < n; i++)
        values[i] *= factors[i];
}

static void multiply_one(const float *factor, int n, float *restrict values)
{
    for (int i = 0; i < n; i++)
        values[i] *= *factor;
}

static void prelu(const float *slopes, int n, float *restrict values)
{
    for (int i = 0; i < n; i++)
        values[i] = values[i] > 0 ? values[i] : values[i] * slopes[i];
}

static void apply_relu(int n, float *values)
{
    for (int i = 0; i < n; i++)
        values[i] = values[i] < 0 ? 0 : values[i];
}

static void apply_relu6(int n, float *values)
{
    for (int i = 0; i < n; i++)
        values[i] = values[i] < 0 ? 0 : values[i] > 6 ? 6 : values[i];
}

static void apply_hard_tanh(int n, float *values)
{
    for (int i = 0; i < n; i++)
        values[i] = values[i] < -1 ? -1 : values[i] > 1 ? 1 : values[i];
}

static void apply_sigmoid(int n, float *values)
{
    for (int i = 0; i < n; i++) {
        float shrunk = expf(-fabsf(values[i]));
        values[i] = (values[i] >= 0 ? 1 : shrunk) / (1 + shrunk);
    }
}

static void apply_tanh(int n, float *values)
{
    for (int i = 0; i < n; i++)
        values[i] = tanhf(values[i]);
}

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

/* `n` bits from `start` on in rows of `length`, whose last word may not be full. */
static void lay_anew(const uint32_t *rows, int length, int start, int n, uint32_t *restrict bits)
{
    int words = (length + 31) / 32;
    for (int i = 0; i < n; i++) {
        int row = (start + i) / length, place = (start + i) % length;
        uint32_t bit = rows[row * words + place / 32] >> place % 32 & 1;
        bits[i / 32] = (i % 32 ? bits[i / 32] : 0) | bit << i % 32;
    }
}

#if defined(__GNUC__)
#pragma GCC diagnostic pop
#endif

$constants
$buffers

void dann_predict(const float *input, float *output)
{
$body
}
