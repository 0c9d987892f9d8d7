/* Creates errors of the server, also from messages of code shared with the command line tool. */
#ifndef RVIT_TRITON_FAILURE_H
#define RVIT_TRITON_FAILURE_H

#include "api.h"

#include <raggedvit/raggedvit.h>

__attribute__((format(printf, 2, 3))) TRITONSERVER_Error *failure(TRITONSERVER_Error_Code code, const char *format, ...);
/* An error in the configuration or in a request. */
#define invalid(...) failure(TRITONSERVER_ERROR_INVALID_ARG, __VA_ARGS__)
TRITONSERVER_Error *failure_out_of_memory(void);
TRITONSERVER_Error_Code failure_code(rvit_status status);
/* The error of a failed library call in this thread. what: prefix of the message, or NULL. */
TRITONSERVER_Error *failure_of_status(rvit_status status, const char *what);
/* The error of a failed function that called complain() in this thread. */
TRITONSERVER_Error *failure_of_complaint(const char *subject);

/* option_table.complain: keeps the message for failure_of_complaint. */
void failure_note(const char *sentence);

/* Logs and deletes an error that cannot be returned. Does nothing for NULL. */
void failure_log(TRITONSERVER_Error *error, const char *what);
__attribute__((format(printf, 2, 3))) void log_line(TRITONSERVER_LogLevel level, const char *format, ...);

#define TRY(call)                                 \
    do {                                          \
        TRITONSERVER_Error *const failed_ = call; \
        if (failed_)                              \
            return failed_;                       \
    } while (0)

#endif
