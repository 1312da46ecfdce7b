#include "models/network.hpp"

#include "models/pixel_dit_network.hpp"

namespace dit {

NetworkRegistry built_in_networks() {
  return {{kPixelDitClass, read_pixel_dit}};
}

}  // namespace dit
