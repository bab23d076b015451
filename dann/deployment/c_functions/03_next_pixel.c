/* Returns the index of the next pixel of the window, starting from `tap`, that is inside the
   image, or -1 after the last one. Advances `tap`. */
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
