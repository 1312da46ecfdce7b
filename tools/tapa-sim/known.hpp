/// @file
/// Times that earlier runs of tapa-sim have found. A simulation gives the same every time, so what a file of
/// --json holds need not be simulated again.
#pragma once

#include <string>
#include <vector>

#include "report.hpp"

namespace tapa::sim_tool {

/// Adds the rows of files that --json wrote to those of `report`: times of plans and rivals, of the sizes
/// that `report` has. Throws std::invalid_argument that names the file where it cannot be read, is no such
/// file, or is of another machine, other ranks or another placement than `report`.
void add_known(Report& report, const std::vector<std::string>& files);

/// The same of the text of one file, which errors name as `path`.
void add_known_text(Report& report, const std::string& text, const std::string& path);

}  // namespace tapa::sim_tool
