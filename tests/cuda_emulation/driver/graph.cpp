/* Stream capture and graphs. A graph is a list: operations run in the order of capture. */
#include <string.h>

#include "driver.h"
#include "runtime/device.h"

using namespace emu;

namespace
{
/* Detects two threads that use an executable graph at the same time, which the lock of all calls would hide. */
class sole_use
{
    static std::mutex lock;
    static std::set<CUgraphExec> used;
    CUgraphExec executable;

  public:
    bool granted;
    explicit sole_use(CUgraphExec which) : executable(which)
    {
        std::lock_guard<std::mutex> guard(lock);
        granted = used.insert(which).second;
    }
    ~sole_use()
    {
        std::lock_guard<std::mutex> guard(lock);
        if (granted)
            used.erase(executable);
    }
};
std::mutex sole_use::lock;
std::set<CUgraphExec> sole_use::used;

CUgraphNode node_of(CUgraph graph, size_t number)
{
    return &graph->nodes.emplace(number, CUgraphNode_st{number}).first->second;
}

/* The graph of a node, if it still exists. */
CUgraph graph_of(CUgraphNode node)
{
    for (CUgraph graph : state().graphs)
        for (auto &entry : graph->nodes)
            if (&entry.second == node)
                return graph;
    return nullptr;
}
} // namespace

CUresult cuStreamBeginCapture(CUstream stream, CUstreamCaptureMode mode)
{
    EMU_CALL(CONTEXT);
    if (!known(stream))
        return CUDA_ERROR_INVALID_HANDLE;
    if (stream->captured != nullptr)
        return CUDA_ERROR_ILLEGAL_STATE;
    stream->captured = new CUgraph_st();
    stream->origin = true;
    stream->invalid = false;
    stream->mode = mode;
    stream->capturing_thread = this_thread_number();
    return CUDA_SUCCESS;
}

CUresult cuStreamEndCapture(CUstream stream, CUgraph *graph)
{
    EMU_CALL(CONTEXT);
    if (!known(stream) || stream->captured == nullptr)
        return CUDA_ERROR_ILLEGAL_STATE;
    if (graph == nullptr)
        return CUDA_ERROR_INVALID_VALUE;
    if (!stream->origin)
        return CUDA_ERROR_STREAM_CAPTURE_UNMATCHED;
    if (stream->mode != CU_STREAM_CAPTURE_MODE_RELAXED && stream->capturing_thread != this_thread_number())
        return CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD;
    const CUgraph captured = stream->captured;
    const bool invalid = stream->invalid;
    for (CUstream other : state().streams)
        if (other->captured == captured)
            other->captured = nullptr;
    *graph = nullptr;
    if (invalid || fault_allocation()) {
        delete captured;
        return invalid ? CUDA_ERROR_STREAM_CAPTURE_INVALIDATED : CUDA_ERROR_OUT_OF_MEMORY;
    }
    state().graphs.insert(captured);
    *graph = captured;
    return CUDA_SUCCESS;
}

/* Every earlier operation is a predecessor; the last one is returned. */
CUresult cuStreamGetCaptureInfo(CUstream stream, CUstreamCaptureStatus *status, cuuint64_t *id, CUgraph *graph, const CUgraphNode **last,
                                const CUgraphEdgeData **edges, size_t *n_last)
{
    EMU_CALL(CONTEXT);
    if (status == nullptr || id != nullptr || edges != nullptr)
        return CUDA_ERROR_INVALID_VALUE;
    if (!known(stream))
        return CUDA_ERROR_INVALID_HANDLE;
    *status = stream->captured == nullptr ? CU_STREAM_CAPTURE_STATUS_NONE
              : stream->invalid           ? CU_STREAM_CAPTURE_STATUS_INVALIDATED
                                          : CU_STREAM_CAPTURE_STATUS_ACTIVE;
    if (graph != nullptr)
        *graph = stream->captured;
    const CUgraph captured = stream->captured;
    const bool follows = captured != nullptr && !captured->operations.empty();
    if (follows)
        captured->last = node_of(captured, captured->operations.size() - 1);
    if (last != nullptr)
        *last = follows ? &captured->last : nullptr;
    if (n_last != nullptr)
        *n_last = follows;
    return CUDA_SUCCESS;
}

CUresult cuStreamIsCapturing(CUstream stream, CUstreamCaptureStatus *status)
{
    EMU_CALL(CONTEXT);
    if (status == nullptr)
        return CUDA_ERROR_INVALID_VALUE;
    if (!known(stream))
        return CUDA_ERROR_INVALID_HANDLE;
    *status = stream->captured == nullptr ? CU_STREAM_CAPTURE_STATUS_NONE
              : stream->invalid           ? CU_STREAM_CAPTURE_STATUS_INVALIDATED
                                          : CU_STREAM_CAPTURE_STATUS_ACTIVE;
    return CUDA_SUCCESS;
}

CUresult cuGraphInstantiateWithFlags(CUgraphExec *executable, CUgraph graph, unsigned long long)
{
    EMU_CALL(CONTEXT);
    if (executable == nullptr)
        return CUDA_ERROR_INVALID_VALUE;
    if (state().graphs.count(graph) == 0)
        return CUDA_ERROR_INVALID_HANDLE;
    if (fault_allocation())
        return CUDA_ERROR_OUT_OF_MEMORY;
    *executable = new CUgraphExec_st{graph->operations, graph};
    state().executables.insert(*executable);
    return CUDA_SUCCESS;
}

/* Launches before this keep their parameters. */
CUresult cuGraphExecKernelNodeSetParams(CUgraphExec executable, CUgraphNode node, const CUDA_KERNEL_NODE_PARAMS *params)
{
    const sole_use use(executable);
    EMU_CALL(CONTEXT);
    if (!use.granted) {
        report("cuGraphExecKernelNodeSetParams: another thread uses the same executable graph");
        return CUDA_ERROR_ILLEGAL_STATE;
    }
    if (params == nullptr)
        return CUDA_ERROR_INVALID_VALUE;
    const CUgraph graph = graph_of(node);
    if (graph == nullptr || state().executables.count(executable) == 0 || executable->source != graph) {
        report("cuGraphExecKernelNodeSetParams: the node is not in the executable graph's source, or the source is destroyed");
        return CUDA_ERROR_INVALID_HANDLE;
    }
    operation &present = executable->operations[node->number], op = {};
    if (present.kind != operation::LAUNCH)
        return CUDA_ERROR_INVALID_VALUE;
    const launch_shape shape = {{params->gridDimX, params->gridDimY, params->gridDimZ},
                                {params->blockDimX, params->blockDimY, params->blockDimZ},
                                params->sharedMemBytes,
                                present.shape.early,
                                present.shape.cluster};
    if (const CUresult refused = launch_of(params->func, shape, params->kernelParams, params->extra, &op))
        return refused;
    if (fault_allocation())
        return CUDA_ERROR_OUT_OF_MEMORY;
    present = std::move(op);
    return CUDA_SUCCESS;
}

CUresult cuGraphUpload(CUgraphExec executable, CUstream stream)
{
    EMU_CALL(CONTEXT);
    return state().executables.count(executable) && known(stream) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
}

CUresult cuGraphLaunch(CUgraphExec executable, CUstream stream)
{
    const sole_use use(executable);
    EMU_CALL(CONTEXT);
    if (!use.granted) {
        report("cuGraphLaunch: another thread launches the same executable graph");
        return CUDA_ERROR_ILLEGAL_STATE;
    }
    if (state().executables.count(executable) == 0 || !known(stream))
        return CUDA_ERROR_INVALID_HANDLE;
    if (stream->captured == nullptr && fault_launch())
        return state().lost = CUDA_ERROR_ILLEGAL_ADDRESS;
    for (const operation &op : executable->operations)
        if (const CUresult result = submit(stream, operation(op)))
            return result;
    return CUDA_SUCCESS;
}

CUresult cuGraphDestroy(CUgraph graph)
{
    EMU_CALL(CONTEXT);
    if (state().graphs.erase(graph) == 0)
        return CUDA_ERROR_INVALID_HANDLE;
    delete graph;
    return CUDA_SUCCESS;
}

CUresult cuGraphExecDestroy(CUgraphExec executable)
{
    EMU_CALL(CONTEXT);
    if (state().executables.erase(executable) == 0)
        return CUDA_ERROR_INVALID_HANDLE;
    delete executable;
    return CUDA_SUCCESS;
}

CUresult cuGraphGetNodes(CUgraph graph, CUgraphNode *nodes, size_t *n)
{
    EMU_CALL(CONTEXT);
    if (state().graphs.count(graph) == 0 || n == nullptr)
        return CUDA_ERROR_INVALID_VALUE;
    const size_t present = graph->operations.size();
    if (nodes != nullptr)
        for (size_t i = 0; i < *n; i++)
            nodes[i] = i < present ? node_of(graph, i) : nullptr;
    if (nodes == nullptr || *n > present)
        *n = present;
    return CUDA_SUCCESS;
}
