/* Stream capture and graphs. A graph is a list: its operations run in the order in which they were captured. */
#include <string.h>

#include "driver.h"

using namespace emu;

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
    *executable = new CUgraphExec_st{graph->operations};
    state().executables.insert(*executable);
    return CUDA_SUCCESS;
}

CUresult cuGraphUpload(CUgraphExec executable, CUstream stream)
{
    EMU_CALL(CONTEXT);
    return state().executables.count(executable) && known(stream) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
}

CUresult cuGraphLaunch(CUgraphExec executable, CUstream stream)
{
    EMU_CALL(CONTEXT);
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

/* The nodes are good for counting only. */
CUresult cuGraphGetNodes(CUgraph graph, CUgraphNode *nodes, size_t *n)
{
    EMU_CALL(CONTEXT);
    if (state().graphs.count(graph) == 0 || n == nullptr)
        return CUDA_ERROR_INVALID_VALUE;
    const size_t present = graph->operations.size();
    if (nodes != nullptr)
        for (size_t i = 0; i < *n; i++)
            nodes[i] = i < present ? reinterpret_cast<CUgraphNode>(&graph->operations[i]) : nullptr;
    if (nodes == nullptr || *n > present)
        *n = present;
    return CUDA_SUCCESS;
}
