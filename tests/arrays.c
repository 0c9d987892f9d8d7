#include "arrays.h"

#include "harness.h"

#include <stdatomic.h>

static array *arrays;

typedef struct block {
    struct block *next;
    max_align_t data[];
} block;
static block *blocks;

void *scratch(size_t size)
{
    block *b = calloc(1, sizeof *b + size + 1);
    if (!b)
        fail_msg("out of memory: %zu bytes", size);
    b->next = blocks;
    blocks = b;
    return b->data;
}

rvit_prune_desc *prune_in(rvit_session_desc *desc)
{
    enum { N = 1 << 13 };
    static rvit_prune_desc copies[N];
    static atomic_uint n;
    rvit_prune_desc *copy = &copies[atomic_fetch_add(&n, 1) % N];
    *copy = desc->prune == NULL ? (rvit_prune_desc)RVIT_PRUNE_DESC_INIT : *desc->prune;
    desc->prune = copy;
    return copy;
}

void arrays_release(void)
{
    for (int s = 0; s < H.n_sides; s++)
        if (rvit_stream_synchronize(H.stream[s]) != RVIT_OK)
            print_error("rvit_stream_synchronize: %s\n", rvit_status_detail());
    for (array *a = arrays; a; a = a->next)
        for (int s = 0; s < 2; s++)
            rvit_buffer_destroy(a->buffer[s]);
    arrays = NULL;
    while (blocks) {
        block *next = blocks->next;
        free(blocks);
        blocks = next;
    }
}

static int64_t buffer_size(const array *a)
{
    return GUARD + (a->size + 15) / 16 * 16 + GUARD;
}

static array *array_new(const char *name, int64_t size, rvit_buffer_type type, int is_output)
{
    array *a = scratch(sizeof *a);
    a->name = name;
    a->size = size;
    a->type = type;
    a->is_output = is_output;
    const int64_t total = buffer_size(a);
    uint8_t *whole = scratch((size_t)total);
    memset(whole, POISON, (size_t)total);
    a->host = whole + GUARD;
    memset(a->host, is_output ? SENTINEL : POISON, (size_t)size);
    for (int s = 0; s < H.n_sides; s++) {
        expect_ok(rvit_buffer_create(H.device[s], total, type, &a->buffer[s]));
        a->result[s] = (uint8_t *)scratch((size_t)total) + GUARD;
    }
    a->next = arrays;
    arrays = a;
    return a;
}

array *array_input(const char *name, int64_t size)
{
    return array_new(name, size, RVIT_BUFFER_DEVICE, 0);
}

array *array_output(const char *name, int64_t size)
{
    return array_new(name, size, RVIT_BUFFER_DEVICE, 1);
}

array *array_mapped(const char *name, int64_t size, rvit_buffer_type type)
{
    return array_new(name, size, type, type == RVIT_BUFFER_READBACK);
}

rvit_view array_view(const array *a, side s)
{
    rvit_view view = {NULL, 0};
    if (a) {
        view.buffer = a->buffer[s];
        view.offset = GUARD;
    }
    return view;
}

const array *array_of(const rvit_buffer *buffer)
{
    const array *a = arrays;
    while (a && a->buffer[DEVICE] != buffer)
        a = a->next;
    assert_non_null(a);
    return a;
}

void *array_mapping(const array *a, side s)
{
    uint8_t *host = rvit_buffer_host(a->buffer[s]);
    assert_non_null(host);
    return host + GUARD;
}

void arrays_upload(void)
{
    for (array *a = arrays; a; a = a->next)
        for (int s = 0; s < H.n_sides; s++) {
            const rvit_view whole = {a->buffer[s], 0};
            expect_ok(rvit_stream_write(H.stream[s], whole, a->host - GUARD, buffer_size(a)));
        }
    for (int s = 0; s < H.n_sides; s++)
        expect_ok(rvit_stream_synchronize(H.stream[s]));
}

static void expect_bytes(const array *a, side s, const uint8_t *found, const uint8_t *wanted, int64_t begin, int64_t end, const char *why)
{
    if (end <= begin || !memcmp(found + begin, wanted + begin, (size_t)(end - begin)))
        return;
    int64_t at = begin;
    while (found[at] == wanted[at])
        at++;
    fail_msg("%s: %s: byte %lld of %lld is %02x, was %02x (%s)", a->name, why, (long long)at, (long long)a->size, found[at], wanted[at],
             s == ORACLE ? "oracle" : H.backend_name);
}

void arrays_fetch(side s)
{
    expect_ok(rvit_stream_synchronize(H.stream[s]));
    for (array *a = arrays; a; a = a->next) {
        const rvit_view whole = {a->buffer[s], 0};
        const int64_t total = buffer_size(a);
        expect_ok(rvit_stream_read(H.stream[s], whole, a->result[s] - GUARD, total));
        expect_bytes(a, s, a->result[s], a->host, -GUARD, 0, "written before its beginning");
        expect_bytes(a, s, a->result[s], a->host, a->size, total - GUARD, "written past its end");
        if (!a->is_output)
            expect_bytes(a, s, a->result[s], a->host, 0, a->size, "an input was written");
    }
}

void array_expect_untouched(const array *a, side s, int64_t begin)
{
    expect_bytes(a, s, a->result[s], a->host, begin, a->size, "rows past the last live one were written");
}

void arrays_expect_unwritten(side s)
{
    for (const array *a = arrays; a; a = a->next)
        expect_bytes(a, s, a->result[s], a->host, 0, a->size, "written by a call that failed");
}

array *array_cu(const batch *b)
{
    array *a = array_input("cu_seqlens", (b->n_images + 1) * 4);
    memcpy(a->host, b->cu, (size_t)(b->n_images + 1) * 4);
    return a;
}
