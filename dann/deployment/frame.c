/* A network of dann.deployment in C99. It needs an int of at least 32 bits and only the C standard library.

       static float input[${NAME}_INPUT_SIZE], output[${NAME}_OUTPUT_SIZE];
       ${name}_predict(input, output);

   input      $input_shape numbers, the last axis fastest (for images: rows, columns, channels), in the
              range that the model expects$input_range
   output     $output_shape numbers; for a classifier, one logit per class in the order of the labels: the
              largest belongs to the predicted class
   flash      $flash bytes of constants, in addition to the code
   RAM        $ram bytes of buffers, and less than 1 KB of stack
   work       for one input, at most these products with weights:
              $multiply_numbers multiply-adds of floats;
              $multiply_signs additions of floats, whose weights are signs;
              $multiply_bits words of up to 32 signs, by xor and bit count;
              $multiply_bits_in_groups signs one at a time, by xor

   The buffers are static, so ${name}_predict is not reentrant: two threads must not call it at the same
   time, and an interrupt handler must not call it while it runs.

   The file also compiles as C++. It is its own header, with the declarations alone:

       #define ${NAME}_HEADER
       #include "THIS_FILE"

   cc -DDANN_TEST THIS_FILE -lm && ./a.out    prints "ok" if the outputs of a test input are correct

   Images are stored pixel by pixel, row after row. A place is the index of a pixel of an output. The
   channels of a pixel are adjacent. Units are the channels of an output. A dense layer is an image of one
   pixel.

   Signs are stored as bits of 32-bit words: 1 for +1, 0 for -1, the first in the lowest bit. Each pixel
   begins a new word. The unused bits of its last word are 0; the functions below rely on that.

   The steps of the network are numbered: kernel_2 and window_2 belong to step 2. Buffers are numbered
   independently: several steps use bits_1, one after the other. */

$math#include <stdint.h>

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

#if defined(__GNUC__) && defined(__AVX512F__)  /* then no vector crosses a cache line */
#define DANN_ALIGNED __attribute__((aligned(64)))
#else
#define DANN_ALIGNED
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

$functions
$constants$buffers

void ${name}_predict(const float *input, float *output)
{
$body
}

#ifdef DANN_TEST
#include <stdio.h>

/* Compares up to 100 outputs of a test input with the outputs that Python computed. They may differ by a
   thousandth of the largest output. */
int main(void)
{
    static const float expected[] = {
$expected
    };
    static float input[${NAME}_INPUT_SIZE], output[${NAME}_OUTPUT_SIZE];
    for (int i = 0; i < ${NAME}_INPUT_SIZE; i++)
        input[i] = (float)(i * $factor % 256);
    ${name}_predict(input, output);
    for (int i = 0; i < (int)(sizeof expected / sizeof *expected); i++) {
        float difference = output[i] - expected[i];
        if (!(difference <= $tolerance && difference >= -$tolerance)) {
            printf("output %d is %g instead of %g\n", i, output[i], expected[i]);
            return 1;
        }
    }
    puts("ok");
    return 0;
}
#endif

#endif
