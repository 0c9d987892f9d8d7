/* Tests checkpoints in several files with an index: they are read as one, and invalid indices are refused. */
#include "checkpoint_file.h"

#include <sys/stat.h>

#include <raggedvit/session.h>

#include "core/model/checkpoint.h"

static model whole, part;
static char index_path[128];
static counter memory;
static const char *const shard_names[] = {"a-1.safetensors", "a-2.safetensors", "a-3.safetensors"};

/* Writes every n_shards-th tensor, starting at `shard`, to the shard's file; extra: an additional tensor, or NULL. */
static void write_shard(int shard, int n_shards, const char *extra)
{
    part.n = 0;
    part.dtype = "F32";
    set_plain_config(&part, small_geometry.dim);
    for (int i = shard; i < whole.n; i += n_shards)
        part.tensors[part.n++] = whole.tensors[i];
    if (extra != NULL)
        part.tensors[part.n++] = *get(&whole, extra);
    snprintf(temp_path, sizeof temp_path, "%s/%s", temp_folder, shard_names[shard]);
    write_model(&part, WITH_VALUES);
}

static void write_shards(int n)
{
    build(&whole, &small_geometry, "F32");
    for (int i = 0; i < n; i++)
        write_shard(i, n, NULL);
}

static void write_text(const char *text, size_t size)
{
    const int fd = open(index_path, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, text, size), (ssize_t)size);
    close(fd);
}

/* Writes an index of n shards. what: JSON that replaces the file name of tensor `which`. */
static void write_index(int n, int which, const char *what)
{
    char text[8192];
    size_t at = (size_t)snprintf(text, sizeof text, "{\"metadata\":{\"total_size\":1e3,\"more\":[[{}]]},\"weight_map\":{");
    for (int i = 0; i < whole.n; i++) {
        at += (size_t)snprintf(text + at, sizeof text - at, "%s\"%s\":", i > 0 ? "," : "", whole.tensors[i].name);
        if (i == which)
            at += (size_t)snprintf(text + at, sizeof text - at, "%s", what);
        else
            at += (size_t)snprintf(text + at, sizeof text - at, "\"%s\"", shard_names[i % n]);
    }
    at += (size_t)snprintf(text + at, sizeof text - at, "}}");
    write_text(text, at);
}

static rvit_status open_index(rvit_checkpoint **out)
{
    static const rvit_allocator allocator = {&memory, counter_allocate, counter_release};
    rvit_checkpoint_desc desc = RVIT_CHECKPOINT_DESC_INIT;
    desc.allocator = &allocator;
    return rvit_checkpoint_open(index_path, &desc, out);
}

static void expect_bad(const char *word)
{
    memory = (counter){0, 0, -1};
    const int descriptor = next_descriptor();
    rvit_checkpoint *checkpoint = NULL;
    const rvit_status status = open_index(&checkpoint);
    if (status != RVIT_BAD_FILE || strstr(rvit_status_detail(), word) == NULL)
        fail_msg("expected BAD_FILE with \"%s\", got %s: %s", word, rvit_status_name(status), rvit_status_detail());
    assert_memory_equal(rvit_status_detail(), index_path, strlen(index_path));
    assert_null(checkpoint);
    assert_int_equal(memory.live, 0);
    assert_int_equal(next_descriptor(), descriptor);
}

static void good(void **state)
{
    (void)state;
    for (int n = 1; n <= 3; n++) {
        write_shards(n);
        write_index(n, -1, NULL);
        memory = (counter){0, 0, -1};
        rvit_checkpoint *checkpoint = NULL;
        if (open_index(&checkpoint) != RVIT_OK)
            fail_msg("%s", rvit_status_detail());
        rvit_model_info info = RVIT_MODEL_INFO_INIT;
        rvit_checkpoint_info files = RVIT_CHECKPOINT_INFO_INIT;
        assert_int_equal(rvit_checkpoint_get_model_info(checkpoint, &info), RVIT_OK);
        assert_int_equal(rvit_checkpoint_get_info(checkpoint, &files), RVIT_OK);
        assert_int_equal(files.n_files, n);
        assert_int_equal(files.n_tensors, whole.n);
        assert_int_equal(files.n_by_dtype[RVIT_F32], whole.n);
        assert_int_equal(files.n_unknown, 0);
        assert_int_equal(info.dim, 64);
        assert_int_equal(files.n_parameters, 150346);
        assert_string_equal(rvit_checkpoint_metadata(checkpoint, "format"), "pt");
        static float values[16 * 16 * 3 * 64];
        for (int i = 0; i < whole.n; i++) {
            const tensor *t = &whole.tensors[i];
            assert_int_equal(rvit_checkpoint_read(checkpoint, &checkpoint->alloc, t->name, n_elements(t), values), RVIT_OK);
            for (int64_t j = 0; j < n_elements(t); j++)
                assert_true(values[j] == origin_value(t->origin, j));
        }
        /* The tensors are in the order of the files. */
        for (int shard = 0, at = 0; shard < n; shard++)
            for (int i = shard; i < whole.n; i += n) {
                rvit_tensor_info found = RVIT_TENSOR_INFO_INIT;
                assert_int_equal(rvit_tensors_get(files.tensors, at++, &found), RVIT_OK);
                assert_string_equal(found.name, whole.tensors[i].name);
                assert_int_equal(found.used, 1);
            }
        rvit_checkpoint_destroy(checkpoint);
        assert_int_equal(memory.live, 0);
    }
}

static void outside(void **state)
{
    (void)state;
    write_shards(2);
    static const char *const names[] = {
        "\"/etc/a.safetensors\"", "\"../a.safetensors\"",     "\"..\"",
        "\"b/a.safetensors\"",    "\"./a-1.safetensors\"",    "\"a\\\\b.safetensors\"",
        "\"C:a.safetensors\"",    "\"\\u002fa.safetensors\"",
    };
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        write_index(2, 5, names[i]);
        expect_bad("the index names a file outside its folder");
    }
}

static void bad_shards(void **state)
{
    (void)state;
    write_shards(2);
    write_index(2, 5, "\"a-9.safetensors\"");
    expect_bad("a-9.safetensors: no such file");
    write_index(2, 5, "\"a-1.safetensors\"");
    expect_bad("the index says that tensor 'blocks.0.norm1.bias' is in 'a-1.safetensors', but it is not");
    write_index(2, 5, "\"a-1.bin\"");
    expect_bad("which is not a .safetensors file");
    write_index(2, 5, "\"\"");
    expect_bad("which is not a .safetensors file");
    write_index(2, 5, "7");
    expect_bad("the file of tensor 'blocks.0.norm1.bias' is not a string");

    write_index(2, -1, NULL);
    write_shard(1, 2, "cls_token");
    expect_bad("tensor 'cls_token' is in two files, 'a-1.safetensors' and 'a-2.safetensors'");
    write_shard(1, 2, NULL);
    assert_int_equal(truncate(temp_path, 100), 0);
    expect_bad("a-2.safetensors: truncated");
}

static void bad_indexes(void **state)
{
    (void)state;
    write_shards(2);
    static const struct {
        const char *text, *word;
    } cases[] = {
        {"", "is not valid JSON"},
        {"{", "is not valid JSON"},
        {"[]", "its top level is not an object"},
        {"{}", "weight_map is missing"},
        {"{\"weight_map\":[]}", "weight_map is not an object"},
        {"{\"weight_map\":{}}", "weight_map names no tensors"},
        {"{\"weight_map\":{\"a\":\"a-1.safetensors\",\"\\u0061\":\"a-1.safetensors\"}}", "is not valid JSON"},
        {"{\"weight_map\":{},\"weight_map\":{}}", "is not valid JSON"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        write_text(cases[i].text, strlen(cases[i].text));
        expect_bad(cases[i].word);
    }
    write_text("{\0}", 3);
    expect_bad("NUL at byte 1");
    char long_name[5000];
    snprintf(long_name, sizeof long_name, "{\"weight_map\":{\"a\":\"%04900d.safetensors\"}}", 0);
    write_text(long_name, strlen(long_name));
    expect_bad("the path of '000");
    char deep[64];
    memset(deep, '[', sizeof deep);
    write_text(deep, sizeof deep);
    expect_bad("nests deeper");
    assert_int_equal(truncate(index_path, (off_t)1 << 30), 0);
    expect_bad("bytes exceed the limit");
    assert_int_equal(unlink(index_path), 0);
    expect_bad("no such file");
    assert_int_equal(mkdir(index_path, 0700), 0);
    expect_bad("is a folder");
    assert_int_equal(rmdir(index_path), 0);
}

static void failed_allocations(void **state)
{
    (void)state;
    write_shards(3);
    write_index(3, -1, NULL);
    const int descriptor = next_descriptor();
    int64_t i = 0;
    for (;; i++) {
        memory = (counter){0, 0, i};
        rvit_checkpoint *checkpoint = NULL;
        const rvit_status status = open_index(&checkpoint);
        rvit_checkpoint_destroy(checkpoint);
        assert_int_equal(memory.live, 0);
        assert_int_equal(next_descriptor(), descriptor);
        if (status == RVIT_OK)
            break;
        assert_int_equal(status, RVIT_OUT_OF_HOST_MEMORY);
        assert_null(checkpoint);
    }
    assert_true(i > 20);
}

/* Random changes to bytes of the index give a valid checkpoint or an error. */
static void mutations(void **state)
{
    (void)state;
    write_shards(2);
    write_index(2, -1, NULL);
    struct stat info;
    assert_int_equal(stat(index_path, &info), 0);
    const int fd = open(index_path, O_RDWR);
    uint32_t random = 7;
    int n_good = 0;
    for (int i = 0; i < 3000; i++) {
        random = random * 1664525u + 1013904223u;
        const off_t at = (off_t)((random >> 8) % (uint32_t)info.st_size);
        random = random * 1664525u + 1013904223u;
        const char byte = (char)("0123456789,[]{}\":/.as-e \\\x01\xff"[(random >> 8) % 28]);
        char before;
        assert_int_equal(pread(fd, &before, 1, at), 1);
        assert_int_equal(pwrite(fd, &byte, 1, at), 1);
        memory = (counter){0, 0, -1};
        rvit_checkpoint *checkpoint = NULL;
        const rvit_status status = open_index(&checkpoint);
        n_good += status == RVIT_OK;
        assert_true(status == RVIT_OK || (status == RVIT_BAD_FILE && checkpoint == NULL));
        rvit_checkpoint_destroy(checkpoint);
        assert_int_equal(memory.live, 0);
        assert_int_equal(pwrite(fd, &before, 1, at), 1);
    }
    close(fd);
    assert_in_range(n_good, 20, 1500);
}

static int setup(void **state)
{
    if (temp_setup(state) != 0)
        return -1;
    snprintf(index_path, sizeof index_path, "%s/model.safetensors.index.json", temp_folder);
    return 0;
}

static int teardown(void **state)
{
    (void)unlink(index_path);
    for (int i = 0; i < 3; i++) {
        snprintf(temp_path, sizeof temp_path, "%s/%s", temp_folder, shard_names[i]);
        (void)unlink(temp_path);
    }
    return temp_teardown(state);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(good),
        cmocka_unit_test(outside),
        cmocka_unit_test(bad_shards),
        cmocka_unit_test(bad_indexes),
        cmocka_unit_test(failed_allocations),
        cmocka_unit_test(mutations),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
