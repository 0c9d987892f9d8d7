/* Names for code that is compiled once per instruction set. */
#ifndef RVIT_CPU_ISA_H
#define RVIT_CPU_ISA_H

#include "backend_cpu/kernels.h"

#define ISA_JOIN_(name, isa) name##_##isa
#define ISA_JOIN(name, isa) ISA_JOIN_(name, isa)
#define ISA_STRING_OF(isa) #isa
#define ISA_STRING_(isa) ISA_STRING_OF(isa)

#define ISA_NAME(name) ISA_JOIN(name, RVIT_CPU_ISA)
#define ISA_STRING ISA_STRING_(RVIT_CPU_ISA)

void ISA_NAME(rvit_cpu_linear_panels_bf16)(const rvit_cpu_linear_tile *tile, float *scratch);
void ISA_NAME(rvit_cpu_linear_panels_i8)(const rvit_cpu_linear_tile *tile, float *scratch);
int ISA_NAME(rvit_cpu_arrange_panels)(void *weight, int64_t columns, int64_t in_features, rvit_dtype dtype, float *scratch);
void ISA_NAME(rvit_cpu_attention_kernel)(const rvit_cpu_attention_tile *tile, float *scratch);
void ISA_NAME(rvit_cpu_attention_bf16_kernel)(const rvit_cpu_attention_tile *tile, float *scratch);
void ISA_NAME(rvit_cpu_backward_kernel)(const rvit_cpu_backward_tile *tile, float *scratch);
void ISA_NAME(rvit_cpu_attention_received_kernel)(const rvit_cpu_attention_received_tile *tile, float *scratch);
void ISA_NAME(rvit_cpu_rope_kernel)(const rvit_cpu_rope_rows *rows);
void ISA_NAME(rvit_cpu_pool_kernel)(const rvit_cpu_pool_tile *tile, float *scratch);
void ISA_NAME(rvit_cpu_attention_pool_kernel)(const rvit_cpu_attention_pool_tile *tile, float *scratch);
void ISA_NAME(rvit_cpu_metric_kernel)(const rvit_cpu_metric_rows *rows);
void ISA_NAME(rvit_cpu_bipartite_match_kernel)(const rvit_cpu_bipartite_match_tile *tile, float *scratch);
void ISA_NAME(rvit_cpu_linear_i8_kernel)(const rvit_cpu_linear_tile *tile, float *scratch);
void ISA_NAME(rvit_cpu_linear_e4m3_kernel)(const rvit_cpu_linear_tile *tile, float *scratch);
int64_t ISA_NAME(rvit_cpu_layernorm_quantized_kernel)(const rvit_cpu_layernorm_rows *rows, float *scratch);
int64_t ISA_NAME(rvit_cpu_quantize_kernel)(const rvit_cpu_quantize_rows *rows, float *scratch);

#endif
