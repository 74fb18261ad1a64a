/* What compiled kernels and the runtime share. Plain C: generated code, the C ABI and hosts in other languages read it.
   Offsets of LatheContext are part of the ABI: append only, and raise LATHE_ABI_VERSION on any change. */
#ifndef LATHE_IR_ABI_H
#define LATHE_IR_ABI_H
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define LATHE_ABI_VERSION 1

/* What a kernel returns. */
enum LatheStatus {
  LATHE_OK = 0,
  LATHE_INDEX_OUT_OF_RANGE = 1, /* a data-dependent index; the error slot says which */
  LATHE_ASSERTION_FAILED = 2,
  LATHE_OUT_OF_MEMORY = 3,
  LATHE_HOST_ERROR = 4 /* the host's own parallel_for or allocator failed */
};

/* Where a failing Assert is described. `message` points into the kernel's read-only data: "operator|axis|what".
   The first error of a call wins. */
typedef struct LatheKernelError {
  const char* message;
  int64_t index;
} LatheKernelError;

struct LatheContext;

typedef int32_t (*LatheParallelBody)(void* closure, int64_t begin, int64_t end, int32_t worker);
/* Runs body over [0, n) in pieces of about `grain`, at most `thread_count` workers at once, worker < thread_count.
   Kernels call it for a single thread too: it then runs body on the caller, as worker 0.
   Returns the first non-zero status of a body, or 0. */
typedef int32_t (*LatheParallelFor)(struct LatheContext* context, int64_t n, int64_t grain, LatheParallelBody body,
                                    void* closure);

/* What one call carries into a kernel. */
typedef struct LatheContext {
  int32_t abi_version;
  int32_t thread_count;
  LatheParallelFor parallel_for;
  void* shared_workspace; /* at least the kernel's shared bytes, 64-byte aligned */
  void* worker_workspace; /* thread_count pieces of worker_stride bytes, 64-byte aligned */
  int64_t worker_stride;
  LatheKernelError error;
  void* host; /* the runtime's or the host's own */
} LatheContext;

/* A kernel. Buffers and scalars stand in parameter order. */
typedef int32_t (*LatheKernel)(LatheContext* context, void* const* buffers, const int64_t* scalars);

#ifdef __cplusplus
}
#endif
#endif
