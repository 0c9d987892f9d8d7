// Cooperative matrices of f16 (MATRIX_BF16: bf16) with float accumulators, or of int8 (IN_I8) with integer ones, in sizes that the device
// supports. Define SPEC_SUBGROUP, SPEC_MATRIX_M, SPEC_MATRIX_N and SPEC_MATRIX_K. Operands are staged in shared memory as rows of 16-byte
// units: loading them from the arrays themselves would read past the live rows. A row is padded by one unit, so that successive rows begin
// in different banks.
#ifndef MATRIX_GLSL
#define MATRIX_GLSL

#extension GL_KHR_cooperative_matrix : require
#extension GL_KHR_memory_scope_semantics : require
#extension GL_KHR_shader_subgroup_basic : require
#if MATRIX_BF16
#extension GL_EXT_bfloat16 : require
#define MATRIX_ELEMENT bfloat16_t
#elif IN_I8
#extension GL_EXT_shader_explicit_arithmetic_types_int8 : require
#extension GL_EXT_shader_explicit_arithmetic_types_float16 : require
#define MATRIX_ELEMENT int8_t
#else
#extension GL_EXT_shader_explicit_arithmetic_types_float16 : require
#define MATRIX_ELEMENT float16_t
#endif

layout(constant_id = SPEC_SUBGROUP) const uint SUBGROUP = 32;
layout(constant_id = SPEC_MATRIX_M) const uint MATRIX_M = 16;
layout(constant_id = SPEC_MATRIX_N) const uint MATRIX_N = 16;
layout(constant_id = SPEC_MATRIX_K) const uint MATRIX_K = 16;
const uint SUBGROUPS = THREADS / SUBGROUP;

#define MATRIX_A coopmat<MATRIX_ELEMENT, gl_ScopeSubgroup, MATRIX_M, MATRIX_K, gl_MatrixUseA>
#define MATRIX_B coopmat<MATRIX_ELEMENT, gl_ScopeSubgroup, MATRIX_K, MATRIX_N, gl_MatrixUseB>
#if IN_I8
#define MATRIX_SUM coopmat<int, gl_ScopeSubgroup, MATRIX_M, MATRIX_N, gl_MatrixUseAccumulator>
#else
#define MATRIX_SUM coopmat<float, gl_ScopeSubgroup, MATRIX_M, MATRIX_N, gl_MatrixUseAccumulator>
#endif
#if !MATRIX_BF16 && !IN_I8 // devices multiply bf16, but do not have it in accumulators
#define MATRIX_HALF coopmat<float16_t, gl_ScopeSubgroup, MATRIX_M, MATRIX_N, gl_MatrixUseAccumulator>
#endif
#define ROW_MAJOR gl_CooperativeMatrixLayoutRowMajor
#define COLUMN_MAJOR gl_CooperativeMatrixLayoutColumnMajor

#endif
