/* Lathe's stable C interface: compile a program from .tir text, run it on DLPack tensors.

   Every function returns a LatheResult; lathe_last_error() has the message of this thread's last failure. No exception
   crosses this interface. All functions may be called from any thread; a kernel may run on many threads at once. */
#ifndef LATHE_H
#define LATHE_H
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#if defined(__GNUC__)
#define LATHE_API __attribute__((visibility("default")))
#else
#define LATHE_API
#endif

typedef enum LatheResult {
  LATHE_RESULT_OK = 0,
  LATHE_RESULT_VALUE = 1,   /* a shape, number or name is wrong */
  LATHE_RESULT_TYPE = 2,    /* a dtype or kind is wrong */
  LATHE_RESULT_INDEX = 3,   /* an index lies outside; nothing was read there */
  LATHE_RESULT_SYNTAX = 4,  /* text that does not parse */
  LATHE_RESULT_REFUSED = 5, /* cannot be done to this program */
  LATHE_RESULT_FAILED = 6,  /* out of memory, or the host's callback failed */
  LATHE_RESULT_BUG = 7      /* please report */
} LatheResult;

typedef struct LatheProgram LatheProgram;

/* "0.1.0". */
LATHE_API const char* lathe_version(void);
/* The ABI version of this library: LATHE_ABI_VERSION of ir/abi.h. */
LATHE_API int32_t lathe_abi_version(void);

/* Compiles one func of .tir text for this machine. *program is to be released. LATHE_RESULT_VALUE when it can be shown
   to break a rule of its stage, or to touch an element outside of a buffer; what can only not be shown to stay inside
   (an index that is loaded, without an assertion) is taken at the caller's word. */
LATHE_API LatheResult lathe_compile(const char* tir, LatheProgram** program);
LATHE_API void lathe_release(LatheProgram* program);

/* How many arrays and scalars lathe_run takes, in parameter order. */
LATHE_API LatheResult lathe_arity(const LatheProgram* program, int32_t* arrays, int32_t* scalars);

/* Runs the program. `tensors` are DLTensor pointers on the CPU, one a buffer parameter; those the program writes are
   overwritten. Scalars are 64 bits each: integers as they are, f64 and f32 as their bits. */
LATHE_API LatheResult lathe_run(const LatheProgram* program, void* const* tensors, int32_t tensor_count,
                                const int64_t* scalars, int32_t scalar_count);

/* The program after a stage ("traced", "scheduled", "begin" .. "end", "llvm", "asm"), as text owned by the caller:
   lathe_free_text. */
LATHE_API LatheResult lathe_stage_text(const LatheProgram* program, const char* stage, char** text);
LATHE_API void lathe_free_text(char* text);

/* This thread's last failure; "" when there was none. Valid until this thread's next call. */
LATHE_API const char* lathe_last_error(void);

/* Worker threads of later calls, at most 4096; 0 brings the default back: what affinity and cgroup allow. */
LATHE_API LatheResult lathe_set_thread_count(int32_t count);

#ifdef __cplusplus
}
#endif
#endif
