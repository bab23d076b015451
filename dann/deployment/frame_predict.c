#endif

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
