#include "clock.h"

#include "report.h"

void clock_host(const timed *work, double samples[CLOCK_SAMPLES])
{
    for (int s = -2; s < CLOCK_SAMPLES; s++) {
        const double begin = report_seconds();
        for (int i = 0; i < CLOCK_CALLS; i++)
            work->call(work->user);
        const double took = report_seconds() - begin;
        work->drain(work->user);
        if (s >= 0)
            samples[s] = took / CLOCK_CALLS;
    }
}

double clock_drained(const timed *work, int n)
{
    const double begin = report_seconds();
    for (int i = 0; i < n; i++)
        work->call(work->user);
    work->drain(work->user);
    return (report_seconds() - begin) / n;
}
