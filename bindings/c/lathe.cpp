#include "bindings/c/lathe.h"

#include <fmt/format.h>

#include <cstdlib>
#include <cstring>
#include <new>

#include "ir/analysis/check_given.h"
#include "ir/error.h"
#include "ir/text/parse.h"
#include "jit/cache/signature.h"
#include "jit/compile.h"
#include "jit/dlpack.h"
#include "jit/run.h"
#include "jit/runtime/threads.h"

struct LatheProgram {
  lathe::Parameters parameters;
  std::shared_ptr<lathe::Kernel> kernel;
};

namespace {

using namespace lathe;

thread_local std::string last_error;

LatheResult fail(LatheResult result, const char* message) {
  last_error = message;
  return result;
}

/// Runs `body` and turns what it throws into a result.
template <class F>
LatheResult guarded(F body) {
  last_error.clear();
  try {
    body();
    return LATHE_RESULT_OK;
  } catch (const InputError& error) {
    switch (error.mistake) {
      case Mistake::value:
        return fail(LATHE_RESULT_VALUE, error.what());
      case Mistake::type:
        return fail(LATHE_RESULT_TYPE, error.what());
      case Mistake::index:
        return fail(LATHE_RESULT_INDEX, error.what());
      case Mistake::syntax:
        return fail(LATHE_RESULT_SYNTAX, error.what());
    }
    return fail(LATHE_RESULT_BUG, error.what());
  } catch (const Refusal& error) {
    return fail(LATHE_RESULT_REFUSED, error.what());
  } catch (const Bug& error) {
    return fail(LATHE_RESULT_BUG, error.what());
  } catch (const Error& error) {
    return fail(LATHE_RESULT_FAILED, error.what());
  } catch (const std::bad_alloc&) {
    return fail(LATHE_RESULT_FAILED, "out of memory");
  } catch (const std::exception& error) {
    return fail(LATHE_RESULT_BUG, error.what());
  }
}

template <class T>
void require(const T* pointer, const char* name) {
  if (!pointer) throw InputError(Mistake::value, std::string(name) + " is null");
}

TensorView view_of(const void* pointer, int position) {
  const auto& tensor = *static_cast<const dlpack::Tensor*>(pointer);
  if (tensor.device.type != dlpack::cpu) {
    throw InputError(Mistake::value, fmt::format("tensor {} lives on DLPack device type {}, expected the CPU (1)",
                                                 position, tensor.device.type));
  }
  TensorView view;
  view.data = tensor.data ? static_cast<char*>(tensor.data) + tensor.byte_offset : nullptr;
  view.dtype = dlpack::element_type(tensor.dtype);
  view.rank = tensor.rank;
  view.shape = tensor.shape;
  view.strides = tensor.strides;
  if (!view.data && view.elements() > 0) {
    throw InputError(Mistake::value, fmt::format("tensor {} has elements but no data", position));
  }
  return view;
}

}  // namespace

const char* lathe_version(void) {
  return lathe::lathe_version;
}
int32_t lathe_abi_version(void) {
  return LATHE_ABI_VERSION;
}

LatheResult lathe_compile(const char* tir, LatheProgram** program) {
  return guarded([&] {
    require(tir, "tir");
    require(program, "program");
    *program = nullptr;
    const Func func = parse_func(tir);
    check_given(func);
    *program = std::make_unique<LatheProgram>(Parameters(func), compile(func, compile_device())).release();
  });
}

void lathe_release(LatheProgram* program) {
  delete program;
}

LatheResult lathe_arity(const LatheProgram* program, int32_t* arrays, int32_t* scalars) {
  return guarded([&] {
    require(program, "program");
    if (arrays) *arrays = static_cast<int32_t>(program->parameters.arrays());
    if (scalars) *scalars = static_cast<int32_t>(program->parameters.scalars().size());
  });
}

LatheResult lathe_run(const LatheProgram* program, void* const* tensors, int32_t tensor_count, const int64_t* scalars,
                      int32_t scalar_count) {
  return guarded([&] {
    require(program, "program");
    std::vector<TensorView> views;
    for (int i = 0; i < tensor_count; ++i) {
      require(tensors[i], "a tensor");
      views.push_back(view_of(tensors[i], i));
    }
    run_kernel(program->parameters, *program->kernel, views, {scalars, static_cast<size_t>(scalar_count)});
  });
}

LatheResult lathe_stage_text(const LatheProgram* program, const char* stage, char** text) {
  return guarded([&] {
    require(program, "program");
    require(stage, "stage");
    require(text, "text");
    const std::string made = stage_text(program->parameters.func(), compile_device(), stage);
    *text = static_cast<char*>(std::malloc(made.size() + 1));
    if (!*text) throw std::bad_alloc();
    std::memcpy(*text, made.c_str(), made.size() + 1);
  });
}

void lathe_free_text(char* text) {
  std::free(text);
}

const char* lathe_last_error(void) {
  return last_error.c_str();
}

LatheResult lathe_set_thread_count(int32_t count) {
  return guarded([&] { lathe::set_thread_count(count); });
}
