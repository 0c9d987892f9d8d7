#include "progress.h"

#include <stdbool.h>
#include <stdio.h>

#include "core/base/os_program.h"

#define BAR_WIDTH 20
#define BAR_DELAY 0.7 /* seconds before a bar appears */

static struct {
    bool active, visible;
    int64_t total;
    const char *unit;
    double start, last;
} bar;

void progress_begin(int64_t total, const char *unit)
{
    bar.active = rvit_is_terminal(stderr);
    bar.visible = false;
    bar.total = total;
    bar.unit = unit;
    bar.start = bar.last = now();
}

static void draw_bar(int64_t done)
{
    const double part = done < bar.total ? (double)done / (double)bar.total : 1.0;
    const int full = (int)(part * BAR_WIDTH);
    char marks[BAR_WIDTH + 1];
    for (int i = 0; i < BAR_WIDTH; i++)
        marks[i] = i < full ? '#' : '.';
    marks[BAR_WIDTH] = 0;
    fprintf(stderr, "[%s] %3.0f %%  %lld of %lld %s", marks, 100 * part, (long long)done, (long long)bar.total, bar.unit);
}

void progress_update(int64_t done)
{
    const double time = now(), elapsed = time - bar.start;
    if (!bar.active || elapsed < BAR_DELAY || (time - bar.last < 0.1 && bar.visible))
        return;
    const double rate = (double)done / elapsed;
    fputc('\r', stderr);
    if (bar.total > 0)
        draw_bar(done);
    else
        fprintf(stderr, "%lld %s", (long long)done, bar.unit);
    if (done > 0)
        fprintf(stderr, rate < 10 ? "  %.1f %s/s" : "  %.0f %s/s", rate, bar.unit);
    if (done > 0 && done < bar.total)
        fprintf(stderr, "  %.0f s left", (double)(bar.total - done) / rate);
    fputs("\033[K", stderr);
    fflush(stderr);
    bar.last = time;
    bar.visible = true;
}

void progress_wipe(void)
{
    if (bar.visible) {
        fputs("\r\033[K", stderr);
        fflush(stderr);
    }
    bar.visible = false;
}

void progress_end(void)
{
    progress_wipe();
    bar.active = false;
}
