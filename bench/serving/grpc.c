#include "grpc.h"

#include <errno.h>

#ifdef RVIT_HAVE_NGHTTP2
#include <nghttp2/nghttp2.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "http.h"

enum { FRAMES = 16, WINDOW = 1 << 24, PREFIX = 5, READ_BYTES = 1 << 14, FRAME_HEAD = 9, ANSWER_MOST = 1 << 26 };

struct grpc {
    int socket;
    nghttp2_session *session;
    char authority[32];
    /* The request: the prefix, then the message's pieces. */
    struct iovec pieces[1 + GRPC_PIECES];
    uint8_t prefix[PREFIX];
    int at_piece;     /* the next to send */
    size_t at_byte;   /* within it */
    size_t remaining; /* of the request that is not in a frame yet */
    /* Data frames that are written together. */
    struct iovec queue[FRAMES * (1 + 1 + GRPC_PIECES)];
    uint8_t heads[FRAMES][FRAME_HEAD];
    int n_frames, n_queue;
    /* The answer. */
    uint8_t *data;
    size_t size, capacity;
    int status, is_closed;
    char text[256];
};

static int flush_frames(grpc *self)
{
    const int n = self->n_queue;
    self->n_queue = self->n_frames = 0;
    return wire_write(self->socket, self->queue, n);
}

static ssize_t on_send(nghttp2_session *session, const uint8_t *data, size_t length, int flags, void *user)
{
    (void)session, (void)flags;
    grpc *self = user;
    struct iovec piece = {(void *)(uintptr_t)data, length};
    if (flush_frames(self) != 0 || wire_write(self->socket, &piece, 1) != 0)
        return NGHTTP2_ERR_CALLBACK_FAILURE;
    return (ssize_t)length;
}

static ssize_t on_read(nghttp2_session *session, int32_t stream, uint8_t *buffer, size_t length, uint32_t *flags,
                       nghttp2_data_source *source, void *user)
{
    (void)session, (void)stream, (void)buffer, (void)source;
    const grpc *self = user;
    const size_t taken = self->remaining < length ? self->remaining : length;
    *flags = NGHTTP2_DATA_FLAG_NO_COPY | (taken == self->remaining ? NGHTTP2_DATA_FLAG_EOF : 0);
    return (ssize_t)taken;
}

static int on_send_data(nghttp2_session *session, nghttp2_frame *frame, const uint8_t *head, size_t length, nghttp2_data_source *source,
                        void *user)
{
    (void)session, (void)frame, (void)source;
    grpc *self = user;
    if (self->n_frames == FRAMES && flush_frames(self) != 0)
        return NGHTTP2_ERR_CALLBACK_FAILURE;
    memcpy(self->heads[self->n_frames], head, FRAME_HEAD);
    self->queue[self->n_queue++] = (struct iovec){self->heads[self->n_frames++], FRAME_HEAD};
    self->remaining -= length;
    while (length > 0) {
        const struct iovec *piece = &self->pieces[self->at_piece];
        const size_t left = piece->iov_len - self->at_byte, taken = left < length ? left : length;
        if (taken > 0)
            self->queue[self->n_queue++] = (struct iovec){(uint8_t *)piece->iov_base + self->at_byte, taken};
        length -= taken;
        self->at_byte += taken;
        if (self->at_byte == piece->iov_len) {
            self->at_piece++;
            self->at_byte = 0;
        }
    }
    return 0;
}

static int on_header(nghttp2_session *session, const nghttp2_frame *frame, const uint8_t *name, size_t name_length, const uint8_t *value,
                     size_t value_length, uint8_t flags, void *user)
{
    (void)session, (void)frame, (void)flags;
    grpc *self = user;
    char text[sizeof self->text];
    const size_t length = value_length < sizeof text - 1 ? value_length : sizeof text - 1;
    memcpy(text, value, length);
    text[length] = '\0';
    if (name_length == 11 && memcmp(name, "grpc-status", 11) == 0)
        self->status = atoi(text);
    else if (name_length == 12 && memcmp(name, "grpc-message", 12) == 0)
        memcpy(self->text, text, length + 1);
    return 0;
}

static int on_data(nghttp2_session *session, uint8_t flags, int32_t stream, const uint8_t *data, size_t length, void *user)
{
    (void)session, (void)flags, (void)stream;
    grpc *self = user;
    if (self->size + length > self->capacity) {
        const size_t capacity = 2 * (self->size + length);
        uint8_t *larger = capacity <= ANSWER_MOST ? realloc(self->data, capacity) : NULL;
        if (larger == NULL)
            return NGHTTP2_ERR_CALLBACK_FAILURE;
        self->data = larger;
        self->capacity = capacity;
    }
    memcpy(self->data + self->size, data, length);
    self->size += length;
    return 0;
}

static int on_close(nghttp2_session *session, int32_t stream, uint32_t code, void *user)
{
    (void)session, (void)stream, (void)code;
    ((grpc *)user)->is_closed = 1;
    return 0;
}

static int start_session(grpc *self)
{
    nghttp2_session_callbacks *callbacks;
    if (nghttp2_session_callbacks_new(&callbacks) != 0)
        return -1;
    nghttp2_session_callbacks_set_send_callback(callbacks, on_send);
    nghttp2_session_callbacks_set_send_data_callback(callbacks, on_send_data);
    nghttp2_session_callbacks_set_on_header_callback(callbacks, on_header);
    nghttp2_session_callbacks_set_on_data_chunk_recv_callback(callbacks, on_data);
    nghttp2_session_callbacks_set_on_stream_close_callback(callbacks, on_close);
    const int code = nghttp2_session_client_new(&self->session, callbacks, self);
    nghttp2_session_callbacks_del(callbacks);
    const nghttp2_settings_entry settings[] = {{NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE, WINDOW}, {NGHTTP2_SETTINGS_ENABLE_PUSH, 0}};
    if (code != 0 || nghttp2_submit_settings(self->session, NGHTTP2_FLAG_NONE, settings, sizeof settings / sizeof settings[0]) != 0 ||
        nghttp2_session_set_local_window_size(self->session, NGHTTP2_FLAG_NONE, 0, WINDOW) != 0)
        return -1;
    return nghttp2_session_send(self->session) == 0 ? 0 : -1;
}

grpc *grpc_open(int port)
{
    grpc *self = calloc(1, sizeof *self);
    if (self == NULL)
        return NULL;
    self->socket = wire_connect(port);
    memcpy(self->authority, "localhost", sizeof "localhost");
    if (self->socket < 0 || start_session(self) != 0) {
        const int why = errno;
        grpc_close(self);
        errno = why;
        return NULL;
    }
    return self;
}

void grpc_close(grpc *self)
{
    if (self == NULL)
        return;
    nghttp2_session_del(self->session);
    if (self->socket >= 0)
        close(self->socket);
    free(self->data);
    free(self);
}

static nghttp2_nv header(const char *name, const char *value)
{
    return (nghttp2_nv){(uint8_t *)(uintptr_t)name, (uint8_t *)(uintptr_t)value, strlen(name), strlen(value), NGHTTP2_NV_FLAG_NONE};
}

static int submit(grpc *self, const char *path, const struct iovec message[GRPC_PIECES])
{
    size_t size = 0;
    for (int i = 0; i < GRPC_PIECES; i++) {
        self->pieces[1 + i] = message[i];
        size += message[i].iov_len;
    }
    self->pieces[0] = (struct iovec){self->prefix, PREFIX};
    for (int i = 0; i < 4; i++)
        self->prefix[1 + i] = (uint8_t)(size >> (24 - 8 * i));
    self->remaining = PREFIX + size;
    self->at_piece = 0;
    self->at_byte = self->size = 0;
    self->status = -1;
    self->is_closed = 0;
    self->text[0] = '\0';
    const nghttp2_nv headers[] = {
        header(":method", "POST"), header(":scheme", "http"),
        header(":path", path),     header(":authority", self->authority),
        header("te", "trailers"),  header("content-type", "application/grpc"),
    };
    const nghttp2_data_provider body = {.read_callback = on_read};
    return nghttp2_submit_request(self->session, NULL, headers, sizeof headers / sizeof headers[0], &body, NULL) > 0 ? 0 : -1;
}

int grpc_call(grpc *self, const char *path, const struct iovec message[GRPC_PIECES])
{
    if (submit(self, path, message) != 0)
        return -1;
    while (!self->is_closed) {
        uint8_t bytes[READ_BYTES];
        if (nghttp2_session_send(self->session) != 0 || flush_frames(self) != 0)
            return -1;
        const ssize_t got = recv(self->socket, bytes, sizeof bytes, 0);
        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0 || nghttp2_session_mem_recv(self->session, bytes, (size_t)got) < 0)
            return -1;
    }
    /* Sends what the answer requires: window updates and replies to pings. */
    return nghttp2_session_send(self->session) == 0 && self->status >= 0 ? 0 : -1;
}

int grpc_status(const grpc *self)
{
    return self->status;
}

const char *grpc_text(const grpc *self)
{
    return self->text;
}

const uint8_t *grpc_answer(const grpc *self, size_t *out_size)
{
    /* One message, not compressed: a flag and its length as four bytes come before it. */
    if (self->size < PREFIX || self->data[0] != 0) {
        *out_size = 0;
        return NULL;
    }
    *out_size = self->size - PREFIX;
    return self->data + PREFIX;
}

#else

grpc *grpc_open(int port)
{
    (void)port;
    errno = ENOSYS;
    return NULL;
}

void grpc_close(grpc *self)
{
    (void)self;
}

int grpc_call(grpc *self, const char *path, const struct iovec message[GRPC_PIECES])
{
    (void)self, (void)path, (void)message;
    return -1;
}

int grpc_status(const grpc *self)
{
    (void)self;
    return -1;
}

const char *grpc_text(const grpc *self)
{
    (void)self;
    return "";
}

const uint8_t *grpc_answer(const grpc *self, size_t *out_size)
{
    (void)self;
    *out_size = 0;
    return NULL;
}

#endif
