/* Reports mistakes of the program as lines on standard error. */
#ifndef EMU_LOG_H
#define EMU_LOG_H

namespace emu
{
void report(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* The number of reports. */
int reports();
} // namespace emu

#endif
