/* Tests the reader of .safetensors files: accepted files, refusals with their messages, and leaks. */
#include "temp_file.h"

#include <sys/stat.h>

#include <raggedvit/ops.h>
#include <raggedvit/model.h>

#include "core/base/printable.h"
#include "core/file/safetensors.h"

#define GOOD "{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]}}"
#define ENTRY(dtype, shape, begin, end) "{\"dtype\":\"" dtype "\",\"shape\":" shape ",\"data_offsets\":[" #begin "," #end "]}"
static const unsigned char one[4] = {0, 0, 0x80, 0x3f};

static counter memory;

static rvit_status open_path(const char *path, rvit_safetensors **out)
{
    static rvit_alloc alloc;
    const rvit_allocator allocator = {&memory, counter_allocate, counter_release};
    rvit_alloc_init(&alloc, &allocator);
    return rvit_safetensors_open(path, &alloc, out);
}

/* Opens the file at temp_path, and expects a failure without leaks. */
static void expect_bad(const char *word, const char *label)
{
    memory = (counter){0, 0, -1};
    const int descriptor = next_descriptor();
    rvit_safetensors *file = NULL;
    const rvit_status status = open_path(temp_path, &file);
    if (status != RVIT_BAD_FILE || strstr(rvit_status_detail(), word) == NULL)
        fail_msg("%s: expected BAD_FILE with \"%s\", got %s: %s", label, word, rvit_status_name(status),
                 status == RVIT_OK ? "" : rvit_status_detail());
    assert_memory_equal(rvit_status_detail(), temp_path, strlen(temp_path));
    assert_null(file);
    assert_int_equal(memory.live, 0);
    assert_int_equal(next_descriptor(), descriptor);
}

static rvit_safetensors *expect_good(void)
{
    memory = (counter){0, 0, -1};
    rvit_safetensors *file = NULL;
    const rvit_status status = open_path(temp_path, &file);
    if (status != RVIT_OK)
        fail_msg("%s", rvit_status_detail());
    return file;
}

static void close_file(rvit_safetensors *file)
{
    rvit_safetensors_close(file);
    assert_int_equal(memory.live, 0);
}

static void write_header(const char *header, const void *data, int64_t data_size)
{
    write_file(strlen(header), header, strlen(header), data, data_size);
}

static void good_file(void **state)
{
    (void)state;
    write_header(GOOD "  ", one, 4);
    rvit_safetensors *file = expect_good();
    assert_int_equal(rvit_safetensors_count(file), 1);
    const rvit_file_tensor *tensor = rvit_safetensors_tensor(file, 0);
    assert_string_equal(tensor->name, "a");
    assert_string_equal(tensor->dtype_name, "F32");
    assert_int_equal(tensor->dtype, RVIT_F32);
    assert_int_equal(tensor->rank, 1);
    assert_int_equal(tensor->shape[0], 1);
    assert_int_equal(tensor->offset, 0);
    assert_int_equal(tensor->size, 4);
    unsigned char bytes[4] = {9, 9, 9, 9};
    assert_int_equal(rvit_safetensors_read(file, 0, 0, 4, bytes), RVIT_OK);
    assert_memory_equal(bytes, one, 4);
    bytes[1] = 9;
    assert_int_equal(rvit_safetensors_read(file, 0, 2, 1, bytes), RVIT_OK);
    assert_int_equal(bytes[0], 0x80);
    assert_int_equal(bytes[1], 9);
    assert_int_equal(rvit_safetensors_read(file, 0, 4, 0, bytes), RVIT_OK);
    assert_int_equal(rvit_safetensors_read(file, 0, 1, 4, bytes), RVIT_INVALID_ARGUMENT);
    assert_int_equal(rvit_safetensors_read(file, 0, -1, 1, bytes), RVIT_INVALID_ARGUMENT);
    assert_int_equal(rvit_safetensors_read(file, 0, 5, 0, bytes), RVIT_INVALID_ARGUMENT);
    assert_int_equal(rvit_safetensors_find(file, "a"), 0);
    assert_int_equal(rvit_safetensors_find(file, "b"), -1);
    assert_int_equal(rvit_safetensors_find(file, ""), -1);
    assert_null(rvit_safetensors_metadata(file, "k"));
    close_file(file);
    rvit_safetensors_close(NULL);
}

static void good_forms(void **state)
{
    (void)state;
    static const struct {
        const char *header;
        int64_t data_size;
        int32_t count;
    } cases[] = {
        {"{}", 0, 0},
        {GOOD, 4, 1},
        {"{\n\t\"a\" : " ENTRY("F32", "[ 1 ]", 0, 4) "\r\n}", 4, 1},
        {"{\"a\":" ENTRY("F32", "[2,0]", 0, 0) "}", 0, 1},
        {"{\"a\":" ENTRY("F32", "[0,9223372036854775807]", 0, 0) "}", 0, 1},
        {"{\"a\":" ENTRY("BF16", "[]", 0, 2) "}", 2, 1},
        {"{\"a\":" ENTRY("F4", "[2]", 0, 1) "}", 1, 1},
        {"{\"a\":" ENTRY("F6_E2M3", "[4]", 0, 3) "}", 3, 1},
        {"{\"a\":" ENTRY("C64", "[1]", 0, 8) "}", 8, 1},
        {"{\"a\":" ENTRY("U8", "[1,1,1,1,1,1,1,1]", 0, 1) "}", 1, 1},
        {"{\"a\":" ENTRY("U8", "[0]", 0, 0) ",\"b\":" ENTRY("U8", "[0]", 0, 0) ",\"c\":" ENTRY("U8", "[1]", 0, 1) "}", 1, 3},
        {"{\"a\":" ENTRY("U8", "[1]", 0, 1) ",\"b\":" ENTRY("U8", "[0]", 1, 1) "}", 1, 2},
        {"{\"__metadata__\":{}}", 0, 0},
        {"{\"__metadata__\":{\"\":\"\"},\"a\":" ENTRY("F32", "[1]", 0, 4) "}", 4, 1},
        {"{\"\xc3\xa9\xf0\x9f\x90\x88\\u00e9\":" ENTRY("U8", "[1]", 0, 1) "}", 1, 1},
        {"{\"a}],{[\\\"\\\\\":" ENTRY("U8", "[1]", 0, 1) "}", 1, 1},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        write_header(cases[i].header, NULL, cases[i].data_size);
        rvit_safetensors *file = expect_good();
        assert_int_equal(rvit_safetensors_count(file), cases[i].count);
        close_file(file);
    }
}

static void order_and_metadata(void **state)
{
    (void)state;
    write_header("{\"z\":" ENTRY("F16", "[2]", 4, 8) ",\"__metadata__\":{\"k2\":\"v2\",\"k1\":\"v1\",\"k\":\"\\u00e9\"},\"b.1\":" ENTRY(
                     "BF16", "[1]", 2, 4) ",\"b.0\":" ENTRY("U16", "[1]", 0, 2) "}",
                 "abcdefgh", 8);
    rvit_safetensors *file = expect_good();
    static const char *const names[] = {"b.0", "b.1", "z"};
    static const int32_t dtypes[] = {-1, RVIT_BF16, RVIT_F16};
    assert_int_equal(rvit_safetensors_count(file), 3);
    for (int32_t i = 0; i < 3; i++) {
        assert_string_equal(rvit_safetensors_tensor(file, i)->name, names[i]);
        assert_int_equal(rvit_safetensors_tensor(file, i)->dtype, dtypes[i]);
        assert_int_equal(rvit_safetensors_find(file, names[i]), i);
    }
    char bytes[3] = "";
    assert_int_equal(rvit_safetensors_read(file, 1, 0, 2, bytes), RVIT_OK);
    assert_string_equal(bytes, "cd");
    assert_int_equal(rvit_safetensors_find_prefix(file, "b."), 0);
    assert_int_equal(rvit_safetensors_find_prefix(file, "z"), 2);
    assert_int_equal(rvit_safetensors_find_prefix(file, "zz"), -1);
    assert_int_equal(rvit_safetensors_find_prefix(file, "a"), -1);
    assert_string_equal(rvit_safetensors_metadata(file, "k1"), "v1");
    assert_string_equal(rvit_safetensors_metadata(file, "k2"), "v2");
    assert_string_equal(rvit_safetensors_metadata(file, "k"), "\xc3\xa9");
    assert_null(rvit_safetensors_metadata(file, "k3"));
    close_file(file);
}

/* Length field, file size and first bytes. */
static void bad_frames(void **state)
{
    (void)state;
    static const char header[] = GOOD "  ";
    static const struct {
        uint64_t length;
        int64_t data_size;
        const char *word;
    } cases[] = {
        {56, 3, "truncated: it ends at byte 4"},
        {56, 5, "1 trailing bytes"},
        {53, 4, "unterminated"},
        {57, 4, "NUL at byte 56"},
        {0, 4, "length is zero"},
        {UINT64_MAX, 4, "18446744073709551615 is above 100000000"},
        {(uint64_t)1 << 63, 4, "is above"},
        {100000001, 4, "is above"},
        {100000001, 200000000, "is above"},
        {0x800000804034b50, 4, "looks like a zip archive, such as a PyTorch checkpoint"}, /* "PK\3\4", then a version and flags */
        {0x80ce8a6c0a8a0280, 4, "looks like a PyTorch checkpoint"},                       /* a pickle of PyTorch before 1.6 */
        {0x5d00002395980480, 4, "looks like a Python pickle"},
        {0x206e6f6973726576, 4, "looks like a Git LFS pointer"}, /* "version " */
        {0x346554747, 4, "looks like a GGUF file"},
        {0x6f74797012070a08, 4, "looks like an ONNX model"},
        {0x707974636f64213c, 4, "looks like a web page"},
        {0x3a2274736574227b, 4, "looks like a JSON file"},
        {0x0a1a0a0d46444889, 4, "looks like a Keras HDF5 file"},
        {100000000, 4, "truncated: the header length"},
        {61, 4, "truncated: the header length"},
        {60, 4, "NUL"},
        {54, 4, "2 trailing bytes"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        write_file(cases[i].length, header, 56, NULL, cases[i].data_size);
        expect_bad(cases[i].word, cases[i].word);
    }
    unsigned char whole[68] = {56};
    memcpy(whole + 8, header, 56);
    memcpy(whole + 64, one, 4);
    for (int size = 0; size < 68; size++) {
        const int fd = open(temp_path, O_WRONLY | O_CREAT | O_TRUNC, 0600);
        assert_int_equal(write(fd, whole, (size_t)size), size);
        close(fd);
        expect_bad(size < 8 ? "expected at least 8" : "truncated", "prefix of the good file");
    }
}

static const struct {
    const char *header;
    int64_t data_size;
    const char *word;
} bad_header_cases[] = {
    /* the first and the last bytes */
    {"\xff{}", 0, "begin with '{'"},
    {" " GOOD, 4, "begin with '{'"},
    {"\xef\xbb\xbf" GOOD, 4, "begin with '{'"},
    {"[]", 0, "begin with '{'"},
    {GOOD "\n", 4, "only spaces"},
    {GOOD "\t ", 4, "only spaces"},
    {"{}{}", 0, "only spaces"},
    {GOOD ",", 4, "only spaces"},
    {"{", 0, "unterminated"},
    {"{\"a", 0, "unterminated"},
    /* JSON */
    {"{\"a\":" ENTRY("F32", "[1]", 0, 4) ",}", 4, "JSON"},
    {"{\"a\":{\"dtype\":\"F32\",\"shape\":[1,],\"data_offsets\":[0,4]}}", 4, "JSON"},
    {"{\"a\" /* b */:" ENTRY("F32", "[1]", 0, 4) "}", 4, "JSON"},
    {"{'a':" ENTRY("F32", "[1]", 0, 4) "}", 4, "JSON"},
    {"{a:" ENTRY("F32", "[1]", 0, 4) "}", 4, "JSON"},
    {"{\"a\":NaN}", 0, "JSON"},
    {"{\"a\":Infinity}", 0, "JSON"},
    {"{\"a\":" ENTRY("F32", "[01]", 0, 4) "}", 4, "JSON"},
    {"{\"a\":" ENTRY("F32", "[+1]", 0, 4) "}", 4, "JSON"},
    {"{\"a\":" ENTRY("F32", "[0x1]", 0, 4) "}", 4, "JSON"},
    {"{\"a\nb\":" ENTRY("F32", "[1]", 0, 4) "}", 4, "JSON"},
    {"{\"a\\x\":" ENTRY("F32", "[1]", 0, 4) "}", 4, "invalid escape"},
    {"{\"\\ud800\":" ENTRY("F32", "[1]", 0, 4) "}", 4, "invalid Unicode"},
    {"{\"\\udc00\\ud800\":" ENTRY("F32", "[1]", 0, 4) "}", 4, "invalid Unicode"},
    {"{\"\\u0000\":" ENTRY("F32", "[1]", 0, 4) "}", 4, "\\u0000 (NUL) in a string"},
    {"{\"__metadata__\":{\"k\":\"\\u0000\"}}", 0, "JSON"},
    {"{]", 0, "JSON"},
    {"{\"a\":[[[[]]]]}", 0, "deeper than 3"},
    {"{\"a\":{\"shape\":[[1]]}}", 0, "deeper than 3"},
    {"{\"a\":{\"dtype\":{\"b\":{}}}}", 0, "deeper than 3"},
    /* UTF-8 */
    {"{\"\xc0\x80\":" ENTRY("F32", "[1]", 0, 4) "}", 4, "decode byte 0xc0"},
    {"{\"\xc1\xbf\":" ENTRY("F32", "[1]", 0, 4) "}", 4, "decode byte 0xc1"},
    {"{\"\xe0\x80\x80\":" ENTRY("F32", "[1]", 0, 4) "}", 4, "decode byte 0xe0"},
    {"{\"\xed\xa0\x80\":" ENTRY("F32", "[1]", 0, 4) "}", 4, "decode byte 0xed"},
    {"{\"\xf4\x90\x80\x80\":" ENTRY("F32", "[1]", 0, 4) "}", 4, "decode byte 0xf4"},
    {"{\"\xe2\x82\":" ENTRY("F32", "[1]", 0, 4) "}", 4, "decode byte 0xe2"},
    {"{\"\x80\":" ENTRY("F32", "[1]", 0, 4) "}", 4, "decode byte 0x80"},
    /* the same key twice */
    {"{\"a\":" ENTRY("F32", "[1]", 0, 4) ",\"a\":" ENTRY("F32", "[1]", 4, 8) "}", 8, "duplicate"},
    {"{\"a\":" ENTRY("F32", "[1]", 0, 4) ",\"\\u0061\":" ENTRY("F32", "[1]", 4, 8) "}", 8, "duplicate"},
    {"{\"a\":{\"dtype\":\"F32\",\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]}}", 4, "duplicate"},
    {"{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"shape\":[1],\"data_offsets\":[0,4]}}", 4, "duplicate"},
    {"{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4],\"data_offsets\":[0,4]}}", 4, "duplicate"},
    {"{\"__metadata__\":{},\"__metadata__\":{}}", 0, "duplicate"},
    {"{\"__metadata__\":{\"k\":\"v\",\"k\":\"v\"}}", 0, "duplicate"},
    /* __metadata__ */
    {"{\"__metadata__\":[]}", 0, "__metadata__ is not an object"},
    {"{\"__metadata__\":null}", 0, "__metadata__ is not an object"},
    {"{\"__metadata__\":\"a\"}", 0, "__metadata__ is not an object"},
    {"{\"__metadata__\":{\"k\":1}}", 0, "'k' is not a string"},
    {"{\"__metadata__\":{\"k\":null}}", 0, "'k' is not a string"},
    {"{\"__metadata__\":{\"j\":\"v\",\"k\":{}}}", 0, "'k' is not a string"},
    /* entries */
    {"{\"a\":[\"F32\",[1],[0,4]]}", 4, "tensor 'a': its entry is not an object"},
    {"{\"a\":null}", 0, "tensor 'a': its entry is not an object"},
    {"{\"a\":{}}", 0, "tensor 'a': dtype is missing"},
    {"{\"a\":{\"shape\":[1],\"data_offsets\":[0,4]}}", 4, "tensor 'a': dtype is missing"},
    {"{\"a\":{\"dtype\":\"F32\",\"data_offsets\":[0,4]}}", 4, "tensor 'a': shape is missing"},
    {"{\"a\":{\"dtype\":\"F32\",\"shape\":[1]}}", 4, "tensor 'a': data_offsets is missing"},
    {"{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4],\"x\":1}}", 4, "unknown field 'x'"},
    {"{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4],\"Shape\":[1]}}", 4, "unknown field 'Shape'"},
    {"{\"\":" ENTRY("F32", "[1]", 0, 4) "}", 4, "empty name"},
    /* dtype */
    {"{\"a\":" ENTRY("f32", "[1]", 0, 4) "}", 4, "unknown dtype 'f32'"},
    {"{\"a\":" ENTRY("F31", "[1]", 0, 4) "}", 4, "unknown dtype 'F31'"},
    {"{\"a\":" ENTRY("", "[1]", 0, 4) "}", 4, "unknown dtype ''"},
    {"{\"a\":" ENTRY("F32 ", "[1]", 0, 4) "}", 4, "unknown dtype 'F32 '"},
    {"{\"a\":{\"dtype\":32,\"shape\":[1],\"data_offsets\":[0,4]}}", 4, "dtype is not a string"},
    /* shape */
    {"{\"a\":" ENTRY("F32", "1", 0, 4) "}", 4, "shape is not an array"},
    {"{\"a\":" ENTRY("F32", "{}", 0, 4) "}", 4, "shape is not an array"},
    {"{\"a\":" ENTRY("F32", "[-1]", 0, 4) "}", 4, "shape[0] is negative"},
    {"{\"a\":" ENTRY("F32", "[-0]", 0, 0) "}", 0, "shape[0] is not an integer"},
    {"{\"a\":" ENTRY("F32", "[1.0]", 0, 4) "}", 4, "shape[0] is not an integer"},
    {"{\"a\":" ENTRY("F32", "[1e0]", 0, 4) "}", 4, "shape[0] is not an integer"},
    {"{\"a\":" ENTRY("F32", "[1,true]", 0, 4) "}", 4, "shape[1] is not an integer"},
    {"{\"a\":" ENTRY("F32", "[\"1\"]", 0, 4) "}", 4, "shape[0] is not an integer"},
    {"{\"a\":" ENTRY("F32", "[1e999]", 0, 4) "}", 4, "number out of range"},
    {"{\"a\":" ENTRY("F32", "[2]", 0, 4) "}", 4, "needs 8 bytes"},
    {"{\"a\":" ENTRY("F32", "[2,9223372036854775807]", 0, 4) "}", 4, "product of its shape overflows"},
    {"{\"a\":" ENTRY("F32", "[0,4294967296,4294967296]", 0, 0) "}", 0, "product of its shape overflows"},
    {"{\"a\":" ENTRY("F32", "[4294967296,4294967296,0]", 0, 0) "}", 0, "product of its shape overflows"},
    {"{\"a\":" ENTRY("F32", "[2,18446744073709551614]", 0, 4) "}", 4, "integer out of range"},
    {"{\"a\":" ENTRY("F32", "[9223372036854775808]", 0, 4) "}", 4, "integer out of range"},
    {"{\"a\":" ENTRY("F32", "[4611686018427387904]", 0, 0) "}", 0, "size in bits overflows"},
    {"{\"a\":" ENTRY("F32", "[1,1,1,1,1,1,1,1,1]", 0, 4) "}", 4, "rank 9 is above 8"},
    {"{\"a\":" ENTRY("F4", "[1]", 0, 1) "}", 1, "whole number of bytes"},
    {"{\"a\":" ENTRY("F6_E3M2", "[2]", 0, 2) "}", 2, "whole number of bytes"},
    {"{\"a\":" ENTRY("F32", "[0]", 0, 4) "}", 4, "needs 0 bytes"},
    /* data_offsets */
    {"{\"a\":" ENTRY("F32", "[1]", 4, 0) "}", 4, "end before they begin"},
    {"{\"a\":" ENTRY("F32", "[1]", 0, 8) "}", 4, "needs 4 bytes, but data_offsets [0, 8] give 8"},
    {"{\"a\":" ENTRY("F32", "[1]", 0, 3) "}", 4, "needs 4 bytes, but data_offsets [0, 3] give 3"},
    {"{\"a\":" ENTRY("F32", "[1]", 1, 5) "}", 4, "which has only 4 bytes"},
    {"{\"a\":" ENTRY("F32", "[1]", 4, 8) "}", 4, "which has only 4 bytes"},
    {"{\"a\":" ENTRY("F32", "[1]", 4, 8) "}", 8, "hole in the data before it: bytes 0 to 3"},
    {"{\"a\":" ENTRY("U8", "[1]", 0, 1) ",\"b\":" ENTRY("U8", "[1]", 2, 3) "}", 3, "tensor 'b': a hole"},
    {"{\"a\":" ENTRY("F32", "[0]", 4, 4) "}", 4, "hole"},
    {"{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0]}}", 4, "not an array of two"},
    {"{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4,4]}}", 4, "not an array of two"},
    {"{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":4}}", 4, "not an array of two"},
    {"{\"a\":" ENTRY("F32", "[1]", 0, 4.0) "}", 4, "data_offsets is not an array of two integers"},
    {"{\"a\":" ENTRY("F32", "[1]", null, 4) "}", 4, "data_offsets is not an array of two integers"},
    {"{\"a\":" ENTRY("F32", "[1]", -4, 4) "}", 4, "are negative"},
    {"{\"a\":" ENTRY("F32", "[1]", 0, 18446744073709551615) "}", 4, "integer out of range"},
    {"{\"a\":" ENTRY("F32", "[1]", 9223372036854775803, 9223372036854775807) "}", 4, "which has only 4 bytes"},
    {"{\"a\":" ENTRY("F32", "[1]", 0, 4) ",\"b\":" ENTRY("F32", "[1]", 0, 4) "}", 4, "tensor 'b': shares the bytes of tensor 'a'"},
    {"{\"a\":" ENTRY("F32", "[1]", 0, 4) ",\"b\":" ENTRY("F32", "[1]", 2, 6) "}", 6, "tensor 'b': overlaps tensor 'a'"},
    {"{\"a\":" ENTRY("F32", "[2]", 0, 8) ",\"b\":" ENTRY("F32", "[1]", 4, 8) "}", 8, "tensor 'b': overlaps tensor 'a'"},
    {"{\"a\":" ENTRY("F32", "[1]", 0, 4) ",\"b\":" ENTRY("F32", "[0]", 2, 2) "}", 4, "overlaps"},
    {"{}", 1, "1 trailing bytes"},
    {GOOD, 5, "1 trailing bytes"},
};

static void bad_headers(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof bad_header_cases / sizeof *bad_header_cases; i++) {
        write_header(bad_header_cases[i].header, NULL, bad_header_cases[i].data_size);
        expect_bad(bad_header_cases[i].word, bad_header_cases[i].header);
    }
    static const char with_nul[] = GOOD "\0";
    write_file(sizeof with_nul, with_nul, sizeof with_nul, one, 4);
    expect_bad("NUL at byte 54", "NUL after the brace");
    static const char nul_in_number[] = "{\"a\":{\"dtype\":\"F32\",\"shape\":[1\0],\"data_offsets\":[0,4]}}";
    write_file(sizeof nul_in_number - 1, nul_in_number, sizeof nul_in_number - 1, one, 4);
    expect_bad("NUL at byte", "NUL after a number");
}

/* A text buffer that grows. */
typedef struct text {
    char *chars;
    size_t size, capacity;
} text;

__attribute__((format(printf, 2, 3))) static void append(text *t, const char *format, ...)
{
    if (t->capacity - t->size < 4096) {
        t->capacity = t->capacity * 2 + 8192;
        t->chars = realloc(t->chars, t->capacity);
        assert_non_null(t->chars);
    }
    va_list arguments;
    va_start(arguments, format);
    t->size += (size_t)vsnprintf(t->chars + t->size, t->capacity - t->size, format, arguments);
    va_end(arguments);
}

static void write_text(text *t, int64_t data_size)
{
    write_file(t->size, t->chars, t->size, NULL, data_size);
    free(t->chars);
}

static void caps(void **state)
{
    (void)state;
    for (int extra = 0; extra < 3; extra++) {
        text t = {NULL, 0, 0};
        for (int i = 0; i < 65536 + (extra != 0); i++)
            append(&t, "%s\"t%d\":" ENTRY("U8", "[0]", 0, 0), i == 0 ? "{" : ",", i);
        append(&t, extra == 1 ? "}" : ",\"__metadata__\":{}}");
        write_text(&t, 0);
        if (extra != 0) {
            expect_bad("too many tensors", "65,537 tensors");
            continue;
        }
        rvit_safetensors *file = expect_good();
        assert_int_equal(rvit_safetensors_count(file), 65536);
        assert_true(rvit_safetensors_find(file, "t65535") >= 0);
        assert_int_equal(rvit_safetensors_find(file, "t65536"), -1);
        close_file(file);
    }
    for (int length = 1024; length <= 1025; length++) {
        text t = {NULL, 0, 0};
        append(&t, "{\"%0*d\":" ENTRY("U8", "[1]", 0, 1) "}", length, 0);
        write_text(&t, 1);
        if (length == 1024)
            close_file(expect_good());
        else
            expect_bad("longer than 1024 bytes", "long name");
    }
    text numbers = {NULL, 0, 0};
    append(&numbers, "{\"a\":{\"shape\":[0");
    for (int i = 0; i < 1000000; i++)
        append(&numbers, ",0");
    append(&numbers, "]}}");
    write_text(&numbers, 0);
    expect_bad("holds more than 983042 values", "a million extents");
    text nested = {NULL, 0, 0};
    append(&nested, "{\"a\":");
    for (int i = 0; i < 100000; i++)
        append(&nested, "[");
    write_text(&nested, 0);
    expect_bad("deeper than 3", "deep nesting");
}

/* Tensors of random sizes, listed in random order, must come back in the order of the data. */
static void shuffled(void **state)
{
    (void)state;
    enum { N = 400 };
    int sizes[N], begins[N], order[N], total = 0;
    uint32_t random = 12345;
    for (int i = 0; i < N; i++) {
        random = random * 1664525u + 1013904223u;
        sizes[i] = (int)(random >> 24) % 5;
        begins[i] = total;
        total += sizes[i];
        order[i] = i;
    }
    for (int i = N - 1; i > 0; i--) {
        random = random * 1664525u + 1013904223u;
        const int j = (int)(random >> 8) % (i + 1), swapped = order[i];
        order[i] = order[j];
        order[j] = swapped;
    }
    text t = {NULL, 0, 0};
    for (int i = 0; i < N; i++)
        append(&t, "%s\"t%d\":{\"dtype\":\"U8\",\"shape\":[%d],\"data_offsets\":[%d,%d]}", i == 0 ? "{" : ",", order[i], sizes[order[i]],
               begins[order[i]], begins[order[i]] + sizes[order[i]]);
    append(&t, "}");
    write_text(&t, total);
    rvit_safetensors *file = expect_good();
    assert_int_equal(rvit_safetensors_count(file), N);
    int64_t end = 0;
    for (int32_t i = 0; i < N; i++) {
        const rvit_file_tensor *tensor = rvit_safetensors_tensor(file, i);
        assert_int_equal(tensor->offset, end);
        end += tensor->size;
        const int number = atoi(tensor->name + 1);
        assert_int_equal(tensor->offset, begins[number]);
        assert_int_equal(tensor->size, sizes[number]);
        assert_int_equal(rvit_safetensors_find(file, tensor->name), i);
    }
    close_file(file);
}

/* Tries every value of every byte before the data: the result is consistent, or an error. */
static void mutations(void **state)
{
    (void)state;
    unsigned char whole[68] = {56};
    memcpy(whole + 8, GOOD "  ", 56);
    memcpy(whole + 64, one, 4);
    int n_good = 0;
    const int fd = open(temp_path, O_RDWR | O_CREAT | O_TRUNC, 0600);
    assert_int_equal(write(fd, whole, 68), 68);
    for (int i = 0; i < 64; i++) {
        for (int value = 0; value < 256; value++) {
            const unsigned char byte = (unsigned char)value;
            assert_int_equal(pwrite(fd, &byte, 1, i), 1);
            memory = (counter){0, 0, -1};
            rvit_safetensors *file = NULL;
            const rvit_status status = open_path(temp_path, &file);
            if (status == RVIT_OK) {
                n_good += byte != whole[i];
                assert_int_equal(rvit_safetensors_count(file), 1);
                assert_int_equal(rvit_safetensors_tensor(file, 0)->size, 4);
                float read = 0;
                assert_int_equal(rvit_safetensors_read(file, 0, 0, 4, &read), RVIT_OK);
                rvit_safetensors_close(file);
            } else {
                assert_int_equal(status, RVIT_BAD_FILE);
                assert_memory_equal(rvit_status_detail(), temp_path, strlen(temp_path));
            }
            assert_int_equal(memory.live, 0);
        }
        assert_int_equal(pwrite(fd, &whole[i], 1, i), 1);
    }
    close(fd);
    /* Valid results: another one-character name (not '"' or '\\', but DEL), I32 and U32, and the shape [] with one of 4 blanks in it. */
    assert_int_equal(n_good, 93 + 2 + 4);
}

static void harmless_messages(void **state)
{
    (void)state;
    write_header("{\"\\u001b[31m\\u009b\\u007f\":" ENTRY("F31", "[1]", 0, 4) "}", NULL, 4);
    expect_bad("tensor '\\x1b[31m\\xc2\\x9b\\x7f': unknown dtype", "control characters");
    text t = {NULL, 0, 0};
    append(&t, "{\"%01000d\":" ENTRY("F31", "[1]", 0, 4) "}", 0);
    write_text(&t, 4);
    expect_bad("000...0000000000000000000000000000000000000000000000': unknown dtype 'F31'", "a long name");
    write_header("{\"a\":\"\x01\"}", NULL, 0);
    expect_bad("control character 0x1", "a control character");

    char out[16];
    rvit_printable(out, sizeof out, "123456789012345");
    assert_string_equal(out, "123456789012345");
    rvit_printable(out, sizeof out, "1234567890123456");
    assert_string_equal(out, "123456...123456");
    rvit_printable(out, sizeof out, "12345678901\n");
    assert_string_equal(out, "12345678901\\x0a");
    rvit_printable(out, sizeof out, "12345678901\n2");
    assert_string_equal(out, "123456...1\\x0a2");
    rvit_printable(out, sizeof out, "\xc3\xa9\xe2\x82");
    assert_string_equal(out, "\xc3\xa9\\xe2\\x82");
    rvit_printable(out, sizeof out, "\xf0\x9f\x90\x88\xff\x80\xc3");
    assert_string_equal(out, "\xf0\x9f\x90\x88...\\x80\\xc3");
    rvit_printable(out, sizeof out, "\xe2\x80\xae"); /* right to left from here */
    assert_string_equal(out, "\\xe2\\x80\\xae");
    rvit_printable(out, sizeof out, "\xe0\x80\x9b"); /* an escape in three bytes */
    assert_string_equal(out, "\\xe0\\x80\\x9b");
    rvit_printable(out, sizeof out, "\xed\xa0\x80"); /* half of a surrogate pair */
    assert_string_equal(out, "\\xed\\xa0\\x80");
}

static void unreadable_paths(void **state)
{
    (void)state;
    memory = (counter){0, 0, -1};
    rvit_safetensors *file = NULL;
    assert_int_equal(open_path(temp_folder, &file), RVIT_BAD_FILE);
    ASSERT_DETAIL("is a folder");
    char path[700];
    snprintf(path, sizeof path, "%s/missing\n.safetensors", temp_folder);
    assert_int_equal(open_path(path, &file), RVIT_BAD_FILE);
    ASSERT_DETAIL("/missing\\x0a.safetensors: no such file");
    assert_int_equal(open_path("", &file), RVIT_BAD_FILE);
    memset(path, 'x', sizeof path - 1);
    path[sizeof path - 1] = '\0';
    assert_int_equal(open_path(path, &file), RVIT_BAD_FILE);
    ASSERT_DETAIL("xxx: cannot open it");
    snprintf(path, sizeof path, "%s/pipe", temp_folder);
    assert_int_equal(mkfifo(path, 0600), 0);
    assert_int_equal(open_path(path, &file), RVIT_BAD_FILE);
    ASSERT_DETAIL("not a regular file");
    unlink(path);
    write_header(GOOD, one, 4);
    if (geteuid() != 0) {
        assert_int_equal(chmod(temp_path, 0), 0);
        expect_bad("permission denied", "mode 0");
    }
    assert_null(file);
    assert_int_equal(memory.live, 0);
}

static void changed_files(void **state)
{
    (void)state;
    float value = 7;
    /* 0: another size, 1: another second, 2: another nanosecond. */
    for (int change = 0; change < 3; change++) {
        write_header(GOOD, one, 4);
        struct stat info;
        assert_int_equal(stat(temp_path, &info), 0);
        rvit_safetensors *file = expect_good();
        if (change == 0)
            assert_int_equal(truncate(temp_path, 60), 0);
        struct timespec times[2] = {{0, UTIME_NOW}, info.st_mtim};
        times[1].tv_sec += change == 1;
        times[1].tv_nsec = change == 2 ? (times[1].tv_nsec + 1000000) % 1000000000 : times[1].tv_nsec;
        assert_int_equal(utimensat(AT_FDCWD, temp_path, times, 0), 0);
        assert_int_equal(rvit_safetensors_read(file, 0, 0, 4, &value), RVIT_BAD_FILE);
        ASSERT_DETAIL("has changed");
        assert_true(value == 7);
        close_file(file);
    }

    /* If the file is replaced, the opened one is still read. */
    write_header(GOOD, one, 4);
    rvit_safetensors *file = expect_good();
    unlink(temp_path);
    write_header("{}", NULL, 0);
    assert_int_equal(rvit_safetensors_read(file, 0, 0, 4, &value), RVIT_OK);
    assert_true(value == 1);
    close_file(file);
}

static void failed_allocations(void **state)
{
    (void)state;
    write_header("{\"__metadata__\":{\"k\":\"v\"},\"a\":" ENTRY("F32", "[1]", 0, 4) "}", one, 4);
    const int descriptor = next_descriptor();
    int64_t i = 0;
    for (;; i++) {
        memory = (counter){0, 0, i};
        rvit_safetensors *file = NULL;
        const rvit_status status = open_path(temp_path, &file);
        if (status == RVIT_OK) {
            close_file(file);
            break;
        }
        assert_int_equal(status, RVIT_OUT_OF_HOST_MEMORY);
        ASSERT_DETAIL("memory");
        assert_null(file);
        assert_int_equal(memory.live, 0);
        assert_int_equal(next_descriptor(), descriptor);
    }
    assert_true(i >= 5);
}

/* The public API: values of every float type, and invalid calls. */
static void tensors(void **state)
{
    (void)state;
    static const unsigned char data[24] = {0x80, 0x3f, 0x20, 0xc0, 0x00, 0x3c, 0x00, 0xb8, 0, 0, 0x80, 0x3f, 0, 0, 0x20, 0xc0, 7};
    static const char header[] = "{\"b\":" ENTRY("BF16", "[1,2]", 0, 4) ",\"h\":" ENTRY("F16", "[2]", 4, 8) ",\"f\":" ENTRY(
        "F32", "[2]", 8, 16) ",\"i\":" ENTRY("I64", "[1]", 16, 24) "}";
    static const float wanted[3][2] = {{1, -2.5f}, {1, -0.5f}, {1, -2.5f}};
    write_header(header, data, 24);
    const rvit_allocator allocator = {&memory, counter_allocate, counter_release};
    rvit_tensors *file = NULL;
    int64_t i = 0;
    for (; file == NULL; i++) {
        memory = (counter){0, 0, i};
        const rvit_status status = rvit_tensors_open(temp_path, &allocator, &file);
        assert_true(status == RVIT_OK || status == RVIT_OUT_OF_HOST_MEMORY);
        assert_true(status == RVIT_OK || (file == NULL && memory.live == 0));
    }
    assert_true(i > 5);
    assert_int_equal(rvit_tensors_count(file), 4);
    assert_int_equal(rvit_tensors_find(file, "f"), 2);
    assert_int_equal(rvit_tensors_find(file, "none"), -1);
    rvit_tensor_info found = RVIT_TENSOR_INFO_INIT;
    assert_int_equal(rvit_tensors_get(file, 0, &found), RVIT_OK);
    assert_string_equal(found.name, "b");
    assert_string_equal(found.dtype, "BF16");
    assert_true(found.rank == 2 && found.shape[0] == 1 && found.shape[1] == 2 && found.size == 4 && found.used == 0);
    assert_int_equal(rvit_tensors_get(file, 4, &found), RVIT_INVALID_ARGUMENT);
    assert_int_equal(rvit_tensors_get(file, 0, NULL), RVIT_INVALID_ARGUMENT);
    float values[2];
    for (int32_t t = 0; t < 3; t++) {
        assert_int_equal(rvit_tensors_read(file, t, 0, 2, values), RVIT_OK);
        assert_memory_equal(values, wanted[t], sizeof values);
        assert_int_equal(rvit_tensors_read(file, t, 1, 1, values), RVIT_OK);
        assert_true(values[0] == wanted[t][1]);
        assert_int_equal(rvit_tensors_read(file, t, 1, 2, values), RVIT_INVALID_ARGUMENT);
        ASSERT_DETAIL("has 2");
    }
    assert_int_equal(rvit_tensors_read(file, 3, 0, 1, values), RVIT_BAD_FILE);
    ASSERT_DETAIL("tensor 'i': dtype is I64, expected F32, F16 or BF16");
    assert_int_equal(rvit_tensors_read(file, 0, INT64_MAX, 2, values), RVIT_INVALID_ARGUMENT);
    assert_int_equal(rvit_tensors_read(file, -1, 0, 0, values), RVIT_INVALID_ARGUMENT);
    uint8_t bytes[8];
    assert_int_equal(rvit_tensors_get(file, 3, &found), RVIT_OK);
    assert_int_equal(found.size, 8);
    assert_int_equal(rvit_tensors_read_bytes(file, 3, 0, 8, bytes), RVIT_OK);
    assert_int_equal(rvit_tensors_read_bytes(file, 0, 2, 2, bytes), RVIT_OK);
    assert_memory_equal(bytes, data + 2, 2);
    assert_int_equal(rvit_tensors_read_bytes(file, 0, 2, 3, bytes), RVIT_INVALID_ARGUMENT);
    assert_int_equal(rvit_tensors_read_bytes(file, 0, 0, 2, NULL), RVIT_INVALID_ARGUMENT);
    assert_int_equal(rvit_tensors_read_bytes(file, 4, 0, 2, bytes), RVIT_INVALID_ARGUMENT);
    rvit_tensors_destroy(file);
    rvit_tensors_destroy(NULL);
    assert_int_equal(memory.live, 0);
    write_header("{", one, 4);
    file = NULL;
    assert_int_equal(rvit_tensors_open(temp_path, NULL, &file), RVIT_BAD_FILE);
    assert_int_equal(rvit_tensors_open(NULL, NULL, &file), RVIT_INVALID_ARGUMENT);
    assert_null(file);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(good_file),        cmocka_unit_test(good_forms),    cmocka_unit_test(order_and_metadata),
        cmocka_unit_test(bad_frames),       cmocka_unit_test(bad_headers),   cmocka_unit_test(caps),
        cmocka_unit_test(shuffled),         cmocka_unit_test(mutations),     cmocka_unit_test(harmless_messages),
        cmocka_unit_test(unreadable_paths), cmocka_unit_test(changed_files), cmocka_unit_test(failed_allocations),
        cmocka_unit_test(tensors),
    };
    return cmocka_run_group_tests(tests, temp_setup, temp_teardown);
}
