#include "failure.hpp"

#include <c10/util/Exception.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <iostream>

#include "exchange/exchange.hpp"

namespace dit::tool {

namespace {

/// A message in one line: ends of lines become blanks.
std::string one_line(std::string text) {
  while (!text.empty() && text.back() == '\n') text.pop_back();
  std::replace(text.begin(), text.end(), '\n', ' ');
  return text;
}

/// libtorch adds its own place and stack to what went wrong.
std::string first_line(const std::string& text) {
  return text.substr(0, text.find('\n'));
}

}  // namespace

Verdict verdict_of(const std::exception_ptr& error) {
  try {
    std::rethrow_exception(error);
  } catch (const Failure& failure) {
    return {failure.status(), one_line(failure.what()), failure.said()};
  } catch (const CLI::ParseError& parse) {
    return {exit_argument, one_line(parse.what())};
  } catch (const c10::Error& torch) {
    return {exit_failed, first_line(torch.what_without_backtrace())};
  } catch (const ExchangeError& exchange) {
    const bool follows =
        exchange.status() == DIT_ERROR_TIMEOUT || exchange.status() == DIT_ERROR_COMMUNICATION;
    return {exchange.status() == DIT_ERROR_ARGUMENT ? exit_argument : exit_failed, one_line(exchange.what()),
            false, follows};
  } catch (const std::invalid_argument& argument) {
    return {exit_argument, one_line(argument.what())};
  } catch (const std::length_error& length) {  // does not fit what was allowed, such as a cache budget
    return {exit_argument, one_line(length.what())};
  } catch (const std::bad_alloc&) {
    return {exit_failed, "out of memory"};
  } catch (const std::exception& other) {
    return {exit_failed, one_line(other.what())};
  } catch (...) {
    return {exit_failed, "an error without a message"};
  }
}

void say(const std::string& line) {
  std::cerr << "dit: " + line + "\n" << std::flush;
}

}  // namespace dit::tool
