/* With kernels that note their accesses: what no barrier orders loses the device under every order, what one orders never does. */
#include "session.h"

namespace
{
struct race_case {
    const char *name;
    unsigned block, shared;
    int right, wrong; /* values of option; -1: none */
};
} // namespace

void test_races()
{
    static const race_case cases[] = {
        {"sum", 128, 512, 0, 1},          {"pass", 64, 0, 0, 1},          {"ring", 64, 512, 0, 1},
        {"agree", 64, 0, 0, 1},           {"shuffled", 32, 0, 1, 0},      {"neighbour", 64, 128, 1, 0},
        {"async", 64, 1024, 0, -1},       {"product", 32, 768, 0, -1},    {"shuffles", 64, 0, 0, -1},
        {"global_shuffled", 32, 0, 1, 0}, {"global_bytes", 64, 0, 0, -1}, {"shared_bytes", 64, 0, 0, -1},
    };
    for (long seed = 0; seed < 6; seed++)
        for (const race_case &c : cases)
            for (int wrong = 0; wrong <= (c.wrong >= 0); wrong++) {
                set("RVIT_EMU_SEED", seed);
                session s;
                test_params p = {};
                p.in = s.device(std::vector<float>(4096, 1.0f));
                p.other = s.device(std::vector<float>(1024, 1.0f));
                p.out = s.device(std::vector<float>(1024, 0.0f));
                p.n = 2;
                p.option = wrong ? c.wrong : c.right;
                const CUresult result = s.run(c.name, 1, c.block, c.shared, p);
                if (result != (wrong ? CUDA_ERROR_ILLEGAL_ADDRESS : CUDA_SUCCESS))
                    fprintf(stderr, "%s, option %d, seed %ld\n", c.name, p.option, seed);
                CHECK(result == (wrong ? CUDA_ERROR_ILLEGAL_ADDRESS : CUDA_SUCCESS));
            }
    unsetenv("RVIT_EMU_SEED");
}
