#include "fake_object.h"

#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static _Atomic(fake_object *) objects;
static atomic_llong calls, fail_at = -1;
static atomic_int n_broken;
static char broken_rule[512]; /* the first violation */
static pthread_mutex_t log_lock = PTHREAD_MUTEX_INITIALIZER;
static char log_text[1 << 16];

void *fake_object_new(enum fake_kind kind, size_t size, void (*free_contents)(void *object))
{
    fake_object *o = calloc(1, size);
    if (!o) {
        fprintf(stderr, "fake server: out of memory\n");
        abort();
    }
    o->kind = kind;
    o->free_contents = free_contents;
    atomic_store_explicit(&o->live, 1, memory_order_relaxed);
    fake_object *first = atomic_load_explicit(&objects, memory_order_relaxed);
    do
        o->next = first;
    while (!atomic_compare_exchange_weak_explicit(&objects, &first, o, memory_order_relaxed, memory_order_relaxed));
    return o;
}

void fake_broken_rule(const char *function, const char *format, ...)
{
    char text[sizeof broken_rule];
    va_list arguments;
    va_start(arguments, format);
    const int n = snprintf(text, sizeof text, "%s: ", function);
    vsnprintf(text + n, sizeof text - (size_t)n, format, arguments);
    va_end(arguments);
    if (atomic_fetch_add_explicit(&n_broken, 1, memory_order_relaxed) == 0)
        memcpy(broken_rule, text, sizeof text);
    else
        fprintf(stderr, "fake server: another broken rule: %s\n", text);
}

int fake_object_check(const void *object, enum fake_kind kind, const char *function)
{
    const fake_object *o = object;
    if (!o)
        fake_broken_rule(function, "the object is NULL");
    else if (o->kind != kind)
        fake_broken_rule(function, "the object is of another type");
    else if (!atomic_load_explicit(&o->live, memory_order_relaxed))
        fake_broken_rule(function, "the object was deleted or released before");
    else
        return 1;
    return 0;
}

int fake_object_end(void *object, enum fake_kind kind, const char *function)
{
    if (!fake_object_check(object, kind, function))
        return 0;
    if (atomic_exchange_explicit(&((fake_object *)object)->live, 0, memory_order_relaxed))
        return 1;
    fake_broken_rule(function, "two threads delete or release the object");
    return 0;
}

char *fake_copy_text(const char *text)
{
    return text ? strdup(text) : NULL;
}

int fake_call_fails(void)
{
    return atomic_fetch_add_explicit(&calls, 1, memory_order_relaxed) == atomic_load_explicit(&fail_at, memory_order_relaxed);
}

void fake_server_fail_at(int64_t call)
{
    atomic_store(&calls, 0);
    atomic_store(&fail_at, call);
}

int64_t fake_server_calls(void)
{
    return atomic_load(&calls);
}

void fake_server_begin(void)
{
    fake_server_fail_at(-1);
    atomic_store(&n_broken, 0);
    log_text[0] = 0;
}

static const char *leak_of(const fake_object *o)
{
    switch (o->kind) {
    case FAKE_REQUEST:
        return "a request was never released";
    case FAKE_RESPONSE:
        return "a response was never sent";
    case FAKE_ERROR:
        return "an error was never deleted";
    case FAKE_MESSAGE:
        return "a message was never deleted";
    case FAKE_PARAMETER:
        return "a parameter was never deleted";
    case FAKE_FAMILY:
        return "a family of metrics was never deleted";
    case FAKE_METRIC_ARGS:
        return "the arguments of a metric were never deleted";
    case FAKE_METRIC:
        return "a metric was never deleted";
    default:
        return NULL;
    }
}

const char *fake_server_finish(void)
{
    fake_object *first = atomic_exchange(&objects, NULL);
    for (fake_object *o = first; o; o = o->next) {
        if (atomic_load(&o->live) && leak_of(o))
            fake_broken_rule("at the end", "%s", leak_of(o));
        if (o->free_contents)
            o->free_contents(o);
    }
    while (first) {
        fake_object *next = first->next;
        free(first);
        first = next;
    }
    fake_server_fail_at(-1);
    return atomic_exchange(&n_broken, 0) > 0 ? broken_rule : NULL;
}

void fake_server_end(void)
{
    const char *rule = fake_server_finish();
    if (rule)
        fail_msg("%s", rule);
}

/* Errors. */
struct TRITONSERVER_Error {
    fake_object object;
    TRITONSERVER_Error_Code code;
    char *text;
};

static void free_error(void *object)
{
    free(((TRITONSERVER_Error *)object)->text);
}

TRITONSERVER_Error *TRITONSERVER_ErrorNew(TRITONSERVER_Error_Code code, const char *text)
{
    if (!text || !text[0])
        fake_broken_rule(__func__, "an error without a text");
    TRITONSERVER_Error *error = fake_object_new(FAKE_ERROR, sizeof *error, free_error);
    error->code = code;
    error->text = fake_copy_text(text ? text : "");
    return error;
}

TRITONSERVER_Error *fake_failure(const char *function)
{
    char text[128];
    snprintf(text, sizeof text, "%s fails on purpose", function);
    return TRITONSERVER_ErrorNew(TRITONSERVER_ERROR_INTERNAL, text);
}

TRITONSERVER_Error_Code TRITONSERVER_ErrorCode(TRITONSERVER_Error *error)
{
    return fake_object_check(error, FAKE_ERROR, __func__) ? error->code : TRITONSERVER_ERROR_UNKNOWN;
}

const char *TRITONSERVER_ErrorMessage(TRITONSERVER_Error *error)
{
    return fake_object_check(error, FAKE_ERROR, __func__) ? error->text : "";
}

void TRITONSERVER_ErrorDelete(TRITONSERVER_Error *error)
{
    if (fake_object_end(error, FAKE_ERROR, __func__)) {
        free(error->text);
        error->text = NULL;
    }
}

static const char *error_name(TRITONSERVER_Error_Code code)
{
    static const char *const names[] = {"UNKNOWN",     "INTERNAL",    "NOT_FOUND",      "INVALID_ARG",
                                        "UNAVAILABLE", "UNSUPPORTED", "ALREADY_EXISTS", "CANCELLED"};
    return (unsigned)code < sizeof names / sizeof names[0] ? names[code] : "of no known code";
}

static void expect(const char *what, TRITONSERVER_Error_Code found, const char *text, TRITONSERVER_Error_Code code, const char *words)
{
    if (!text)
        fail_msg("%s succeeded; expected %s with \"%s\"", what, error_name(code), words);
    else if (found != code || !strstr(text, words))
        fail_msg("%s failed with %s: %s; expected %s with \"%s\"", what, error_name(found), text, error_name(code), words);
}

void fake_expect_error(TRITONSERVER_Error *error, TRITONSERVER_Error_Code code, const char *words)
{
    static char text[4096];
    if (!error)
        fail_msg("no error; expected %s with \"%s\"", error_name(code), words);
    const TRITONSERVER_Error_Code found = TRITONSERVER_ErrorCode(error);
    snprintf(text, sizeof text, "%s", TRITONSERVER_ErrorMessage(error));
    TRITONSERVER_ErrorDelete(error);
    expect("the call", found, text, code, words);
}

void fake_expect_success(TRITONSERVER_Error *error)
{
    static char text[4096];
    if (!error)
        return;
    snprintf(text, sizeof text, "%s: %s", error_name(TRITONSERVER_ErrorCode(error)), TRITONSERVER_ErrorMessage(error));
    TRITONSERVER_ErrorDelete(error);
    fail_msg("%s", text);
}

void fake_request_expect_error(const TRITONBACKEND_Request *request, TRITONSERVER_Error_Code code, const char *words)
{
    const fake_answer *answer = fake_request_answer(request);
    expect("the request", answer->code, answer->error, code, words);
}

/* Version, log, data types. */
TRITONSERVER_Error *TRITONBACKEND_ApiVersion(uint32_t *major, uint32_t *minor)
{
    if (fake_call_fails())
        return fake_failure(__func__);
    *major = TRITON_API_MAJOR;
    *minor = TRITON_API_MINOR;
    return NULL;
}

bool TRITONSERVER_LogIsEnabled(TRITONSERVER_LogLevel level)
{
    return level != TRITONSERVER_LOG_VERBOSE;
}

TRITONSERVER_Error *TRITONSERVER_LogMessage(TRITONSERVER_LogLevel level, const char *file, int line, const char *text)
{
    (void)level;
    if (!file || line <= 0 || !text || !text[0])
        fake_broken_rule(__func__, "a message without a file, a line or a text");
    if (fake_call_fails())
        return fake_failure(__func__);
    pthread_mutex_lock(&log_lock);
    const size_t n = strlen(log_text);
    snprintf(log_text + n, sizeof log_text - n, "%s\n", text ? text : "");
    pthread_mutex_unlock(&log_lock);
    return NULL;
}

const char *fake_server_log(void)
{
    return log_text;
}

const char *TRITONSERVER_DataTypeString(TRITONSERVER_DataType type)
{
    static const char *const names[] = {"<invalid>", "BOOL",  "UINT8", "UINT16", "UINT32", "UINT64", "INT8", "INT16",
                                        "INT32",     "INT64", "FP16",  "FP32",   "FP64",   "BYTES",  "BF16"};
    return (unsigned)type < sizeof names / sizeof names[0] ? names[type] : "<invalid>";
}

/* Messages. */
struct TRITONSERVER_Message {
    fake_object object;
    char *text;
    size_t size;
};

static void free_message(void *object)
{
    free(((TRITONSERVER_Message *)object)->text);
}

TRITONSERVER_Error *TRITONSERVER_MessageNewFromSerializedJson(TRITONSERVER_Message **message, const char *text, size_t size)
{
    if (fake_call_fails())
        return fake_failure(__func__);
    /* Without a terminating zero, so that a sanitizer sees code that relies on one. */
    TRITONSERVER_Message *m = fake_object_new(FAKE_MESSAGE, sizeof *m, free_message);
    m->text = malloc(size > 0 ? size : 1);
    memcpy(m->text, text, size);
    m->size = size;
    *message = m;
    return NULL;
}

TRITONSERVER_Error *TRITONSERVER_MessageSerializeToJson(TRITONSERVER_Message *message, const char **text, size_t *size)
{
    FAKE_CALL(message, FAKE_MESSAGE);
    *text = message->text;
    *size = message->size;
    return NULL;
}

TRITONSERVER_Error *TRITONSERVER_MessageDelete(TRITONSERVER_Message *message)
{
    if (!fake_object_end(message, FAKE_MESSAGE, __func__))
        return fake_failure(__func__);
    free(message->text);
    message->text = NULL;
    return NULL;
}

/* Metrics. Metrics with the same name and labels are one; the oldest one that still exists holds the value. */
struct TRITONSERVER_Parameter {
    fake_object object;
    char *name, *value;
};

static void free_parameter(void *object)
{
    TRITONSERVER_Parameter *p = object;
    free(p->name);
    free(p->value);
}

TRITONSERVER_Parameter *TRITONSERVER_ParameterNew(const char *name, TRITONSERVER_ParameterType type, const void *value)
{
    if (type != TRITONSERVER_PARAMETER_STRING)
        fake_broken_rule(__func__, "labels of metrics are strings");
    if (fake_call_fails())
        return NULL;
    TRITONSERVER_Parameter *p = fake_object_new(FAKE_PARAMETER, sizeof *p, free_parameter);
    p->name = fake_copy_text(name);
    p->value = fake_copy_text(value);
    return p;
}

void TRITONSERVER_ParameterDelete(TRITONSERVER_Parameter *parameter)
{
    if (fake_object_end(parameter, FAKE_PARAMETER, __func__)) {
        free_parameter(parameter);
        parameter->name = parameter->value = NULL;
    }
}

struct TRITONSERVER_MetricFamily {
    fake_object object;
    TRITONSERVER_MetricKind kind;
    char name[64];
    atomic_int n_metrics;
};

struct TRITONSERVER_MetricArgs {
    fake_object object;
    uint64_t n_buckets;
};

struct TRITONSERVER_Metric {
    fake_object object;
    TRITONSERVER_MetricFamily *family;
    TRITONSERVER_MetricKind kind;
    char name[64], model[64], version[32];
    _Atomic double value;
    atomic_ullong count;
};

TRITONSERVER_Error *TRITONSERVER_MetricFamilyNew(TRITONSERVER_MetricFamily **family, TRITONSERVER_MetricKind kind, const char *name,
                                                 const char *description)
{
    if (!name || !name[0] || !description || !description[0])
        fake_broken_rule(__func__, "a family without a name or a description");
    if (fake_call_fails())
        return fake_failure(__func__);
    *family = fake_object_new(FAKE_FAMILY, sizeof **family, NULL);
    (*family)->kind = kind;
    snprintf((*family)->name, sizeof(*family)->name, "%s", name);
    return NULL;
}

TRITONSERVER_Error *TRITONSERVER_MetricFamilyDelete(TRITONSERVER_MetricFamily *family)
{
    if (!fake_object_end(family, FAKE_FAMILY, __func__))
        return fake_failure(__func__);
    if (atomic_load(&family->n_metrics) != 0)
        fake_broken_rule(__func__, "%s still has metrics", family->name);
    return NULL;
}

TRITONSERVER_Error *TRITONSERVER_MetricArgsNew(TRITONSERVER_MetricArgs **args)
{
    if (fake_call_fails())
        return fake_failure(__func__);
    *args = fake_object_new(FAKE_METRIC_ARGS, sizeof **args, NULL);
    return NULL;
}

TRITONSERVER_Error *TRITONSERVER_MetricArgsSetHistogram(TRITONSERVER_MetricArgs *args, const double *buckets, uint64_t n_buckets)
{
    FAKE_CALL(args, FAKE_METRIC_ARGS);
    for (uint64_t i = 1; i < n_buckets; i++)
        if (buckets[i] <= buckets[i - 1])
            fake_broken_rule(__func__, "the buckets do not ascend");
    args->n_buckets = n_buckets;
    return NULL;
}

TRITONSERVER_Error *TRITONSERVER_MetricArgsDelete(TRITONSERVER_MetricArgs *args)
{
    return fake_object_end(args, FAKE_METRIC_ARGS, __func__) ? NULL : fake_failure(__func__);
}

static void label(TRITONSERVER_Metric *m, const TRITONSERVER_Parameter *p)
{
    if (!fake_object_check(p, FAKE_PARAMETER, "TRITONSERVER_MetricNew"))
        return;
    if (strcmp(p->name, "model") == 0)
        snprintf(m->model, sizeof m->model, "%s", p->value);
    else if (strcmp(p->name, "version") == 0)
        snprintf(m->version, sizeof m->version, "%s", p->value);
    else
        fake_broken_rule("TRITONSERVER_MetricNew", "%s has a label %s", m->name, p->name);
}

TRITONSERVER_Error *TRITONSERVER_MetricNewWithArgs(TRITONSERVER_Metric **metric, TRITONSERVER_MetricFamily *family,
                                                   const TRITONSERVER_Parameter **labels, uint64_t n_labels,
                                                   const TRITONSERVER_MetricArgs *args)
{
    FAKE_CALL(family, FAKE_FAMILY);
    if (args && !fake_object_check(args, FAKE_METRIC_ARGS, __func__))
        return fake_failure(__func__);
    if ((family->kind == TRITONSERVER_METRIC_KIND_HISTOGRAM) != (args && args->n_buckets > 0))
        fake_broken_rule(__func__, "%s: a histogram needs buckets, and other kinds have none", family->name);
    TRITONSERVER_Metric *m = fake_object_new(FAKE_METRIC, sizeof *m, NULL);
    memcpy(m->name, family->name, sizeof m->name);
    m->family = family;
    m->kind = family->kind;
    for (uint64_t i = 0; i < n_labels; i++)
        label(m, labels[i]);
    if (!m->model[0] || !m->version[0])
        fake_broken_rule(__func__, "%s lacks the label model or version", m->name);
    atomic_fetch_add(&family->n_metrics, 1);
    *metric = m;
    return NULL;
}

TRITONSERVER_Error *TRITONSERVER_MetricNew(TRITONSERVER_Metric **metric, TRITONSERVER_MetricFamily *family,
                                           const TRITONSERVER_Parameter **labels, uint64_t n_labels)
{
    return TRITONSERVER_MetricNewWithArgs(metric, family, labels, n_labels, NULL);
}

TRITONSERVER_Error *TRITONSERVER_MetricDelete(TRITONSERVER_Metric *metric)
{
    if (!fake_object_end(metric, FAKE_METRIC, __func__))
        return fake_failure(__func__);
    if (fake_object_check(metric->family, FAKE_FAMILY, __func__))
        atomic_fetch_sub(&metric->family->n_metrics, 1);
    return NULL;
}

static void add(TRITONSERVER_Metric *metric, double value)
{
    double old = atomic_load_explicit(&metric->value, memory_order_relaxed);
    while (!atomic_compare_exchange_weak_explicit(&metric->value, &old, old + value, memory_order_relaxed, memory_order_relaxed))
        ;
    atomic_fetch_add_explicit(&metric->count, 1, memory_order_relaxed);
}

TRITONSERVER_Error *TRITONSERVER_MetricIncrement(TRITONSERVER_Metric *metric, double value)
{
    FAKE_CALL(metric, FAKE_METRIC);
    if (metric->kind == TRITONSERVER_METRIC_KIND_HISTOGRAM || !(value >= 0))
        fake_broken_rule(__func__, "%s cannot be incremented by %g", metric->name, value);
    add(metric, value);
    return NULL;
}

TRITONSERVER_Error *TRITONSERVER_MetricObserve(TRITONSERVER_Metric *metric, double value)
{
    FAKE_CALL(metric, FAKE_METRIC);
    if (metric->kind != TRITONSERVER_METRIC_KIND_HISTOGRAM)
        fake_broken_rule(__func__, "%s is not a histogram", metric->name);
    add(metric, value);
    return NULL;
}

double fake_metric(const char *family, const char *model, uint64_t *count)
{
    double sum = NAN;
    uint64_t n = 0;
    for (fake_object *o = atomic_load(&objects); o; o = o->next) {
        TRITONSERVER_Metric *m = (TRITONSERVER_Metric *)o;
        if (o->kind != FAKE_METRIC || !atomic_load(&o->live) || strcmp(m->name, family) != 0 || strcmp(m->model, model) != 0)
            continue;
        sum = (isnan(sum) ? 0 : sum) + atomic_load(&m->value);
        n += atomic_load(&m->count);
    }
    if (count)
        *count = n;
    return sum;
}
