#include "core/base/sort.h"

static void swap_bytes(unsigned char *a, unsigned char *b, size_t size)
{
    for (size_t i = 0; i < size; i++) {
        const unsigned char byte = a[i];
        a[i] = b[i];
        b[i] = byte;
    }
}

void rvit_sort(void *base, size_t n, size_t size, int (*compare)(const void *, const void *))
{
    unsigned char *const items = base;
    size_t start = n / 2, end = n;
    while (end > 1) {
        if (start > 0)
            start--;
        else
            swap_bytes(items, items + --end * size, size);
        for (size_t root = start, child; (child = 2 * root + 1) < end; root = child) {
            if (child + 1 < end && compare(items + child * size, items + (child + 1) * size) < 0)
                child++;
            if (compare(items + root * size, items + child * size) >= 0)
                break;
            swap_bytes(items + root * size, items + child * size, size);
        }
    }
}
