#include "server.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "http.h"

static double cpu_seconds(int pid)
{
    char path[32], line[1024];
    unsigned long long user = 0, system = 0;
    snprintf(path, sizeof path, "/proc/%d/stat", pid);
    FILE *file = pid > 0 ? fopen(path, "r") : NULL;
    if (file == NULL)
        return -1;
    const char *read = fgets(line, sizeof line, file), *name_end = read != NULL ? strrchr(line, ')') : NULL;
    fclose(file);
    /* After the name, which may contain any character, come the state, ten numbers, and the two times. */
    if (name_end == NULL || sscanf(name_end + 2, "%*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %llu %llu", &user, &system) != 2)
        return -1;
    return (double)(user + system) / (double)sysconf(_SC_CLK_TCK);
}

/* The sum of a metric over the model's versions: lines of NAME{..,model="MODEL",..} VALUE. -1: there is none. */
static double metric(const char *text, const char *name, const char *model)
{
    char label[160];
    double sum = -1;
    const size_t length = strlen(name);
    snprintf(label, sizeof label, "model=\"%s\"", model);
    for (const char *line = text; line != NULL && *line != '\0'; line = strchr(line, '\n'), line += line != NULL) {
        const char *close = strchr(line, '}'), *end = strchr(line, '\n'), *found = strstr(line, label);
        if (strncmp(line, name, length) == 0 && line[length] == '{' && close != NULL && found != NULL && found < close &&
            (end == NULL || close < end))
            sum = (sum < 0 ? 0 : sum) + atof(close + 1);
    }
    return sum;
}

server_counts server_read(int pid, int metrics_port, const char *model)
{
    server_counts counts = {.cpu_seconds = cpu_seconds(pid), .inferences = -1, .runs = -1, .queue_us = -1, .infer_us = -1};
    http server;
    if (metrics_port == 0)
        return counts;
    if (http_open(&server, metrics_port) == 0 && http_request(&server, "GET", "/metrics", 0, NULL, 0) == 0 && server.status == 200) {
        char *text = strndup((const char *)server.body, server.size);
        if (text != NULL) {
            counts.inferences = metric(text, "nv_inference_count", model);
            counts.runs = metric(text, "nv_inference_exec_count", model);
            counts.queue_us = metric(text, "nv_inference_queue_duration_us", model);
            counts.infer_us = metric(text, "nv_inference_compute_infer_duration_us", model);
        }
        free(text);
    }
    http_close(&server);
    return counts;
}
