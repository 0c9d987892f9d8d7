/* Opens the dumps of Qwen's vision encoders. */
#ifndef RVIT_TESTS_DUMP_QWEN_H
#define RVIT_TESTS_DUMP_QWEN_H

#include "dumps.h"

enum { N_QWEN_DUMPS = 6 };
extern const char *const qwen_dumps[N_QWEN_DUMPS];

typedef struct qwen_encoder {
    json_t *dump;
    rvit_model *model;
    rvit_model_info info;
} qwen_encoder;

qwen_encoder qwen_open(const char *file_name);
void qwen_close(qwen_encoder *encoder);

#endif
