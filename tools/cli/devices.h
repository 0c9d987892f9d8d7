/* What the library knows about the devices, for devices and selftest. */
#ifndef RVIT_CLI_DEVICES_H
#define RVIT_CLI_DEVICES_H

#include "json.h"

#include <raggedvit/device.h>

/* The devices of every backend, in order of preference; free *out_infos. Prints a message on failure; returns an exit code. */
int list_devices(rvit_device_info **out_infos, int32_t *out_n);
json_t *device_to_json(const rvit_device_info *info, bool is_default);
/* "bf16, int8": the types with instructions for GEMMs; "" if there are none. */
void device_dtypes(const rvit_device_info *info, char *out, size_t out_size);

#endif
