/* Faults set by environment variables (README.md). Counters restart when the value changes and with each new primary context. */
#include <stdlib.h>
#include <string.h>

#include <string>

#include "driver.h"

namespace emu
{
namespace
{
struct countdown {
    const char *variable;
    std::string last;
    long count;

    /* The number of this event if the variable is set, else 0. */
    long next(long *out_limit)
    {
        const char *text = getenv(variable);
        if (text == nullptr) {
            last.clear();
            return 0;
        }
        if (last != text) {
            last = text;
            count = 0;
        }
        *out_limit = atol(text);
        return ++count;
    }
};

countdown allocations = {"RVIT_EMU_FAIL_ALLOC", "", 0};
countdown launches = {"RVIT_EMU_LOST", "", 0};
} // namespace

void faults_restart()
{
    allocations.count = launches.count = 0;
}

bool fault_no_device()
{
    return getenv("RVIT_EMU_NO_DEVICE") != nullptr;
}

int fault_driver_version()
{
    const char *text = getenv("RVIT_EMU_OLD");
    return text == nullptr ? CUDA_VERSION : atoi(text) > 1 ? atoi(text) : 11020;
}

bool fault_allocation()
{
    long limit = 0;
    const long number = allocations.next(&limit);
    return number != 0 && number == limit;
}

bool fault_launch()
{
    long limit = 0;
    const long number = launches.next(&limit);
    return number != 0 && number == limit;
}

bool late()
{
    const char *text = getenv("RVIT_EMU_LATE");
    return text != nullptr && strcmp(text, "0") != 0;
}

size_t memory_size()
{
    const char *text = getenv("RVIT_EMU_MEMORY");
    return (text ? (size_t)strtoull(text, nullptr, 0) : 4096) << 20;
}

CUresult fault_image()
{
    const char *text = getenv("RVIT_EMU_IMAGE");
    return text ? (CUresult)atoi(text) : CUDA_SUCCESS;
}

int compiled_for()
{
    const char *text = getenv("RVIT_EMU_PTX");
    return text ? atoi(text) : model().capability;
}

int default_dynamic_shared()
{
    const char *text = getenv("RVIT_EMU_SHARED");
    return text ? atoi(text) : 48 << 10;
}
} // namespace emu
