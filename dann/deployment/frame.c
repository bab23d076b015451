/* A network of dann.deployment in C99. It needs an int of at least 32 bits, and no library but that of C.

       static float input[${NAME}_INPUT_SIZE], output[${NAME}_OUTPUT_SIZE];
       ${name}_predict(input, output);

   input      $input_shape numbers, the last axis fastest (of images: rows, columns, channels), as the
              model takes them$input_range
   output     $output_shape numbers, of a classifier one a class in the order of its labels: the largest is
              that of the predicted class
   flash      $flash bytes of constants, beside the code
   RAM        $ram bytes of buffers; less than 1 KB of stack
   work       at most, for one input, of products with weights:
              $multiply_numbers multiply-adds of floats;
              $multiply_signs additions of floats, whose weights are signs;
              $multiply_bits words of 32 signs or fewer, by xor and count of bits;
              $multiply_bits_in_groups signs one by one, by xor

   The buffers are static, so ${name}_predict is not reentrant: no two threads may be in it at the same
   time, nor an interrupt and what it interrupts.

   cc -DDANN_TEST THIS_FILE -lm && ./a.out    prints "ok" if the outputs of one input are right

   Images are stored pixel by pixel, row after row; a place is the number of a pixel of an output. The
   channels of a pixel stand side by side; units are channels of an output. A dense layer is an image
   of one pixel.

   Signs are bits of 32-bit words: 1 for +1, 0 for -1, the first in the lowest bit. Each pixel begins a
   new word; the bits that are left in its last word are 0, and must be.

   Steps of the network have numbers: kernel_2 and window_2 belong to step 2. Buffers have numbers of
   their own: bits_1 holds what one step after the other needs. */

$math#include <stdint.h>

#define ${NAME}_INPUT_SIZE ($input_shape)
#define ${NAME}_OUTPUT_SIZE ($output_shape)

void ${name}_predict(const float *input, float *output);

#if defined(__GNUC__) && defined(__AVX512F__)  /* a vector of this processor then lies in one line of its cache */
#define DANN_ALIGNED __attribute__((aligned(64)))
#else
#define DANN_ALIGNED
#endif

#define ZERO_BORDER 0  /* no array: what lies on the border counts as 0 */

/* The windows that a convolution or a pooling moves over an image; of each pair the first is of rows,
   the second of columns. A dense layer has one window, on one pixel. */
typedef struct {
    int image[2];        /* pixels of the image */
    int size[2];         /* pixels of a window */
    int strides[2];      /* from one window to the next */
    int dilation[2];     /* from one pixel of a window to the next */
    int pads[2];         /* width of the border above, and on the left */
    int output_width;    /* windows side by side */
    int channels;        /* of the image, and */
    int groups;          /* their groups, in a convolution */
} window_t;

$functions
$constants$buffers

void ${name}_predict(const float *input, float *output)
{
$body
}

#ifdef DANN_TEST
#include <stdio.h>

/* Compares the outputs of one input, at most 100, with those that Python computed; they may differ by
   a thousandth of the largest. */
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
