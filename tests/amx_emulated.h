/* The CPU's AMX kernels with tiles in plain C, for any processor: the table "amx_emulated" for rvit_device_desc.kernels. */
#ifndef RVIT_TESTS_AMX_EMULATED_H
#define RVIT_TESTS_AMX_EMULATED_H

/* Call it before a device is created. */
void amx_emulated_register(void);

#endif
