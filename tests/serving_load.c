/* Tests the load client of the serving benchmarks with a server that gives right, swapped, wrong, refused or lost answers: each must be
   counted as such. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <netinet/in.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/socket.h>
#include <unistd.h>

#include "load.h"
#include "protobuf.h"

enum { CLASSES = 4, IMAGES = 8, REQUESTS = 60, PERIOD = 10, HEAD_MOST = 2048 };

/* The answers to the requests of a period. */
typedef enum fate { RIGHT, SWAPPED, WRONG, REFUSED, LOST, OTHER_ID, SHORT } fate;

static struct {
    image_set images;
    float expected[IMAGES][CLASSES];
    const fate *fates; /* [PERIOD] */
    atomic_int served;
    int listener, port;
    pthread_t thread;
} S;

static int read_all(int connection, char *out, size_t size)
{
    size_t have = 0;
    while (have < size) {
        const ssize_t got = recv(connection, out + have, size - have, 0);
        if (got <= 0)
            return -1;
        have += (size_t)got;
    }
    return 0;
}

/* Reads up to and including the empty line. */
static int read_head(int connection, char *out)
{
    size_t have = 0;
    for (out[0] = '\0'; strstr(out, "\r\n\r\n") == NULL; out[have] = '\0')
        if (have == HEAD_MOST - 1 || read_all(connection, out + have++, 1) != 0)
            return -1;
    return 0;
}

static size_t number_after(const char *text, const char *name)
{
    const char *found = strstr(text, name);
    return found != NULL ? (size_t)strtoull(found + strlen(name), NULL, 10) : 0;
}

static void write_all(int connection, const void *bytes, size_t size)
{
    struct iovec piece = {(void *)(uintptr_t)bytes, size};
    (void)wire_write(connection, &piece, 1);
}

static void send_json(int connection, int status, const char *json)
{
    char text[512];
    const int n = snprintf(text, sizeof text, "HTTP/1.1 %d X\r\ncontent-length: %zu\r\n\r\n%s", status, strlen(json), json);
    write_all(connection, text, (size_t)n);
}

static void send_logits(int connection, size_t id, const float *logits, size_t size)
{
    char text[512], json[320];
    const int n_json = snprintf(json, sizeof json,
                                "{\"id\":\"%zu\",\"outputs\":[{\"name\":\"LOGITS\",\"datatype\":\"FP32\",\"shape\":[1,%d],"
                                "\"parameters\":{\"binary_data_size\":%zu}}]}",
                                id, CLASSES, size);
    const int n = snprintf(text, sizeof text, "HTTP/1.1 200 OK\r\nInference-Header-Content-Length: %d\r\nContent-Length: %zu\r\n\r\n%s",
                           n_json, (size_t)n_json + size, json);
    write_all(connection, text, (size_t)n);
    write_all(connection, logits, size);
}

/* Answers a request according to its fate. Returns -1 if the connection must be closed. */
static int answer(int connection, const char *body, size_t json_size, size_t size)
{
    const size_t id = number_after(body, "\"id\":\"");
    int32_t i = 0;
    while (i < IMAGES && (S.images.at[i + 1] - S.images.at[i] != size - json_size ||
                          memcmp(S.images.pixels + S.images.at[i], body + json_size, size - json_size) != 0))
        i++;
    float logits[CLASSES];
    assert_true(i < IMAGES);
    memcpy(logits, S.expected[i], sizeof logits);
    switch (S.fates[atomic_fetch_add(&S.served, 1) % PERIOD]) {
    case SWAPPED:
        send_logits(connection, id, S.expected[(i + 1) % IMAGES], sizeof logits);
        break;
    case WRONG:
        logits[CLASSES - 1] += 1e-6f;
        send_logits(connection, id, logits, sizeof logits);
        break;
    case REFUSED:
        send_json(connection, 400, "{\"error\":\"not today\"}");
        break;
    case LOST:
        return -1;
    case OTHER_ID:
        send_logits(connection, id + 1, logits, sizeof logits);
        break;
    case SHORT:
        send_logits(connection, id, logits, sizeof logits - 4);
        break;
    case RIGHT:
        send_logits(connection, id, logits, sizeof logits);
    }
    return 0;
}

static void *serve_one(void *user)
{
    const int connection = (int)(intptr_t)user;
    char head[HEAD_MOST];
    while (read_head(connection, head) == 0) {
        const size_t size = number_after(head, "\r\nContent-Length: "), json = number_after(head, "Inference-Header-Content-Length: ");
        char *body = malloc(size + 1);
        int code = body != NULL ? read_all(connection, body, size) : -1;
        if (code == 0 && size == 0)
            send_json(connection, 200, "{\"outputs\":[{\"name\":\"LOGITS\",\"datatype\":\"FP32\",\"shape\":[-1,4]}]}");
        else if (code == 0)
            code = answer(connection, body, json, size);
        free(body);
        if (code != 0)
            break;
    }
    close(connection);
    return NULL;
}

static void *serve(void *user)
{
    for (int connection; (connection = accept(S.listener, NULL, NULL)) >= 0;) {
        pthread_t thread;
        assert_int_equal(pthread_create(&thread, NULL, serve_one, (void *)(intptr_t)connection), 0);
        pthread_detach(thread);
    }
    return user;
}

static int start(void **state)
{
    (void)state;
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t size = sizeof address;
    S.images = image_set_make(IMAGES, 4, 0, NULL, 0);
    for (int i = 0; i < IMAGES * CLASSES; i++)
        S.expected[i / CLASSES][i % CLASSES] = 1.0f + 0.25f * (float)i;
    S.listener = socket(AF_INET, SOCK_STREAM, 0);
    if (bind(S.listener, (struct sockaddr *)&address, sizeof address) != 0 || listen(S.listener, 64) != 0 ||
        getsockname(S.listener, (struct sockaddr *)&address, &size) != 0)
        return -1;
    S.port = ntohs(address.sin_port);
    return pthread_create(&S.thread, NULL, serve, NULL);
}

static int stop(void **state)
{
    (void)state;
    shutdown(S.listener, SHUT_RDWR);
    pthread_join(S.thread, NULL);
    close(S.listener);
    image_set_free(&S.images);
    return 0;
}

static load_result load(const fate *fates, int32_t n_clients, double rate)
{
    infer_target target = {.model = "m", .http_port = S.port, .transport = INFER_HTTP, .image_set = &S.images, .most_images = 1};
    const load_options options = {
        .n_clients = n_clients, .rate = rate, .seconds = 1, .requests = REQUESTS, .images = 1, .expected = S.expected[0]};
    S.fates = fates;
    atomic_store(&S.served, 0);
    infer_attach(&target, n_clients);
    assert_int_equal(target.n_classes, CLASSES);
    const load_result r = load_run(&target, &options);
    infer_detach(&target);
    return r;
}

static void every_fate_is_counted(void **state)
{
    (void)state;
    static const fate fates[PERIOD] = {RIGHT, SWAPPED, WRONG, RIGHT, REFUSED, OTHER_ID, SHORT, RIGHT, LOST, RIGHT};
    for (int i = 0; i < 2; i++) {
        const load_result r = load(fates, i == 0 ? 1 : 4, i == 0 ? 0 : 500);
        assert_int_equal(r.sent, REQUESTS);
        assert_int_equal(r.right, REQUESTS / PERIOD * 4);
        assert_int_equal(r.swapped, REQUESTS / PERIOD);
        assert_int_equal(r.wrong, REQUESTS / PERIOD);
        assert_int_equal(r.failed, REQUESTS / PERIOD * 3);
        assert_int_equal(r.lost, REQUESTS / PERIOD);
        assert_int_equal(r.unsent, 0);
    }
}

static void latencies(void **state)
{
    (void)state;
    static const fate fates[PERIOD] = {RIGHT};
    const load_result r = load(fates, 3, 0);
    assert_int_equal(r.right, REQUESTS);
    assert_int_equal(r.n_latencies, REQUESTS);
    assert_true(r.error[0] == '\0' && r.p50 > 0 && r.p50 <= r.p90 && r.p90 <= r.p95 && r.p95 <= r.p99 && r.p99 <= r.most && r.most < 10);
    assert_true(r.images_per_second > 0 && r.client_cpu >= 0 && r.server_cpu < 0 &&
                r.mean_batch < 0); /* the server has no process id and no metrics */
}

static void refusals_are_reported(void **state)
{
    (void)state;
    static const fate fates[PERIOD] = {REFUSED, REFUSED, REFUSED, REFUSED, REFUSED, REFUSED, REFUSED, REFUSED, REFUSED, REFUSED};
    const load_result r = load(fates, 2, 0);
    assert_int_equal(r.failed, REQUESTS);
    assert_int_equal(r.n_latencies, 0);
    assert_string_equal(r.error, "400 not today");
}

static void protobuf(void **state)
{
    (void)state;
    uint8_t bytes[64];
    proto_out out = {.bytes = bytes, .capacity = sizeof bytes};
    proto_number(&out, 3, 300);
    proto_text(&out, 16, "ab");
    assert_memory_equal(bytes,
                        "\x18\xac\x02\x82\x01\x02"
                        "ab",
                        8);
    const uint8_t *at = bytes;
    size_t left = out.size;
    proto_field field;
    assert_int_equal(proto_next(&at, &left, &field), 1);
    assert_true(field.field == 3 && !field.is_bytes && field.number == 300);
    assert_int_equal(proto_next(&at, &left, &field), 1);
    assert_true(field.field == 16 && field.is_bytes && field.size == 2 && memcmp(field.bytes, "ab", 2) == 0);
    assert_int_equal(proto_next(&at, &left, &field), 0);
    at = bytes + 3, left = 4; /* the input ends within the text */
    assert_int_equal(proto_next(&at, &left, &field), -1);
    proto_out small = {.bytes = bytes, .capacity = 3};
    proto_text(&small, 1, "abc");
    assert_true(small.overflow && small.size <= 3);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_fate_is_counted),
        cmocka_unit_test(latencies),
        cmocka_unit_test(refusals_are_reported),
        cmocka_unit_test(protobuf),
    };
    return cmocka_run_group_tests(tests, start, stop);
}
