#include "clock.h"

#include "report.h"

/* Maximum seconds of a sample on the device; no new sample begins after ten times as long. */
static const double PATIENCE = 0.05;

int clock_host(const timed *work, double device_seconds, double samples[CLOCK_SAMPLES])
{
    const int fit = device_seconds > PATIENCE / CLOCK_CALLS ? (int)(PATIENCE / device_seconds) : CLOCK_CALLS, calls = fit > 1 ? fit : 1;
    const double start = report_seconds();
    int n = 0;
    for (int s = -2; s < CLOCK_SAMPLES && (s < 3 || report_seconds() - start < 10 * PATIENCE); s++) {
        const double begin = report_seconds();
        for (int i = 0; i < calls; i++)
            work->call(work->user);
        const double took = report_seconds() - begin;
        work->drain(work->user);
        if (s >= 0)
            samples[n++] = took / calls;
    }
    return n;
}

double clock_drained(const timed *work, int n)
{
    const double begin = report_seconds();
    for (int i = 0; i < n; i++)
        work->call(work->user);
    work->drain(work->user);
    return (report_seconds() - begin) / n;
}
