/* The emulated driver's objects and what its functions share. One lock is held for the length of every call. */
#ifndef EMU_DRIVER_H
#define EMU_DRIVER_H

#pragma GCC visibility push(default)
#include <cuda.h>
#pragma GCC visibility pop

#include <stddef.h>
#include <stdint.h>

#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <vector>

#include "runtime/launch.h"
#include "runtime/log.h"

struct CUctx_st {
    int references; /* of a primary context */
    bool gone;      /* reset, and not retained since */
    unsigned long long id;
};

struct CUfunc_st {
    const emu::kernel *entry;
    int max_dynamic_shared;
};

struct CUmod_st {
    std::map<const emu::kernel *, CUfunc_st> functions;
};

struct CUevent_st {
    bool recorded;
    double seconds;
    CUstream stream; /* it was last recorded in */
};

struct CUextMemory_st {
    int fd;
    size_t size;
};

struct CUextSemaphore_st {
    int fd;
    uint64_t *value;
    bool timeline;
};

namespace emu
{
/* Something that a stream does. */
struct operation {
    enum { LAUNCH, COPY, FILL, RECORD, CALL } kind;
    CUfunction function;
    launch_shape shape;
    std::vector<char> parameters;
    std::vector<size_t> offsets;
    char *to;
    const char *from;
    std::shared_ptr<std::vector<char>> staged; /* what pageable memory held when the copy was enqueued */
    size_t size;
    unsigned value, width; /* width bytes repeated */
    CUevent event;
    CUhostFn function_of_host;
    void *data; /* it is given */
};
} // namespace emu

/* One of a graph's operations. */
struct CUgraphNode_st {
    size_t number;
};

struct CUgraph_st {
    std::vector<emu::operation> operations;
    std::map<size_t, CUgraphNode_st> nodes; /* those that have been handed out */
    CUgraphNode last;
};

struct CUgraphExec_st {
    std::vector<emu::operation> operations;
    CUgraph source; /* may be gone */
};

struct CUstream_st {
    std::vector<emu::operation> queue; /* with RVIT_EMU_LATE */
    CUgraph captured;                  /* under construction, or nullptr */
    bool origin, invalid;              /* of the capture */
    CUstreamCaptureMode mode;
    unsigned long capturing_thread;
};

namespace emu
{
struct allocation {
    size_t size;
    char *pages; /* with an untouchable page at each end */
    size_t pages_size;
    bool host;
    CUcontext context;
};

struct device_model {
    int capability, processors, shared_per_block, shared_per_processor, l2_size;
};

struct driver_state {
    std::recursive_mutex lock;
    bool initialised = false;
    CUresult lost = CUDA_SUCCESS; /* what every call answers after a kernel's error */
    CUctx_st primary = {};
    unsigned long long ids = 0;   /* of contexts, so far */
    std::set<CUcontext> contexts; /* created ones */
    std::map<uintptr_t, allocation> allocations;
    std::map<uintptr_t, size_t> freed;
    size_t allocated = 0;
    std::set<CUmodule> modules;
    std::set<CUstream> streams;
    std::set<CUevent> events;
    std::set<CUgraph> graphs;
    std::set<CUgraphExec> executables;
    std::set<CUexternalMemory> memories;
    std::set<CUexternalSemaphore> semaphores;
    std::map<const char *, long long> calls;
};

driver_state &state();
const device_model &model();
CUcontext current_context();

enum needs { NOTHING, INITIALISED, CONTEXT };

/* Every driver function begins with one. `result` is what it returns at once unless that is CUDA_SUCCESS. */
struct call {
    std::unique_lock<std::recursive_mutex> held;
    CUresult result;
    call(const char *name, needs what);
};
#define EMU_CALL(what)                                  \
    const ::emu::call this_call(__func__, ::emu::what); \
    if (this_call.result != CUDA_SUCCESS)               \
    return this_call.result

/* An error for what a capture in this thread (or a global one in any) forbids; that also spoils the capture. */
CUresult forbidden_while_capturing();

/* memory.cpp. The allocation that holds all of [p, p + size), nullptr if there is none. */
const allocation *allocation_of(const void *p, size_t size, uintptr_t *out_start = nullptr);
/* p points into an allocation's pages, the untouchable ones included. */
bool in_allocation_pages(const void *p);
const char *describe_device_address(const void *p);
/* Has something been written just behind an allocation? Says so. */
bool damaged_allocations();
void release_all_memory(CUcontext context);
/* With RVIT_EMU_PROTECT, device memory can be touched only while something is executed. */
void protect(bool execute);

/* faults.cpp: RVIT_EMU_... from the environment */
bool fault_no_device();
int fault_driver_version();
bool fault_allocation(); /* this allocation is to fail */
bool fault_launch();     /* this launch is to lose the device */
bool late();
size_t memory_size();
int compiled_for();
int default_dynamic_shared(); /* bytes that a launch may ask for unless cuFuncSetAttribute says otherwise */
void faults_restart();

/* module.cpp. The operation of a launch, checked. */
CUresult launch_of(CUfunction function, const launch_shape &shape, void **parameters, void **extra, operation *out_op);

/* execute.cpp */
CUresult submit(CUstream stream, operation &&op);
CUresult wait_for(CUstream stream);
void flush(CUstream stream);
void flush_all();

/* stream.cpp */
unsigned long this_thread_number();
/* The stream exists, and is not the default one, which the backend promises never to use. */
bool known(CUstream stream);

/* device.cpp */
void release_all_objects();
} // namespace emu

#endif
