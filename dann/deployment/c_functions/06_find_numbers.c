/* Returns the channels of the image pixel at a row and a column of the window, or `border` on the
   border. */
static inline const float *find_numbers(const float *image, const window_t *w, int place, int row,
                                        int column, const float *border)
{
    int pixel = find_pixel(w, place, row, column);
    return pixel < 0 ? border : image + pixel * w->channels;
}
