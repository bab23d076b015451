/* A network of dann.deployment in C99. It needs an int of at least 32 bits and only the C standard library.

       static float input[${NAME}_INPUT_SIZE], output[${NAME}_OUTPUT_SIZE];
       ${name}_predict(input, output);

   input      $input_shape numbers, the last axis fastest (for images: rows, columns, channels), encoded
              and scaled as in training (pixels of 8 bits: 0 to 255)
   output     $output_shape numbers; for a classifier, number i is the logit of class i, counted from 0: the
              largest belongs to the predicted class
   flash      $flash bytes of constants, in addition to the code
   RAM        $ram bytes of buffers, and less than 1 KB of stack

   The buffers are static, so ${name}_predict is not reentrant: two threads must not call it at the same
   time, and an interrupt handler must not call it while it runs.

   The file also compiles as C++. It is its own header, with the declarations alone:

       #define ${NAME}_HEADER
       #include "THIS_FILE"

   cc -DDANN_TEST THIS_FILE -lm && ./a.out    prints "ok" if the outputs of a test input are correct

   Images are stored pixel by pixel, row after row. The channels of a pixel are adjacent. Units are the
   channels of an output. A dense layer is an image of one pixel.

   Signs are stored as bits of 32-bit words: 1 for +1, 0 for -1, the first in the lowest bit. Each pixel
   begins a new word. The unused bits of its last word are 0; the functions below rely on that.

   The steps of the network are numbered: kernel_2 and window_2 belong to step 2, and equal constants have
   the number of the first step. Buffers are numbered independently: several steps use bits_1, one after the
   other. */

#include <math.h>
#include <stdint.h>

#define ${NAME}_INPUT_SIZE ($input_shape)
#define ${NAME}_OUTPUT_SIZE ($output_shape)

#ifdef __cplusplus
extern "C" void ${name}_predict(const float *input, float *output);
#define DANN_RESTRICT __restrict
#else
void ${name}_predict(const float *input, float *output);
#define DANN_RESTRICT restrict
#endif

#ifndef ${NAME}_HEADER

#ifndef DANN_FUNCTIONS_$version  /* other networks in the same program may define them */
#define DANN_FUNCTIONS_$version

#if defined(__GNUC__) && defined(__AVX512F__)  /* then no vector crosses a cache line */
#define DANN_ALIGNED __attribute__((aligned(64)))
#else
#define DANN_ALIGNED
#endif

/* A network uses only some of the functions below; compilers omit the others. */
#ifdef __GNUC__
#define DANN_FUNCTION static __attribute__((unused))
#else
#define DANN_FUNCTION static
#endif

#define ZERO_BORDER 0  /* a null pointer: pixels on the border count as 0 */

/* The windows that a convolution or a pooling moves over an image. Of each pair, the first number is for
   rows and the second for columns. A dense layer has one window of one pixel. */
typedef struct {
    int image[2];        /* size of the image in pixels */
    int size[2];         /* size of a window in pixels */
    int strides[2];      /* from one window to the next */
    int dilation[2];     /* from one pixel of a window to the next */
    int pads[2];         /* width of the border at the top and on the left */
    int output_width;    /* number of windows in a row */
    int channels;        /* of the image */
    int groups;          /* of channels, in a convolution */
} window_t;

/* Returns the number of bits that are set in a word. __POPCNT__ is not tested, because gcc and
   clang compile the arithmetic below to a popcount instruction where there is one. */
DANN_FUNCTION inline uint32_t count_bits(uint32_t word)
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

/* Returns the index of the image pixel at a row and a column of the window of output `pixel`, or
   -1 on the border. */
DANN_FUNCTION inline int find_pixel(const window_t *w, int pixel, int row, int column)
{
    int y = pixel / w->output_width * w->strides[0] - w->pads[0] + row * w->dilation[0];
    int x = pixel % w->output_width * w->strides[1] - w->pads[1] + column * w->dilation[1];
    return y < 0 || y >= w->image[0] || x < 0 || x >= w->image[1] ? -1 : y * w->image[1] + x;
}

/* Returns the index of the next pixel of the window, starting from `tap`, that is inside the
   image, or -1 after the last one. Advances `tap`. */
DANN_FUNCTION inline int next_pixel(const window_t *w, int pixel, int *tap)
{
    while (*tap < w->size[0] * w->size[1]) {
        int pixel_in = find_pixel(w, pixel, *tap / w->size[1], *tap % w->size[1]);
        (*tap)++;
        if (pixel_in >= 0)
            return pixel_in;
    }
    return -1;
}

/* Computes for each unit of output `pixel` the sum of the products of the signs of its window and its
   kernel: the number of products minus twice the number of bits that differ. For each pixel and
   word of the window, the kernel contains one word per unit, so that the loop over the units reads
   consecutive words. Pixels on the border have the signs `border`, or with ZERO_BORDER the value
   0. */
DANN_FUNCTION void multiply_bits(const uint32_t *image, const window_t *w, int pixel,
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
                int pixel_in = find_pixel(w, pixel, row, column);
                const uint32_t *signs = pixel_in < 0 ? border : image + pixel_in * words;
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

/* Computes for each unit of output `pixel` the sum of the products of signs over the channels of its
   group. For each pixel of the window and channel of a group, the kernel contains one bit per
   unit. Pixels on the border have the signs `border`, or with ZERO_BORDER the value 0. */
DANN_FUNCTION void multiply_bits_in_groups(const uint32_t *image, const window_t *w, int pixel,
                                           const uint32_t *kernel, const uint32_t *border, int units,
                                           float *DANN_RESTRICT sums)
{
    int words = (w->channels + 31) / 32, channels = w->channels / w->groups;
    for (int unit = 0; unit < units; unit++)
        sums[unit] = 0;
    for (int row = 0; row < w->size[0]; row++)
        for (int column = 0; column < w->size[1]; column++) {
            int pixel_in = find_pixel(w, pixel, row, column);
            const uint32_t *signs = pixel_in < 0 ? border : image + pixel_in * words;
            for (int channel = 0; channel < channels; channel++, kernel += (units + 31) / 32)
                for (int unit = 0; signs && unit < units; unit++) {
                    int input = unit * w->groups / units * channels + channel;
                    uint32_t differs = signs[input / 32] >> input % 32 ^ kernel[unit / 32] >> unit % 32;
                    sums[unit] += differs & 1 ? -1.0f : 1.0f;
                }
        }
}

/* Returns the channels of the image pixel at a row and a column of the window, or `border` on the
   border. */
DANN_FUNCTION inline const float *find_numbers(const float *image, const window_t *w, int pixel, int row,
                                               int column, const float *border)
{
    int pixel_in = find_pixel(w, pixel, row, column);
    return pixel_in < 0 ? border : image + pixel_in * w->channels;
}

/* Computes for each unit of output `pixel` the sum of the products of floats over the channels of its
   group. For each pixel of the window and channel of a group, the kernel contains one float per
   unit. Pixels on the border have the values `border`, or with ZERO_BORDER the value 0. */
DANN_FUNCTION void multiply_numbers(const float *image, const window_t *w, int pixel,
                                    const float *kernel, const float *border, int units,
                                    float *DANN_RESTRICT values)
{
    int channels = w->channels / w->groups;
    for (int unit = 0; unit < units; unit++)
        values[unit] = 0;
    for (int row = 0; row < w->size[0]; row++)
        for (int column = 0; column < w->size[1]; column++) {
            const float *numbers = find_numbers(image, w, pixel, row, column, border);
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

/* Computes the same sums as multiply_numbers with a kernel of signs, which contains one bit per
   unit for each pixel of the window and channel of a group. */
DANN_FUNCTION void multiply_signs(const float *image, const window_t *w, int pixel, const uint32_t *kernel,
                                  const float *border, int units, float *DANN_RESTRICT values)
{
    int channels = w->channels / w->groups, words = (units + 31) / 32;
    for (int unit = 0; unit < units; unit++)
        values[unit] = 0;
    for (int row = 0; row < w->size[0]; row++)
        for (int column = 0; column < w->size[1]; column++) {
            const float *numbers = find_numbers(image, w, pixel, row, column, border);
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

