/* Returns the index of the image pixel at a row and a column of the window of output `place`, or
   -1 on the border. */
static inline int find_pixel(const window_t *w, int place, int row, int column)
{
    int y = place / w->output_width * w->strides[0] - w->pads[0] + row * w->dilation[0];
    int x = place % w->output_width * w->strides[1] - w->pads[1] + column * w->dilation[1];
    return y < 0 || y >= w->image[0] || x < 0 || x >= w->image[1] ? -1 : y * w->image[1] + x;
}
