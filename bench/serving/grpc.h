/* Unary gRPC calls to a server on this machine: HTTP/2 by libnghttp2 on one blocking connection, one call at a time. Without libnghttp2
   (RVIT_HAVE_NGHTTP2) no connection can be opened. */
#ifndef RVIT_SERVING_GRPC_H
#define RVIT_SERVING_GRPC_H

#include <stddef.h>
#include <stdint.h>
#include <sys/uio.h>

enum { GRPC_PIECES = 2 };

typedef struct grpc grpc;

/* On failure NULL, with errno set (ENOSYS without libnghttp2). */
grpc *grpc_open(int port);
void grpc_close(grpc *self);
/* One call. message: pieces of the request. Returns 0 if the server ended the call with any status; otherwise -1, and the connection must
   be closed. */
int grpc_call(grpc *self, const char *path, const struct iovec message[GRPC_PIECES]);

/* The result of the last call. */
int grpc_status(const grpc *self); /* 0: success */
const char *grpc_text(const grpc *self);
const uint8_t *grpc_answer(const grpc *self, size_t *out_size);

#endif
