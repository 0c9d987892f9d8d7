/* Tests kernels that report their accesses: unordered accesses lose the device in every order of threads, ordered ones never do. */
#include "session.h"

namespace
{
struct race_case {
    const char *name;
    unsigned block, shared;
    int right, wrong; /* values of option; -1: none */
};

/* Accesses of an early kernel before it has waited. */
void early_launches()
{
    for (int option = 0; option < 4; option++) {
        session s;
        test_params p = {};
        p.in = s.device(std::vector<float>(64, 1.0f));
        float *const middle = s.device(std::vector<float>(64, 2.0f));
        p.other = p.in;
        p.out = middle;
        CHECK(s.launch("early", 1, 64, 0, p) == CUDA_SUCCESS); /* without a previous launch, any access is allowed */
        p.other = middle;
        p.out = s.device(std::vector<float>(64, 0.0f));
        p.option = option;
        CHECK(s.launch_early("early", 1, 64, p) == CUDA_SUCCESS);
        const CUresult result = cuStreamSynchronize(s.stream);
        if (result != (option == 0 ? CUDA_SUCCESS : CUDA_ERROR_ILLEGAL_ADDRESS))
            fprintf(stderr, "early, option %d\n", option);
        CHECK(result == (option == 0 ? CUDA_SUCCESS : CUDA_ERROR_ILLEGAL_ADDRESS));
    }
}
} // namespace

void test_races()
{
    early_launches();
    static const race_case cases[] = {
        {"sum", 128, 512, 0, 1},          {"pass", 64, 0, 0, 1},          {"ring", 64, 512, 0, 1},
        {"agree", 64, 0, 0, 1},           {"shuffled", 32, 0, 1, 0},      {"neighbour", 64, 128, 1, 0},
        {"async", 64, 1024, 0, -1},       {"matrix", 32, 768, 0, -1},     {"shuffles", 64, 0, 0, -1},
        {"global_shuffled", 32, 0, 1, 0}, {"global_bytes", 64, 0, 0, -1}, {"shared_bytes", 64, 0, 0, -1},
        {"read_again", 32, 0, 0, 1},
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
