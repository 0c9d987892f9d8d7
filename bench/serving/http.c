#include "http.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

enum { FIRST_CAPACITY = 1 << 14, MAX_BYTES = 1 << 30, MAX_PIECES = 4 };

int wire_connect(int port)
{
    const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return -1;
    const int yes = 1;
    const struct timeval limit = {.tv_sec = WIRE_TIMEOUT_SECONDS};
    const struct sockaddr_in address = {
        .sin_family = AF_INET, .sin_port = htons((uint16_t)port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
    setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit);
    if (connect(fd, (const struct sockaddr *)&address, sizeof address) != 0) {
        const int why = errno;
        close(fd);
        errno = why;
        return -1;
    }
    return fd;
}

int wire_write(int socket, struct iovec *pieces, int n)
{
    while (n > 0) {
        const struct msghdr message = {.msg_iov = pieces, .msg_iovlen = (size_t)n};
        ssize_t sent = sendmsg(socket, &message, MSG_NOSIGNAL);
        if (sent < 0 && errno == EINTR)
            continue;
        if (sent < 0)
            return -1;
        for (; n > 0 && (size_t)sent >= pieces->iov_len; pieces++, n--)
            sent -= (ssize_t)pieces->iov_len;
        if (n > 0) {
            pieces->iov_base = (uint8_t *)pieces->iov_base + sent;
            pieces->iov_len -= (size_t)sent;
        }
    }
    return 0;
}

int http_open(http *self, int port)
{
    *self = (http){.socket = wire_connect(port), .port = port, .capacity = FIRST_CAPACITY};
    self->data = malloc(self->capacity);
    return self->socket >= 0 && self->data != NULL ? 0 : -1;
}

static int give_up(http *self)
{
    if (self->socket >= 0)
        close(self->socket);
    self->socket = -1;
    return -1;
}

void http_close(http *self)
{
    give_up(self);
    free(self->data);
    self->data = NULL;
}

/* Reads until there are `wanted` bytes; *have are there. */
static int fill(http *self, size_t *have, size_t wanted)
{
    if (wanted > MAX_BYTES)
        return -1;
    if (wanted > self->capacity) {
        uint8_t *larger = realloc(self->data, wanted);
        if (larger == NULL)
            return -1;
        self->data = larger;
        self->capacity = wanted;
    }
    while (*have < wanted) {
        const ssize_t got = recv(self->socket, self->data + *have, self->capacity - *have, 0);
        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0)
            return -1;
        *have += (size_t)got;
    }
    return 0;
}

/* The number after "name:" in the head; -1 if there is none. head ends with a 0. */
static long long field(const char *head, const char *name)
{
    const size_t length = strlen(name);
    for (const char *line = strstr(head, "\r\n"); line != NULL; line = strstr(line + 2, "\r\n"))
        if (strncasecmp(line + 2, name, length) == 0 && line[2 + length] == ':')
            return atoll(line + 3 + length);
    return -1;
}

static int read_answer(http *self)
{
    size_t have = 0, head = 0;
    while (head == 0) {
        const size_t from = have > 3 ? have - 3 : 0;
        if (fill(self, &have, have + 1) != 0)
            return -1;
        const uint8_t *end = memmem(self->data + from, have - from, "\r\n\r\n", 4);
        head = end != NULL ? (size_t)(end - self->data) + 4 : 0;
    }
    self->data[head - 2] = '\0';
    const long long size = field((const char *)self->data, "Content-Length");
    const long long json = field((const char *)self->data, "Inference-Header-Content-Length");
    if (sscanf((const char *)self->data, "HTTP/1.%*d %d", &self->status) != 1 || size < 0 || size > MAX_BYTES || json > size)
        return -1; /* answers in chunks are not read */
    if (fill(self, &have, head + (size_t)size) != 0 || have != head + (size_t)size)
        return -1;
    self->body = self->data + head;
    self->size = (size_t)size;
    self->json_size = json >= 0 ? (size_t)json : self->size;
    return 0;
}

int http_request(http *self, const char *method, const char *path, size_t json_size, const struct iovec *body, int n_body)
{
    char head[512], json[64] = "";
    struct iovec pieces[1 + MAX_PIECES];
    size_t size = 0;
    for (int i = 0; i < n_body; i++) {
        pieces[1 + i] = body[i];
        size += body[i].iov_len;
    }
    if (json_size > 0)
        snprintf(json, sizeof json, "Inference-Header-Content-Length: %zu\r\n", json_size);
    const int length = snprintf(head, sizeof head, "%s %s HTTP/1.1\r\nHost: 127.0.0.1:%d\r\nContent-Length: %zu\r\n%s\r\n", method, path,
                                self->port, size, json);
    pieces[0] = (struct iovec){head, (size_t)length};
    if (self->socket < 0 || n_body > MAX_PIECES || length >= (int)sizeof head || wire_write(self->socket, pieces, 1 + n_body) != 0 ||
        read_answer(self) != 0)
        return give_up(self);
    return 0;
}
