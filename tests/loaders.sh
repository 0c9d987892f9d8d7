#!/bin/sh
# usage: loaders.sh RAGGEDVIT LIBRARY.a INCLUDE FOLDER CC LIBRARIES...
# With broken drivers, the tool must list each device with a reason and choose the CPU, and so must a static program, which can open none.
set -eu
tool=$1 archive=$2 include=$3 folder=$4/loaders cc=$5
shift 5
rm -rf "$folder"
mkdir -p "$folder"

# make NAME.so.1 <source
make() { $cc -shared -fPIC -x c - -o "$folder/$1" -Wl,-soname,"$1"; }
# expect NOTE: devices chooses the CPU and prints NOTE for the unusable device
expect() {
    output=$(LD_LIBRARY_PATH=$folder "$tool" devices) || { echo "devices exits with $?, expected the note: $1"; exit 1; }
    case $output in
    *"$1"*'* cpu'*) ;;
    *) echo "not listed: $1"; echo "$output"; exit 1 ;;
    esac
}

listed=$("$tool" devices)
case $listed in *"vulkan  -  not in this build"*) ;; *)
    make libvulkan.so.1 <<'END'
int nothing;
END
    expect 'libvulkan.so.1 has no symbol vkGetInstanceProcAddr'
    make libvulkan.so.1 <<'END'
#include <string.h>
static int version(unsigned *out) { *out = 1u << 22 | 3u << 12; return 0; }
void (*vkGetInstanceProcAddr(void *instance, const char *name))(void)
{
    return !instance && !strcmp(name, "vkEnumerateInstanceVersion") ? (void (*)(void))version : 0;
}
END
    expect 'has no vkCreateInstance'
    make libvulkan.so.1 <<'END'
#include <string.h>
static int version(unsigned *out) { *out = 1u << 22 | 3u << 12; return 0; }
static int create(const void *info, const void *allocator, void **out) { static void *table[1]; *out = table; return 0; }
void (*vkGetInstanceProcAddr(void *instance, const char *name))(void)
{
    return !strcmp(name, "vkEnumerateInstanceVersion") ? (void (*)(void))version
         : !strcmp(name, "vkCreateInstance") ? (void (*)(void))create : 0;
}
END
    expect 'has no vkDestroyInstance'
    rm "$folder/libvulkan.so.1" ;;
esac
case $listed in *"cuda    -  not in this build"*) ;; *)
    make libcuda.so.1 <<'END'
int nothing;
END
    expect 'libcuda.so.1 has no symbol cuInit' ;;
esac

cat >"$folder/static.c" <<'END'
#include <raggedvit/raggedvit.h>
#include <stdio.h>
int main(void)
{
    rvit_device_info infos[8];
    int32_t n = 0;
    rvit_device *device;
    for (int i = 0; i < 8; i++)
        infos[i] = (rvit_device_info)RVIT_DEVICE_INFO_INIT;
    if (rvit_device_list(infos, 8, &n) || rvit_device_create(NULL, &device))
        return puts(rvit_status_detail()), 1;
    for (int i = 0; i < n && i < 8; i++)
        printf("%s %d %s\n", rvit_enum_name(RVIT_ENUM_BACKEND, infos[i].backend), (int)infos[i].index, infos[i].note);
    rvit_device_destroy(device);
    return 0;
}
END
if $cc -static "$folder/static.c" -I"$include" "$archive" "$@" -o "$folder/static" 2>"$folder/why"; then
    output=$("$folder/static") || { echo "a program linked with -static exits with $?"; exit 1; }
    case $listed in *"vulkan  -  not in this build"*) ;; *)
        case $output in *'vulkan -1 Vulkan: a program linked with -static'*) ;; *) echo "$output"; exit 1 ;; esac ;;
    esac
else
    echo "not linked with -static: $(tail -n 1 "$folder/why")"
fi
