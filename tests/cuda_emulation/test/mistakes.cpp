/* Tests that each kind of mistake loses the device with one report, and that the next context works. */
#include "session.h"

namespace
{
void lost(const char *name, unsigned block, unsigned shared, test_params p)
{
    const int before = rvit_emulation_reports();
    {
        session s;
        if (p.in == nullptr)
            p.in = s.device<char>(1024);
        if (p.out == nullptr)
            p.out = s.device<char>(1024);
        const CUresult result = s.run(name, 2, block, shared, p);
        if (result != CUDA_ERROR_ILLEGAL_ADDRESS)
            fprintf(stderr, "%s: %d\n", name, (int)result);
        CHECK(result == CUDA_ERROR_ILLEGAL_ADDRESS);
        CHECK(cuCtxSynchronize() == CUDA_ERROR_ILLEGAL_ADDRESS);
        CUdeviceptr more = 0;
        CHECK(cuMemAlloc(&more, 4) == CUDA_ERROR_ILLEGAL_ADDRESS);
    }
    CHECK(rvit_emulation_reports() > before);
    session s;
    CHECK(s.run("nothing", 1, 32, 0, {}) == CUDA_SUCCESS);
}
} // namespace

void test_mistakes()
{
    test_params p = {};
    lost("bad_places", 64, 0, p);
    lost("bad_return", 64, 0, p);
    lost("bad_deadlock", 64, 0, p);
    lost("shuffles", 48, 0, p); /* an incomplete warp */
    lost("bad_async", 32, 512, p);
    lost("bad_index", 1, 0, [] {
        test_params past = {};
        past.option = 8;
        return past;
    }());
    lost("bad_alignment", 32, 0, p);
    int on_the_stack[32] = {0};
    p.in = on_the_stack;
    if ((uint32_t)(uintptr_t)p.in >=
        1u << 26) /* otherwise the emulation mistakes the pointer for a number with stale padding (execute.cpp) */
        lost("nothing", 32, 0, p);
    p.in = nullptr;
#if !defined(__SANITIZE_ADDRESS__) /* the address sanitizer would stop the program here */
    lost("bad_recursion", 32, 0, [] {
        test_params deep = {};
        deep.n = 100000;
        return deep;
    }());
    p.option = 1;
    lost("bad_shared", 32, 32, p);
    p.option = -1;
    lost("bad_shared", 32, 32, p);
    p.option = 100000;
    lost("bad_shared", 32, 32, p);
    p.n = 256;
    lost("bad_write", 32, 0, p); /* just after the end */
    p.n = 260;
    lost("bad_write", 32, 0, p);
    p.n = -1024;
    lost("bad_write", 32, 0, p);
    p.n = 2048;
    lost("bad_read", 32, 0, p);
    {
        session s;
        p.out = s.device<char>(1001);
        p.n = 250;
        CHECK(s.run("bad_write", 1, 32, 0, p) == CUDA_ERROR_ILLEGAL_ADDRESS); /* after the end, before the next page */
    }
#endif
}
