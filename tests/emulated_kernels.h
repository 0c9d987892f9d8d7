/* Registers the kernel tables "amx_emulated", "neon_dotprod_emulated" and "neon_bf16_emulated" for rvit_device_desc.kernels: the kernels of
   amx, neon_dotprod and neon_bf16 with their instructions in plain C, for any processor. */
#ifndef RVIT_TESTS_EMULATED_KERNELS_H
#define RVIT_TESTS_EMULATED_KERNELS_H

/* Call this before any device is created. */
void emulated_kernels_register(void);

#endif
