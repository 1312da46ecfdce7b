#include "failure.hpp"

#include <c10/util/Exception.h>

#include <CLI/CLI.hpp>
#include <cstdlib>
#include <iostream>
#include <string_view>

#include "exchange/exchange.hpp"
#include "quantity.hpp"

namespace dit::tool {

namespace {

/// A message in one line: ends of lines and what they indent become one blank.
std::string one_line(const std::string& text) {
  std::string line;
  bool at_begin = false;
  for (const char c : text) {
    if (at_begin && c == ' ') continue;
    at_begin = c == '\n';
    line += at_begin ? ' ' : c;
  }
  line.erase(line.find_last_not_of(' ') + 1);
  return line;
}

/// libtorch adds its own place and stack to what went wrong.
std::string torch_line(const std::string& text) {
  static constexpr std::string_view asked = "you tried to allocate ";
  const std::size_t at = text.find(asked);
  if (at == std::string::npos) return text.substr(0, text.find('\n'));
  const double bytes = std::strtod(text.c_str() + at + asked.size(), nullptr);
  return "out of memory: no room for a tensor of " + bytes_text(bytes) +
         "; a smaller image or batch, or more ranks, need less";
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
    return {exit_failed, torch_line(torch.what_without_backtrace())};
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
