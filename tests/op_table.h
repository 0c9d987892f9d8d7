/* For each op of the op table: the offsets of all views in its args, and its public function. */
#ifndef RVIT_TESTS_OP_TABLE_H
#define RVIT_TESTS_OP_TABLE_H

#include "core/contract/op.h"

/* clang-format off */
#define RVIT_OP(TYPE, name) static const size_t op_offsets_##name[] = {
#define RVIT_ARRAY(op, slot, field, use, alignment, size, in_place) offsetof(rvit_##op##_args, field),
#define RVIT_OP_END(TYPE, name) };
#include "core/contract/ops.def"
/* clang-format on */

/* [RVIT_OP_...] */
static const struct {
    const size_t *offsets; /* [n_views], in the args */
    int n_views;
    size_t size; /* of the args */
} op_table[] = {
#define RVIT_OP(TYPE, name) {op_offsets_##name, RVIT_N_SLOTS_##name, sizeof(rvit_##name##_args)},
#include "core/contract/ops.def"
};

static inline rvit_status op_call(rvit_stream *stream, const rvit_op *op)
{
    switch (op->type) {
#define RVIT_OP(TYPE, name) \
    case RVIT_OP_##TYPE:    \
        return rvit_##name(stream, &op->name);
#include "core/contract/ops.def"
    case RVIT_OP_COUNT:
        break;
    }
    return RVIT_INTERNAL;
}

#endif
