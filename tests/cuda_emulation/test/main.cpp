#include "session.h"

#include <time.h>

int failures = 0;

static double seconds()
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

void measure()
{
    session s;
    test_params p = {};
    p.out = s.device<float>(1024);
    struct {
        const char *name, *unit;
        unsigned grid, block;
        int n;
        double operations;
    } const cases[] = {
        {"work", "million steps/s (a barrier every 16)", 40, 256, 1600, 40.0 * 256 * 1600 / 1e6},
        {"many_matrices", "million mma/s", 8, 128, 5000, 8.0 * 4 * 5000 / 1e6},
        {"nothing", "million threads/s that return at once", 2000, 128, 0, 2000.0 * 128 / 1e6},
    };
    for (const auto &c : cases) {
        p.n = c.n;
        const double start = seconds();
        CHECK(s.run(c.name, c.grid, c.block, 0, p) == CUDA_SUCCESS);
        printf("%8.1f %s\n", c.operations / (seconds() - start), c.unit);
    }
}

int main(int argc, char **argv)
{
    for (const char *variable : {"RVIT_EMU_SEED", "RVIT_EMU_THREADS", "RVIT_EMU_LATE", "RVIT_EMU_PROTECT", "RVIT_EMU_ARCH"})
        unsetenv(variable);
    if (argc > 1 && strcmp(argv[1], "measure") == 0) {
        measure();
        return failures != 0;
    }
    if (argc > 1 && strcmp(argv[1], "races") == 0) {
        test_races();
        test_clusters(true);
    } else {
        test_machine();
        test_clusters(false);
        test_mistakes();
        test_driver();
    }
    printf("%s\n", failures ? "failed" : "passed");
    return failures != 0;
}
