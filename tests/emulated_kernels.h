/* Registers the kernel table "amx_emulated" for rvit_device_desc.kernels: the AMX kernels with tiles in plain C, for any processor. */
#ifndef RVIT_TESTS_AMX_EMULATED_H
#define RVIT_TESTS_AMX_EMULATED_H

/* Call this before any device is created. */
void amx_emulated_register(void);

#endif
