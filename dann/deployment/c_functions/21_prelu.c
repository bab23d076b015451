/* Multiplies the values that are not above 0 by their slopes. */
static void prelu(const float *slopes, int n, float *DANN_RESTRICT values)
{
    for (int i = 0; i < n; i++)
        values[i] = values[i] > 0 ? values[i] : values[i] * slopes[i];
}
