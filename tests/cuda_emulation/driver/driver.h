/* The objects and shared functions of the emulated driver. Every call holds one lock. */
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
    CUstream stream; /* the stream of its last record */
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
/* An operation of a stream. */
struct operation {
    enum { LAUNCH, COPY, FILL, RECORD, CALL } kind;
    CUfunction function;
    launch_shape shape;
    std::vector<char> parameters;
    std::vector<size_t> offsets;
    char *to;
    const char *from;
    std::shared_ptr<std::vector<char>> staged; /* a copy of pageable memory, made when the copy was enqueued */
    size_t size;
    unsigned value, width; /* width bytes, repeated */
    CUevent event;
    CUhostFn function_of_host;
    void *data; /* the argument of a call */
};
} // namespace emu

/* An operation of a graph. */
struct CUgraphNode_st {
    size_t number;
};

struct CUgraph_st {
    std::vector<emu::operation> operations;
    std::map<size_t, CUgraphNode_st> nodes; /* the dependencies that the caller sees */
    CUgraphNode last;
};

struct CUgraphExec_st {
    std::vector<emu::operation> operations;
    CUgraph source; /* may have been destroyed */
};

struct CUstream_st {
    std::vector<emu::operation> queue; /* with RVIT_EMU_LATE */
    CUgraph captured;                  /* being built, or nullptr */
    bool origin, invalid;              /* of the capture */
    CUstreamCaptureMode mode;
    unsigned long capturing_thread;
};

namespace emu
{
struct allocation {
    size_t size;
    char *pages; /* with an inaccessible page at each end */
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
    CUresult lost = CUDA_SUCCESS; /* the result of every call after a kernel's error */
    CUctx_st primary = {};
    unsigned long long ids = 0;   /* contexts created so far */
    std::set<CUcontext> contexts; /* created by cuCtxCreate */
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

/* Every driver function starts with one. If `result` is not CUDA_SUCCESS, the function returns it at once. */
struct call {
    std::unique_lock<std::recursive_mutex> held;
    CUresult result;
    call(const char *name, needs what);
};
#define EMU_CALL(what)                                  \
    const ::emu::call this_call(__func__, ::emu::what); \
    if (this_call.result != CUDA_SUCCESS)               \
    return this_call.result

/* The error for a call that a capture in this thread, or a global one in any thread, forbids; it also invalidates the capture. */
CUresult forbidden_while_capturing();

/* memory.cpp. The allocation that contains [p, p + size), or nullptr. */
const allocation *allocation_of(const void *p, size_t size, uintptr_t *out_start = nullptr);
/* Whether p points into an allocation's pages, including the inaccessible ones. */
bool in_allocation_pages(const void *p);
const char *describe_device_address(const void *p);
/* Whether something was written just after an allocation; reports it. */
bool damaged_allocations();
void release_all_memory(CUcontext context);
/* With RVIT_EMU_PROTECT, device memory is only accessible during execution. */
void protect(bool execute);

/* faults.cpp: the RVIT_EMU_... environment variables */
bool fault_no_device();
int fault_driver_version();
bool fault_allocation(); /* whether this allocation must fail */
bool fault_launch();     /* whether this launch must lose the device */
bool late();
size_t memory_size();
int compiled_for();
CUresult fault_image();       /* of loading an image */
int default_dynamic_shared(); /* bytes that a launch may request unless cuFuncSetAttribute sets another limit */
void faults_restart();

/* module.cpp. Validates a launch and returns its operation. */
CUresult launch_of(CUfunction function, const launch_shape &shape, void **parameters, void **extra, operation *out_op);

/* execute.cpp */
CUresult submit(CUstream stream, operation &&op);
CUresult wait_for(CUstream stream);
void flush(CUstream stream);
void flush_all();

/* stream.cpp */
unsigned long this_thread_number();
/* Whether the stream exists and is not the default one, which the backend never uses. */
bool known(CUstream stream);

/* device.cpp */
void release_all_objects();
} // namespace emu

#endif
