/* What reports must not have, and what they must keep. */
#include <stdlib.h>
#include <string.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "private_text.h"

static void removes_what_is_personal(void **state)
{
    (void)state;
    static const char *const texts[][2] = {
        {"", ""},
        {"NVIDIA GeForce GTX 1650/PCIe/SSE2", "NVIDIA GeForce GTX 1650/PCIe/SSE2"},
        {"Debian GNU/Linux 12 (bookworm)", "Debian GNU/Linux 12 (bookworm)"},
        {"llvmpipe Mesa 22.3.6 (LLVM 15.0.6, 256 bits)", "llvmpipe Mesa 22.3.6 (LLVM 15.0.6, 256 bits)"},
        {"I/O error; and/or nothing. 3.5/4", "I/O error; and/or nothing. 3.5/4"},
        {"CUDA 13.0, compute capability 9.0", "CUDA 13.0, compute capability 9.0"},
        {"12:34:56", "12:34:56"},
        {"janet and jane-doe.txt", "janet and jane-doe.txt"},
        {"/opt/x/lib.so: file too short", "<path>: file too short"},
        {"cannot open '/srv/my drivers/lib.so'", "cannot open '<path>'"},
        {"cannot open /srv/my drivers/lib.so.", "cannot open <path>."},
        {"/srv/Anna van Dam/lib.so: cannot open /x/y a, b/c.d", "<path>: cannot open <path> a, <path>"},
        {"file=/etc/x (C:\\Users\\Jane\\x.dll)", "file=<path> (<path>)"},
        {"D:/vulkan/x.json, \\\\server\\share", "<path>, <path>"},
        {"~/x, ../x, ./x, lib/x.so.1, file:///x", "<path>, <path>, <path>, <path>, <path>"},
        {"of jane at janes-desk", "of <removed> at <removed>"},
        {"/home/jane doe/x y", "<path> y"},
        {"GPU-12345678-9abc-def0-1234-56789abcdef0", "GPU-<removed>"},
        {"0123456789abcdef0123456789abcdef", "<removed>"},
        {"at 0000:65:00.0 and 65:00.0", "at <removed> and <removed>"},
    };
    char out[256];
    setenv("HOME", "/home/jane doe", 1);
    setenv("USER", "jane", 1);
    setenv("HOSTNAME", "janes-desk", 1);
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        private_remove(texts[i][0], out, sizeof out);
        assert_string_equal(out, texts[i][1]);
    }
}

static void truncates(void **state)
{
    (void)state;
    char out[8], long_path[2000] = "/";
    memset(long_path + 1, 'x', sizeof long_path - 2);
    private_remove("a long text", out, sizeof out);
    assert_string_equal(out, "a long ");
    private_remove(long_path, out, sizeof out);
    assert_string_equal(out, "<path>");
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(removes_what_is_personal), cmocka_unit_test(truncates)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
