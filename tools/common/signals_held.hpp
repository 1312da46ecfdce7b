/// @file
/// A program that is asked to end while it writes a file ends when the file is there.
#pragma once

#include <pthread.h>

#include <csignal>

namespace tapa {

/// SIGINT, SIGTERM and SIGHUP reach this thread only when it is gone. In programs of one thread; another
/// thread would take them.
class SignalsHeld {
 public:
  SignalsHeld() {
    sigset_t held;
    sigemptyset(&held);
    for (const int number : {SIGINT, SIGTERM, SIGHUP}) sigaddset(&held, number);
    pthread_sigmask(SIG_BLOCK, &held, &before_);
  }
  ~SignalsHeld() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
  SignalsHeld(const SignalsHeld&) = delete;
  SignalsHeld& operator=(const SignalsHeld&) = delete;

 private:
  sigset_t before_;
};

}  // namespace tapa
