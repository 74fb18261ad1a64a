/* harness FILE BYTES ...: reads each buffer from its file, runs the kernel once, and writes every buffer back. Linked
   with one kernel by a cross compiler, and run under an emulator. KERNEL, SHARED_BYTES and WORKER_BYTES come from
   cross_object. */
#include <stdio.h>
#include <stdlib.h>

#include "ir/abi.h"

extern int32_t KERNEL(LatheContext* context, void* const* buffers, const int64_t* scalars);

static int32_t serially(LatheContext* context, int64_t n, int64_t grain, LatheParallelBody body, void* closure) {
  for (int64_t begin = 0; begin < n; begin += grain) {
    const int32_t status = body(closure, begin, begin + grain < n ? begin + grain : n, 0);
    if (status) return status;
  }
  return 0;
}

static void* workspace(size_t bytes) {
  return aligned_alloc(64, (bytes + 64) / 64 * 64);
}

int main(int argc, char** argv) {
  void* buffers[16];
  const int count = (argc - 1) / 2;
  for (int i = 0; i < count; ++i) {
    const size_t bytes = (size_t)atoll(argv[2 + 2 * i]);
    buffers[i] = workspace(bytes);
    FILE* file = fopen(argv[1 + 2 * i], "rb");
    if (!file || fread(buffers[i], 1, bytes, file) != bytes) return 100;
    fclose(file);
  }
  LatheContext context = {LATHE_ABI_VERSION, 1,      serially, workspace(SHARED_BYTES), workspace(WORKER_BYTES),
                          WORKER_BYTES,      {0, 0}, 0};
  const int32_t status = KERNEL(&context, buffers, 0);
  for (int i = 0; i < count; ++i) {
    FILE* file = fopen(argv[1 + 2 * i], "wb");
    fwrite(buffers[i], 1, (size_t)atoll(argv[2 + 2 * i]), file);
    fclose(file);
  }
  return status;
}
