/* Lists the devices that the library can use, best first, and says why it cannot use others.

   usage: devices */
#include <stdio.h>

#include <raggedvit/raggedvit.h>

enum { CAPACITY = 16 };

int main(void)
{
    /* Structs begin with their size, from which a newer library knows which fields an older program has. */
    rvit_device_info infos[CAPACITY];
    int32_t n = 0;
    for (int i = 0; i < CAPACITY; i++)
        infos[i] = (rvit_device_info)RVIT_DEVICE_INFO_INIT;

    /* rvit_status_detail describes the last failure in this thread. */
    const rvit_status status = rvit_device_list(infos, CAPACITY, &n);
    if (status != RVIT_OK) {
        fprintf(stderr, "%s: %s\n", rvit_status_name(status), rvit_status_detail());
        return 1;
    }

    printf("raggedvit %s\n", rvit_version());
    int usable = 0;
    for (int32_t i = 0; i < n && i < CAPACITY; i++) {
        /* Index -1: the backend is built in but cannot run here, for example because there is no driver. */
        if (infos[i].index < 0) {
            printf("  %-8s cannot be used: %s\n", rvit_enum_name(RVIT_ENUM_BACKEND, infos[i].backend), infos[i].note);
            continue;
        }
        usable++;
        printf("  %-8s %d  %s (%s), %lld MiB%s\n", rvit_enum_name(RVIT_ENUM_BACKEND, infos[i].backend), (int)infos[i].index, infos[i].name,
               infos[i].driver, (long long)(infos[i].memory_size >> 20), infos[i].is_software ? ", software: used only on request" : "");
        if (infos[i].note[0] != '\0')
            printf("           note: %s\n", infos[i].note);
    }

    /* NULL selects the best one; a rvit_device_desc selects one by backend and index. */
    rvit_device *device = NULL;
    rvit_device_info chosen = RVIT_DEVICE_INFO_INIT;
    if (rvit_device_create(NULL, &device) != RVIT_OK || rvit_device_get_info(device, &chosen) != RVIT_OK) {
        fprintf(stderr, "%s\n", rvit_status_detail());
        return 1;
    }
    printf("chosen by default: %s, %s\n", rvit_enum_name(RVIT_ENUM_BACKEND, chosen.backend), chosen.name);
    rvit_device_destroy(device);
    return usable > 0 ? 0 : 1;
}
