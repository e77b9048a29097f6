// Python's lock, given back while the core works.
//
// A thread may outlive the interpreter (a daemon thread that trains while the program ends). Before
// 3.14 Python ends such a thread when it asks for the lock, by unwinding it through C++ that does
// not allow that, and the process aborts. It waits for the end of the process here instead.
#pragma once

#include <Python.h>

namespace bitgrove {

// The interpreter is about to end; called by the thread that ends it.
void leave_python();
// Returns unless another thread has called leave_python().
void wait_if_left();

class WithoutGil {
 public:
  WithoutGil() : state_(PyEval_SaveThread()) {}
  ~WithoutGil() {
    wait_if_left();
    PyEval_RestoreThread(state_);
  }
  WithoutGil(const WithoutGil&) = delete;
  WithoutGil& operator=(const WithoutGil&) = delete;

 private:
  PyThreadState* state_;
};

}  // namespace bitgrove
