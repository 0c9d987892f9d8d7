#include "good_ops.h"
#include "ops.h"

typedef struct grid_relayout_case {
    batch b;
    int32_t unit, max_windows, share; /* one unit in `share` is dropped; 0: all, 1: none */
    int with_windows, with_units;
} grid_relayout_case;

static void set(array *a, int64_t at, int32_t value)
{
    memcpy(a->host + 4 * at, &value, 4);
}

static void expect_ints(const array *a, side s, const int32_t *wanted, int64_t n, const char *what)
{
    for (int64_t i = 0; i < n; i++) {
        int32_t found;
        memcpy(&found, a->result[s] + 4 * i, 4);
        if (found != wanted[i])
            fail_msg("%s: entry %d of %d is %d, should be %d (side %d)", what, (int)i, (int)n, (int)found, (int)wanted[i], (int)s);
    }
}

static void run(const grid_relayout_case *c)
{
    const int64_t rows = c->b.rows, units = rows / c->unit, n = c->b.n_images;
    array *cu = array_cu(&c->b), *out_cu = array_input("out_cu_seqlens", 4 * (n + 1)), *src_rows = array_input("src_rows", 4 * rows);
    array *keep = array_input("keep", rows), *windows = array_input("window_cu_seqlens", 4 * (c->max_windows + (int64_t)1));
    array *group_rows = array_input("group_rows", 4 * units), *unit_cu = array_output("group_cu_seqlens", 4 * (n + 1));
    array *out_windows = array_output("out_window_cu_seqlens", 4 * (c->max_windows + (int64_t)1)),
          *out_group_rows = array_output("out_group_rows", 4 * units);
    int32_t *wanted_cu = scratch((size_t)(n + 1) * 4), *wanted_windows = scratch(((size_t)c->max_windows + 1) * 4),
            *wanted_units = scratch((size_t)(units + 1) * 4), *number = scratch((size_t)(units + 1) * 4);
    int32_t left = 0, listed = 0;
    for (int64_t i = 0; i < n; i++) {
        const int32_t begin = c->b.cu[i] / c->unit, past = c->b.cu[i + 1] / c->unit;
        int32_t *order = scratch((size_t)(past - begin + 1) * 4);
        set(out_cu, i, left * c->unit);
        for (int32_t u = begin; u < past; u++) {
            const int kept = c->share == 0 ? 0 : c->share == 1 ? 1 : random_below(c->share) > 0;
            memset(keep->host + u * c->unit, kept, (size_t)c->unit);
            for (int32_t r = 0; kept && r < c->unit; r++)
                set(src_rows, left * c->unit + r, u * c->unit + r);
            number[u] = kept ? left++ : -1;
            order[u - begin] = u;
        }
        random_shuffle(order, past - begin);
        for (int32_t u = begin; u < past; u++) {
            set(group_rows, u, order[u - begin]);
            if (number[order[u - begin]] >= 0)
                wanted_units[listed++] = number[order[u - begin]];
        }
        wanted_cu[i + 1] = left;
    }
    set(out_cu, n, left * c->unit);
    /* Windows of any lengths, the last of them empty. */
    int32_t at = 0, before = 0;
    for (int32_t w = 0; w <= c->max_windows; w++) {
        set(windows, w, at * c->unit);
        wanted_windows[w] = before * c->unit;
        for (int32_t more = random_below(7); more > 0 && at < c->b.live / c->unit; more--)
            before += number[at++] >= 0;
    }
    arrays_upload();
    for (side s = 0; (int)s < H.n_sides; s++) {
        rvit_grid_relayout_args args = RVIT_GRID_RELAYOUT_ARGS_INIT;
        args.n_images = (int32_t)n;
        args.n_windows = c->max_windows;
        args.max_len = c->b.max_len;
        args.group_size = c->unit;
        args.rows = rows;
        args.cu_seqlens = array_view(cu, s);
        args.out_cu_seqlens = array_view(out_cu, s);
        args.src_rows = array_view(src_rows, s);
        args.group_cu_seqlens = array_view(unit_cu, s);
        if (c->with_windows) {
            args.window_cu_seqlens = array_view(windows, s);
            args.out_window_cu_seqlens = array_view(out_windows, s);
        }
        if (c->with_units) {
            args.keep = array_view(keep, s);
            args.group_rows = array_view(group_rows, s);
            args.out_group_rows = array_view(out_group_rows, s);
        }
        if (!supported(s, "grid_relayout", rvit_grid_relayout(H.stream[s], &args)))
            continue;
        arrays_fetch(s);
        expect_ints(unit_cu, s, wanted_cu, n + 1, "group_cu_seqlens");
        if (c->with_windows)
            expect_ints(out_windows, s, wanted_windows, c->max_windows + (int64_t)1, "out_window_cu_seqlens");
        if (c->with_units) {
            expect_ints(out_group_rows, s, wanted_units, left, "out_group_rows");
            array_expect_untouched(out_group_rows, s, 4 * (int64_t)left);
        }
    }
    harness_teardown(NULL);
}

static void grid_relayout_random(void **state)
{
    (void)state;
    static const int32_t lengths[] = {64, 0, 4, 1600, 8, 0, 36, 128, 4, 4, 512, 4400};
    static const int32_t units[] = {4, 1, 2};
    for (int u = 0; u < 3; u++)
        for (int share = 0; share < 5; share++)
            for (int w = 0; w < 3; w++) {
                if (leaves_out(u + share + w, 2))
                    continue;
                run(&(grid_relayout_case){.b = batch_of(lengths, w == 1 ? 5 : 12, u * 8),
                                          .unit = units[u],
                                          .max_windows = w == 0 ? 0 : 900,
                                          .share = share,
                                          .with_windows = w > 0,
                                          .with_units = w != 1});
            }
    const int32_t none = 0;
    run(&(grid_relayout_case){.b = batch_of(&none, 0, 0), .unit = 4, .max_windows = 3, .share = 1, .with_windows = 1, .with_units = 1});
}

static void grid_relayout_refuses(void **state)
{
    (void)state;
    rvit_grid_relayout_args good = RVIT_GRID_RELAYOUT_ARGS_INIT;
    good_grid_relayout(&good);
    arrays_upload();
    if (!supported(DEVICE, "grid_relayout", rvit_grid_relayout(H.stream[DEVICE], &good)))
        return;
#define REFUSED(word, ...)                                                                       \
    do {                                                                                         \
        rvit_grid_relayout_args args = good;                                                     \
        __VA_ARGS__;                                                                             \
        expect_status(rvit_grid_relayout(H.stream[DEVICE], &args), RVIT_INVALID_ARGUMENT, word); \
    } while (0)
    REFUSED("n_images", args.n_images = -1);
    REFUSED("n_windows", args.n_windows = -1);
    REFUSED("max_len", args.max_len = -1);
    REFUSED("group_size", args.group_size = 0);
    REFUSED("group_size", args.group_size = 65);
    REFUSED("rows", args.rows = -1);
    REFUSED("keep", args.keep.buffer = NULL);
    REFUSED("out_group_rows", args.out_group_rows.buffer = NULL);
    REFUSED("out_window_cu_seqlens", args.out_window_cu_seqlens.buffer = NULL);
    REFUSED("group_cu_seqlens", args.group_cu_seqlens.buffer = NULL);
    REFUSED("src_rows", args.src_rows.buffer = NULL);
    REFUSED("overlaps", args.group_cu_seqlens = args.out_cu_seqlens);
#undef REFUSED
}

/* A call that works. */
void good_grid_relayout(rvit_grid_relayout_args *a)
{
    static const int32_t windows[] = {0, 4, 10}, units[] = {1, 0, 2, 3, 4, 5};
    a->n_images = GOOD_IMAGES;
    a->n_windows = 2;
    a->max_len = GOOD_MAX_LEN;
    a->group_size = 2;
    a->rows = GOOD_ROWS;
    a->cu_seqlens = good_lengths();
    a->out_cu_seqlens = good_lengths();
    a->src_rows = good_row_numbers();
    a->keep = good_input("keep", GOOD_ROWS);
    a->window_cu_seqlens = good_ints("window_cu_seqlens", windows, 3);
    a->group_rows = good_ints("group_rows", units, GOOD_ROWS / 2);
    a->group_cu_seqlens = good_output("group_cu_seqlens", 4 * (GOOD_IMAGES + 1));
    a->out_window_cu_seqlens = good_output("out_window_cu_seqlens", 12);
    a->out_group_rows = good_output("out_group_rows", GOOD_ROWS / 2 * 4);
}

SUITE(grid_relayout_suite, TEST(grid_relayout_random), TEST(grid_relayout_refuses));
