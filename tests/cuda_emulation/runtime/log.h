/* What the emulation has to say about a program's mistakes: a line on the standard error output. */
#ifndef EMU_LOG_H
#define EMU_LOG_H

namespace emu
{
void report(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* How often. */
int reports();
} // namespace emu

#endif
