/* Failures as the server wants them, and the sentences of code that is shared with the command line tool. */
#ifndef RVIT_TRITON_FAILURE_H
#define RVIT_TRITON_FAILURE_H

#include "api.h"

#include <raggedvit/raggedvit.h>

__attribute__((format(printf, 2, 3))) TRITONSERVER_Error *failure(TRITONSERVER_Error_Code code, const char *format, ...);
/* What the configuration or a request says cannot be done. */
#define invalid(...) failure(TRITONSERVER_ERROR_INVALID_ARG, __VA_ARGS__)
TRITONSERVER_Error *failure_out_of_memory(void);
TRITONSERVER_Error_Code failure_code(rvit_status status);
/* Of a call of the library that failed in this thread. what: what was tried; NULL: the library's sentence says it all. */
TRITONSERVER_Error *failure_of_status(rvit_status status, const char *what);
/* Of a function that calls complain() and failed in this thread. */
TRITONSERVER_Error *failure_of_complaint(const char *subject);

/* option_table.complain: keeps the sentence for failure_of_complaint. */
void failure_note(const char *sentence);

/* Logs and deletes an error that nobody waits for; NULL: does nothing. */
void failure_log(TRITONSERVER_Error *error, const char *what);
__attribute__((format(printf, 2, 3))) void log_line(TRITONSERVER_LogLevel level, const char *format, ...);

#define TRY(call)                                 \
    do {                                          \
        TRITONSERVER_Error *const failed_ = call; \
        if (failed_)                              \
            return failed_;                       \
    } while (0)

#endif
