/* Replaces each of `n` values by the number of the next pixel if that is larger. `count` pixels
   were pooled before. */
DANN_FUNCTION void max_pool_numbers(const float *numbers, int count, int n, float *DANN_RESTRICT values)
{
    for (int i = 0; i < n; i++) {
        int larger = !count || numbers[i] > values[i] || numbers[i] != numbers[i];  /* NaN stays NaN */
        values[i] = larger ? numbers[i] : values[i];
    }
}

/* Pools `n` words of bits: the maximum is +1 where any pixel is +1. `count` pixels were pooled
   before. */
DANN_FUNCTION void max_pool_bits(const uint32_t *words, int count, int n, uint32_t *DANN_RESTRICT bits)
{
    for (int i = 0; i < n; i++)
        bits[i] = count ? bits[i] | words[i] : words[i];
}

/* Adds the `n` numbers of the next pixel to the sums. `count` pixels were pooled before. */
DANN_FUNCTION void average_pool_numbers(const float *numbers, int count, int n, float *DANN_RESTRICT values)
{
    for (int i = 0; i < n; i++)
        values[i] = count ? values[i] + numbers[i] : numbers[i];
}

/* Divides `n` sums over `count` pixels by their number. */
DANN_FUNCTION void divide(int count, int n, float *values)
{
    for (int i = 0; i < n; i++)
        values[i] /= (float)count;
}

/* Sets one bit per sum: 1 if the sum is at least its threshold. `flips` inverts the bits of the
   channels in which the folded function decreases with the sum. Sums and thresholds are integers,
   stored as float like all other numbers. Unused bits of the last word are 0. */
DANN_FUNCTION void compare(const float *sums, const float *thresholds, const uint32_t *flips, int n,
                           uint32_t *DANN_RESTRICT bits)
{
    for (int first = 0; first < n; first += 32) {
        int left = n - first < 32 ? n - first : 32;
        uint32_t word = 0;
        for (int i = 0; i < left; i++)
            word |= (uint32_t)(sums[first + i] >= thresholds[first + i]) << i;
        bits[first / 32] = word ^ flips[first / 32];
    }
}

/* Sets one bit per number: 1 if the number is at least 0. Unused bits of the last word are 0. */
DANN_FUNCTION void take_signs(const float *values, int n, uint32_t *DANN_RESTRICT bits)
{
    for (int first = 0; first < n; first += 32) {
        int left = n - first < 32 ? n - first : 32;
        uint32_t word = 0;
        for (int i = 0; i < left; i++)
            word |= (uint32_t)(values[first + i] >= 0) << i;
        bits[first / 32] = word;
    }
}

/* Copies `n` numbers. */
DANN_FUNCTION void copy(const float *numbers, int n, float *DANN_RESTRICT values)
{
    for (int i = 0; i < n; i++)
        values[i] = numbers[i];
}

/* Converts `n` bits to the numbers -1 and +1. */
DANN_FUNCTION void to_signs(const uint32_t *bits, int n, float *DANN_RESTRICT values)
{
    for (int i = 0; i < n; i++)
        values[i] = bits[i / 32] >> i % 32 & 1 ? 1.0f : -1.0f;
}

/* Adds `n` numbers to the values. */
DANN_FUNCTION void add(const float *numbers, int n, float *DANN_RESTRICT values)
{
    for (int i = 0; i < n; i++)
        values[i] += numbers[i];
}

/* Adds one number to each of the `n` values. */
DANN_FUNCTION void add_one(const float *number, int n, float *DANN_RESTRICT values)
{
    for (int i = 0; i < n; i++)
        values[i] += *number;
}

/* Multiplies the values by `n` factors. */
DANN_FUNCTION void multiply(const float *factors, int n, float *DANN_RESTRICT values)
{
    for (int i = 0; i < n; i++)
        values[i] *= factors[i];
}

/* Multiplies each of the `n` values by one factor. */
DANN_FUNCTION void multiply_one(const float *factor, int n, float *DANN_RESTRICT values)
{
    for (int i = 0; i < n; i++)
        values[i] *= *factor;
}

/* Divides the values by `n` divisors. */
DANN_FUNCTION void divide_each(const float *divisors, int n, float *DANN_RESTRICT values)
{
    for (int i = 0; i < n; i++)
        values[i] /= divisors[i];
}

/* Multiplies the values that are not above 0 by their slopes. */
DANN_FUNCTION void prelu(const float *slopes, int n, float *DANN_RESTRICT values)
{
    for (int i = 0; i < n; i++)
        values[i] = values[i] > 0 ? values[i] : values[i] * slopes[i];
}

/* max(x, 0) */
DANN_FUNCTION void apply_relu(int n, float *values)
{
    for (int i = 0; i < n; i++)
        values[i] = values[i] < 0 ? 0 : values[i];
}

/* min(max(x, 0), 6) */
DANN_FUNCTION void apply_relu6(int n, float *values)
{
    for (int i = 0; i < n; i++)
        values[i] = values[i] < 0 ? 0 : values[i] > 6 ? 6 : values[i];
}

/* min(max(x, -1), 1) */
DANN_FUNCTION void apply_hard_tanh(int n, float *values)
{
    for (int i = 0; i < n; i++)
        values[i] = values[i] < -1 ? -1 : values[i] > 1 ? 1 : values[i];
}

/* x where x > 0, and exp(x) - 1 elsewhere */
DANN_FUNCTION void apply_elu(int n, float *values)
{
    for (int i = 0; i < n; i++)
        values[i] = values[i] > 0 ? values[i] : expm1f(values[i]);
}

/* x * (1 + erf(x / sqrt(2))) / 2 */
DANN_FUNCTION void apply_gelu(int n, float *values)
{
    for (int i = 0; i < n; i++)
        values[i] *= 0.5f + 0.5f * erff(values[i] * 0.70710678f);
}

/* x * (1 + tanh(sqrt(2 / pi) * (x + 0.044715 * x^3))) / 2 */
DANN_FUNCTION void apply_gelu_by_tanh(int n, float *values)
{
    for (int i = 0; i < n; i++) {
        float x = values[i];
        values[i] *= 0.5f + 0.5f * tanhf(0.79788456f * (x + 0.044715f * x * x * x));
    }
}

/* min(max(x + 3, 0), 6) / 6 */
DANN_FUNCTION void apply_hard_sigmoid(int n, float *values)
{
    for (int i = 0; i < n; i++) {
        float shifted = values[i] + 3;
        values[i] = (shifted < 0 ? 0 : shifted > 6 ? 6 : shifted) / 6;
    }
}

/* log(1 + exp(x)), with an exponent of at most 0 so that it cannot overflow. */
DANN_FUNCTION void apply_softplus(int n, float *values)
{
    for (int i = 0; i < n; i++)
        values[i] = (values[i] > 0 ? values[i] : 0) + log1pf(expf(-fabsf(values[i])));
}

/* 1 / (1 + exp(-x)), with an exponent of at most 0 so that it cannot overflow. */
DANN_FUNCTION float sigmoid(float x)
{
    float shrunk = expf(-fabsf(x));
    return (x >= 0 ? 1 : shrunk) / (1 + shrunk);
}

DANN_FUNCTION void apply_sigmoid(int n, float *values)
{
    for (int i = 0; i < n; i++)
        values[i] = sigmoid(values[i]);
}

DANN_FUNCTION void apply_silu(int n, float *values)
{
    for (int i = 0; i < n; i++)
        values[i] *= sigmoid(values[i]);
}

/* tanh(x) */
DANN_FUNCTION void apply_tanh(int n, float *values)
{
    for (int i = 0; i < n; i++)
        values[i] = tanhf(values[i]);
}

/* exp(x) / sum of exp(x). The maximum is subtracted first so that exp cannot overflow. */
DANN_FUNCTION void apply_softmax(int n, float *values)
{
    float largest = values[0], total = 0;
    for (int i = 1; i < n; i++)
        largest = values[i] > largest ? values[i] : largest;
    for (int i = 0; i < n; i++)
        total += values[i] = expf(values[i] - largest);
    for (int i = 0; i < n; i++)
        values[i] /= total;
}

/* Reshapes rows of `length` bits to rows of `n` bits and writes row `pixel`. Each input row begins
   a new word, so the last word of a row may be partly unused. */
DANN_FUNCTION void repack_bits(const uint32_t *rows, int length, int pixel, int n,
                               uint32_t *DANN_RESTRICT bits)
{
    int words = (length + 31) / 32;
    for (int i = 0; i < n; i++) {
        int row = (pixel * n + i) / length, column = (pixel * n + i) % length;
        uint32_t bit = rows[row * words + column / 32] >> column % 32 & 1;
        bits[i / 32] = (i % 32 ? bits[i / 32] : 0) | bit << i % 32;
    }
}

