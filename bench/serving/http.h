/* A small HTTP/1.1 client for one server on this machine: blocking, one connection, kept alive. */
#ifndef RVIT_SERVING_HTTP_H
#define RVIT_SERVING_HTTP_H

#include <stddef.h>
#include <stdint.h>
#include <sys/uio.h>

enum { WIRE_TIMEOUT_SECONDS = 60 };

/* Opens a TCP connection to 127.0.0.1, with time limits for reading and writing. On failure -1, with errno set. */
int wire_connect(int port);
/* Writes all of n pieces, which it changes. Returns 0, or -1 with errno. */
int wire_write(int socket, struct iovec *pieces, int n);

typedef struct http {
    int socket; /* -1: closed */
    int port;
    uint8_t *data; /* the last answer: its head and what follows */
    size_t capacity;
    /* The last answer. */
    int status;
    const uint8_t *body;
    size_t size;
    size_t json_size; /* bytes of body before binary tensors: Inference-Header-Content-Length; size without that */
} http;

/* Returns 0, or -1 with errno. */
int http_open(http *self, int port);
void http_close(http *self);
/* One request and its answer. json_size: the bytes of body before binary tensors; 0: no such header. n_body: pieces of body, at most 4.
   Returns 0 for an answer with any status; -1 without an answer, and then the connection is closed. Does not try again if the server has
   closed a connection that it had kept alive. */
int http_request(http *self, const char *method, const char *path, size_t json_size, const struct iovec *body, int n_body);

#endif
