/* Lists features that a device may lack, and known failures. */
#include "harness.h"

typedef struct expectation {
    rvit_backend backend;
    const char *feature; /* or the test's name */
    const char *reason;
} expectation;

/* Valid in the API, but not supported by the backend: the call returns UNSUPPORTED. */
static const expectation unsupported[] = {
    {RVIT_BACKEND_VULKAN, "attention_backward", "models are trained on CUDA and on the CPU"},
    {RVIT_BACKEND_VULKAN, "e4m3", "no shaders multiply it"},
    {RVIT_BACKEND_CUDA, "quantize", "to int8, which is slower than f16 there"},
    {RVIT_BACKEND_CUDA, "int8", "as quantize"},
};

/* Tests that fail because of known defects. NULL ends the list. */
static const expectation known_failures[] = {{RVIT_BACKEND_AUTO, NULL, NULL}};

static const expectation *find(const expectation *list, size_t n, side s, const char *feature)
{
    const rvit_backend backend = s == ORACLE ? RVIT_BACKEND_CPU : H.desc.backend;
    for (size_t i = 0; i < n; i++)
        if (list[i].feature && list[i].backend == backend && !strcmp(list[i].feature, feature))
            return &list[i];
    return NULL;
}

int supported(side s, const char *feature, rvit_status status)
{
    const expectation *lacking = find(unsupported, sizeof unsupported / sizeof unsupported[0], s, feature);
    if (status == RVIT_UNSUPPORTED && lacking) {
        if (!rvit_status_detail()[0])
            fail_msg("%s: UNSUPPORTED without a detail", feature);
        return 0;
    }
    if (status != RVIT_OK)
        fail_msg("%s: %s: %s", feature, rvit_status_name(status), rvit_status_detail());
    if (lacking)
        fail_msg("%s now works: remove it from the list (%s)", feature, lacking->reason);
    return 1;
}

int lacks(const char *feature)
{
    return find(unsupported, sizeof unsupported / sizeof unsupported[0], DEVICE, feature) != NULL;
}

int n_types(void)
{
    return lacks("bf16") ? 2 : 3;
}

const char *known_failure(const char *test)
{
    const expectation *fails = find(known_failures, sizeof known_failures / sizeof known_failures[0], DEVICE, test);
    return fails ? fails->reason : NULL;
}
