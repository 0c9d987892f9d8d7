#include "log.h"

#include <stdarg.h>
#include <stdio.h>

#include <atomic>

namespace emu
{
namespace
{
std::atomic<int> count(0);
}

void report(const char *format, ...)
{
    char text[2048];
    va_list list;
    va_start(list, format);
    vsnprintf(text, sizeof(text), format, list);
    va_end(list);
    fprintf(stderr, "CUDA emulation: %s\n", text);
    count++;
}

int reports()
{
    return count;
}
} // namespace emu
